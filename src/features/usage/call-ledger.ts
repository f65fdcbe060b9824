import { sql } from 'kysely';
import { randomUUID, wallMs } from '../../platform/base/chance.ts';
import { hourMs } from '../../platform/base/moment.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { takeOldCounts } from '../../platform/store/statements.ts';
import { GrowingCounts, keptDays } from './growing-counts.ts';

export const serviceId = 'service';

export const usageColumns = { consumer: 'consumer_id', operation: 'operation', day: 'day' } as const;

interface CountedCalls {
  /** Hours since 1970. */
  hour: number;
  consumer_id: string;
  operation: string;
  /** In parts where requests of several consumers share a call. */
  calls: number;
  /** Requests that these calls carried; one that needs two calls counts in both. */
  requests: number;
}

interface UsageRow {
  name: string;
  calls: number;
  requests: number;
}

interface UsageQuery {
  by: keyof typeof usageColumns;
  /** Hours since 1970: from this one on, and before that one. */
  from: number;
  to: number;
  consumer?: string;
}

export const mostRows = 1000;
const hourAsTime = sql.raw('to_timestamp(hour * 3600::double precision)');

export class CallLedger {
  readonly #database: Database;
  readonly #process = randomUUID();
  readonly #clock: () => number;
  readonly #counts: GrowingCounts<CountedCalls>;

  /** `clock`: milliseconds since 1970. */
  constructor(database: Database, log: Log, clock: () => number = wallMs) {
    this.#database = database;
    this.#clock = clock;
    this.#counts = new GrowingCounts({ write: (rows) => this.#store(rows), of: 'CRM calls', log });
  }

  /** A call was made for this many requests, each of a consumer or, where undefined, of the service itself. */
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

  /**
   * The sums of all processes, the largest first, days in order; and all calls, also those of rows beyond the limit. Throws
   * `store_unavailable`.
   */
  read(query: UsageQuery): Promise<{ rows: UsageRow[]; total: number }> {
    return orUnavailable(() => this.#read(query), { keeps: 'counts CRM calls' });
  }

  async #read({ by, from, to, consumer }: UsageQuery) {
    await this.#counts.flush();
    const column = sql.raw(
      by === 'day' ? `to_char(hour at time zone 'UTC', 'YYYY-MM-DD')` : usageColumns[by],
    );
    const seconds = (hours: number) => sql`to_timestamp(${hours * 3600}::double precision)`;
    const { rows } = await sql<UsageRow & { total: number }>`
      select ${column} as name, sum(calls) as calls, sum(requests)::double precision as requests,
        sum(sum(calls)) over () as total
      from crm_usage where hour >= ${seconds(from)} and hour < ${seconds(to)}
        ${consumer === undefined ? sql`` : sql`and consumer_id = ${consumer}`}
      group by 1 order by ${sql.raw(by === 'day' ? '1' : '2 desc, 1')} limit ${mostRows}
    `.execute(this.#database.sql);
    return {
      rows: rows.map(({ name, calls, requests }) => ({ name, calls, requests })),
      total: rows[0]?.total ?? 0,
    };
  }

  /** The calls of one consumer by day (YYYY-MM-DD, UTC). Throws as `read` does. */
  async ofConsumer(id: string, from: number, to: number): Promise<Map<string, number>> {
    const { rows } = await this.read({ by: 'day', from, to, consumer: id });
    return new Map(rows.map(({ name, calls }) => [name, calls]));
  }

  /** Adds up the rows of processes for hours to which none adds any more, and deletes those that are too old. Throws as `read`. */
  async compact(): Promise<void> {
    await sql`
      with ${takeOldCounts('crm_usage', 'hour', sql`now() - interval '1 day'`)}
      insert into crm_usage as known (hour, consumer_id, operation, process, calls, requests)
      select hour, consumer_id, operation, '', sum(calls), sum(requests) from old group by 1, 2, 3
      on conflict (hour, consumer_id, operation, process) do update
        set calls = known.calls + excluded.calls, requests = known.requests + excluded.requests
    `.execute(this.#database.bulk);
    await sql`delete from crm_usage where hour < now() - make_interval(days => ${keptDays}::int)`.execute(
      this.#database.bulk,
    );
  }

  /** Writes what is left. Never throws. */
  stop(): Promise<void> {
    return this.#counts.stop();
  }

  /** Stores what this process has counted. Counts only grow: to store them again, or an earlier count later, does no harm. */
  async #store(counted: readonly CountedCalls[]): Promise<void> {
    await sql`
      insert into crm_usage as known (hour, consumer_id, operation, process, calls, requests)
      select ${hourAsTime}, consumer_id, operation, ${this.#process}, calls, requests
      from json_to_recordset(${JSON.stringify(counted)}::json) as counted (
        hour bigint, consumer_id text, operation text, calls double precision, requests bigint)
      on conflict (hour, consumer_id, operation, process) do update
        set calls = greatest(known.calls, excluded.calls), requests = greatest(known.requests, excluded.requests)
    `.execute(this.#database.sql);
  }
}
