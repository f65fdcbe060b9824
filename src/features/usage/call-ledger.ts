import { randomUUID } from 'node:crypto';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { CallTable, type CountedCalls, type UsageQuery } from './call-table.ts';
import { GrowingCounts } from './growing-counts.ts';

/** Who is charged for the gateway's own calls. */
export const serviceId = 'service';
const hourMs = 3_600_000;

/** Charges each metered call of the CRM to those whose requests shared it. */
export class CallLedger {
  readonly #table: CallTable;
  readonly #clock: () => number;
  readonly #counts: GrowingCounts<CountedCalls>;

  /** `clock`: milliseconds since 1970. */
  constructor(database: Database, log: Log, clock: () => number = Date.now) {
    this.#table = new CallTable(database, randomUUID());
    this.#clock = clock;
    this.#counts = new GrowingCounts({ write: (rows) => this.#table.store(rows), of: 'CRM calls', log });
  }

  /** A call was made for so many requests, each of a consumer or, where undefined, of the service itself. */
  note(operation: string, requests: readonly (string | undefined)[]): void {
    const hour = Math.floor(this.#clock() / hourMs);
    const shares = new Map<string, number>();
    for (const consumer of requests) {
      const id = consumer ?? serviceId;
      shares.set(id, (shares.get(id) ?? 0) + 1);
    }
    for (const [consumer_id, count] of shares) {
      const start = () => ({ hour, consumer_id, operation, calls: 0, requests: 0 });
      const counted = this.#counts.row(hour, `${consumer_id} ${operation}`, start);
      counted.calls += count / requests.length;
      counted.requests += count;
    }
  }

  /** Everything that this process has counted, and what others have stored. Throws what the database does. */
  async read(query: UsageQuery) {
    await this.#counts.flush();
    return this.#table.read(query);
  }

  /** The calls of one consumer by day (YYYY-MM-DD, UTC). Throws as `read` does. */
  async ofConsumer(id: string, from: number, to: number): Promise<Map<string, number>> {
    const { rows } = await this.read({ by: 'day', from, to, consumer: id });
    return new Map(rows.map(({ name, calls }) => [name, calls]));
  }

  compact(): Promise<void> {
    return this.#table.compact();
  }

  /** Writes what is left. Never throws. */
  stop(): Promise<void> {
    return this.#counts.stop();
  }
}
