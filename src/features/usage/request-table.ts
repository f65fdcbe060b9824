import { sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { keptDays } from './growing-counts.ts';

/** Classes of answers; 304 and the like count to the first. */
export const answerClasses = ['2xx', '4xx', '5xx'] as const;
export type AnswerClass = (typeof answerClasses)[number];
type AnswerCounts = Record<AnswerClass, number>;

/** What one process has counted on a day, so far. */
export interface CountedRequests extends AnswerCounts {
  /** Days since 1970. */
  day: number;
  consumer_id: string;
}

const columns = ['answers_2xx', 'answers_4xx', 'answers_5xx'];
const each = (form: (column: string) => string) => sql.raw(columns.map(form).join(', '));

/** Requests by day and consumer in the database. Methods throw what that does. */
export class RequestTable {
  readonly #database: Database;
  readonly #process: string;

  constructor(database: Database, process: string) {
    this.#database = database;
    this.#process = process;
  }

  /** Stores what this process has counted. Counts only grow: to store them again, or an earlier count later, does no harm. */
  async store(counted: readonly CountedRequests[]): Promise<void> {
    await sql`
      insert into consumer_requests as known (day, consumer_id, process, ${each((column) => column)})
      select date '1970-01-01' + day, consumer_id, ${this.#process}, "2xx", "4xx", "5xx"
      from json_to_recordset(${JSON.stringify(counted)}::json) as counted (
        day int, consumer_id text, "2xx" bigint, "4xx" bigint, "5xx" bigint)
      on conflict (consumer_id, day, process) do update
        set ${each((column) => `${column} = greatest(known.${column}, excluded.${column})`)}
    `.execute(this.#database.sql);
  }

  /** The sums of all processes for each day of a consumer, from and before these days since 1970. */
  async read(consumerId: string, from: number, to: number): Promise<({ day: string } & AnswerCounts)[]> {
    const { rows } = await sql<{ day: string } & AnswerCounts>`
      select to_char(day, 'YYYY-MM-DD') as day, sum(answers_2xx)::double precision as "2xx",
        sum(answers_4xx)::double precision as "4xx", sum(answers_5xx)::double precision as "5xx"
      from consumer_requests
      where consumer_id = ${consumerId} and day >= date '1970-01-01' + ${from}::int and day < date '1970-01-01' + ${to}::int
      group by 1 order by 1
    `.execute(this.#database.sql);
    return rows;
  }

  /** Adds up the rows of processes for days that are over, and deletes those that are too old. */
  async compact(): Promise<void> {
    await sql`
      with old as (
        delete from consumer_requests where process <> '' and day < current_date - 1 returning *)
      insert into consumer_requests as known (day, consumer_id, process, ${each((column) => column)})
      select day, consumer_id, '', ${each((column) => `sum(${column})`)} from old group by 1, 2
      on conflict (consumer_id, day, process) do update
        set ${each((column) => `${column} = known.${column} + excluded.${column}`)}
    `.execute(this.#database.bulk);
    await sql`delete from consumer_requests where day < current_date - ${keptDays}::int`.execute(
      this.#database.bulk,
    );
  }
}
