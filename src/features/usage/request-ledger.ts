import { randomUUID } from 'node:crypto';
import type { Attempt, AttemptResult } from '../../identity/audit/attempt.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { GrowingCounts } from './growing-counts.ts';
import { type AnswerClass, type CountedRequests, RequestTable } from './request-table.ts';

const dayMs = 86_400_000;
/** The caller has proved who it is. */
const authenticated: readonly AttemptResult[] = ['accepted', 'permission_denied'];

/** Counts the requests of each consumer by day (UTC) and class of the answer. */
export class RequestLedger {
  readonly #table: RequestTable;
  readonly #clock: () => number;
  readonly #counts: GrowingCounts<CountedRequests>;

  /** `clock`: milliseconds since 1970. */
  constructor(database: Database, log: Log, clock: () => number = Date.now) {
    this.#table = new RequestTable(database, randomUUID());
    this.#clock = clock;
    this.#counts = new GrowingCounts({ write: (rows) => this.#table.store(rows), of: 'requests', log });
  }

  note({ consumer_id, result, status }: Attempt): void {
    if (consumer_id === null || status === null || !authenticated.includes(result)) return;
    const day = Math.floor(this.#clock() / dayMs);
    const start = () => ({ day, consumer_id, '2xx': 0, '4xx': 0, '5xx': 0 });
    this.#counts.row(day, consumer_id, start)[classOf(status)] += 1;
  }

  /** The days of one consumer on which it called, in their order, those of other processes included. Throws what the database does. */
  async ofConsumer(id: string, from: number, to: number) {
    await this.#counts.flush();
    return this.#table.read(id, from, to);
  }

  compact(): Promise<void> {
    return this.#table.compact();
  }

  /** Writes what is left. Never throws. */
  stop(): Promise<void> {
    return this.#counts.stop();
  }
}

function classOf(status: number): AnswerClass {
  if (status >= 500) return '5xx';
  return status >= 400 ? '4xx' : '2xx';
}
