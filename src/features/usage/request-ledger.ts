import { sql } from 'kysely';
import type { Attempt, AttemptResult } from '../../identity/audit/attempt.ts';
import { randomUUID, wallMs } from '../../platform/base/chance.ts';
import { dayMs } from '../../platform/base/moment.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { takeOldCounts } from '../../platform/store/statements.ts';
import { GrowingCounts, keptDays } from './growing-counts.ts';

const authenticated: readonly AttemptResult[] = ['accepted', 'permission_denied'];

export const answerClasses = ['2xx', '4xx', '5xx'] as const;
type AnswerClass = (typeof answerClasses)[number];
type AnswerCounts = Record<AnswerClass, number>;

interface CountedRequests extends AnswerCounts {
  /** Days since 1970. */
  day: number;
  consumer_id: string;
}

const columns = ['answers_2xx', 'answers_4xx', 'answers_5xx'];
const each = (form: (column: string) => string) => sql.raw(columns.map(form).join(', '));

export class RequestLedger {
  readonly #database: Database;
  readonly #process = randomUUID();
  readonly #clock: () => number;
  readonly #counts: GrowingCounts<CountedRequests>;

  /** `clock`: milliseconds since 1970. */
  constructor(database: Database, log: Log, clock: () => number = wallMs) {
    this.#database = database;
    this.#clock = clock;
    this.#counts = new GrowingCounts({ write: (rows) => this.#store(rows), of: 'requests', log });
  }

  note({ consumer_id, result, status }: Attempt): void {
    if (consumer_id === null || status === null || !authenticated.includes(result)) return;
    const day = Math.floor(this.#clock() / dayMs);
    const start = () => ({ day, consumer_id, '2xx': 0, '4xx': 0, '5xx': 0 });
    this.#counts.row(day, consumer_id, start)[classOf(status)] += 1;
  }

  /**
   * The days of one consumer on which it called, in their order, those of other processes included; from and before these
   * days since 1970. Throws `store_unavailable`.
   */
  ofConsumer(id: string, from: number, to: number): Promise<({ day: string } & AnswerCounts)[]> {
    return orUnavailable(() => this.#daysOf(id, from, to), { keeps: 'counts requests' });
  }

  async #daysOf(id: string, from: number, to: number) {
    await this.#counts.flush();
    const { rows } = await sql<{ day: string } & AnswerCounts>`
      select to_char(day, 'YYYY-MM-DD') as day, sum(answers_2xx)::double precision as "2xx",
        sum(answers_4xx)::double precision as "4xx", sum(answers_5xx)::double precision as "5xx"
      from consumer_requests
      where consumer_id = ${id} and day >= date '1970-01-01' + ${from}::int and day < date '1970-01-01' + ${to}::int
      group by 1 order by 1
    `.execute(this.#database.sql);
    return rows;
  }

  async compact(): Promise<void> {
    await sql`
      with ${takeOldCounts('consumer_requests', 'day', sql`current_date - 1`)}
      insert into consumer_requests as known (day, consumer_id, process, ${each((column) => column)})
      select day, consumer_id, '', ${each((column) => `sum(${column})`)} from old group by 1, 2
      on conflict (consumer_id, day, process) do update
        set ${each((column) => `${column} = known.${column} + excluded.${column}`)}
    `.execute(this.#database.bulk);
    await sql`delete from consumer_requests where day < current_date - ${keptDays}::int`.execute(
      this.#database.bulk,
    );
  }

  /** Writes what is left. Never throws. */
  stop(): Promise<void> {
    return this.#counts.stop();
  }

  /** Stores what this process has counted. Counts only grow: to store them again, or an earlier count later, does no harm. */
  async #store(counted: readonly CountedRequests[]): Promise<void> {
    await sql`
      insert into consumer_requests as known (day, consumer_id, process, ${each((column) => column)})
      select date '1970-01-01' + day, consumer_id, ${this.#process}, "2xx", "4xx", "5xx"
      from json_to_recordset(${JSON.stringify(counted)}::json) as counted (
        day int, consumer_id text, "2xx" bigint, "4xx" bigint, "5xx" bigint)
      on conflict (consumer_id, day, process) do update
        set ${each((column) => `${column} = greatest(known.${column}, excluded.${column})`)}
    `.execute(this.#database.sql);
  }
}

function classOf(status: number): AnswerClass {
  if (status >= 500) return '5xx';
  return status >= 400 ? '4xx' : '2xx';
}
