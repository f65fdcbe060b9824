import { sql } from 'kysely';
import { randomUUID } from '../../platform/base/chance.ts';
import type { Database } from '../../platform/store/database.ts';
import { takeOldCounts } from '../../platform/store/statements.ts';

export interface StoredUse {
  consumer_id: string;
  /** Days since 1970. */
  day: number;
  ofDay: number;
  ofMonth: number;
  own: number;
}

const date = (day: number) => sql`(date '1970-01-01' + ${day}::int)`;

export class AllowancesTable {
  readonly #database: Database;
  readonly #process = randomUUID();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Stores what this process has counted. Counts only grow: to store an earlier one later does no harm. */
  async store(rows: readonly { consumerId: string; day: number; requests: number }[]): Promise<void> {
    await sql`
      insert into allowance_uses as known (consumer_id, day, process, requests)
      select "consumerId", date '1970-01-01' + day, ${this.#process}, requests
      from json_to_recordset(${JSON.stringify(rows)}::json) as counted ("consumerId" text, day int, requests bigint)
      on conflict (consumer_id, day, process) do update set requests = greatest(known.requests, excluded.requests)
    `.execute(this.#database.sql);
  }

  read(consumerIds: readonly string[], day: number): Promise<StoredUse[]> {
    const ids = sql`select jsonb_array_elements_text(${JSON.stringify(consumerIds)}::jsonb)`;
    return this.#read(day, sql`and consumer_id in (${ids})`);
  }

  readAll(day: number): Promise<StoredUse[]> {
    return this.#read(day, sql``);
  }

  async #read(day: number, which: ReturnType<typeof sql>): Promise<StoredUse[]> {
    const { rows } = await sql<Omit<StoredUse, 'day'>>`
      select consumer_id, sum(requests)::double precision as "ofMonth",
        coalesce(sum(requests) filter (where day = ${date(day)}), 0)::double precision as "ofDay",
        coalesce(sum(requests) filter (where day = ${date(day)} and process = ${this.#process}), 0)::double precision as own
      from allowance_uses
      where day >= date_trunc('month', ${date(day)}) and day <= ${date(day)} ${which}
      group by consumer_id
    `.execute(this.#database.sql);
    return rows.map((row) => ({ ...row, day }));
  }

  async claimNotice(
    transaction: Database['sql'],
    { consumerId, state: { per }, period }: { consumerId: string; state: { per: string }; period: string },
  ): Promise<boolean> {
    const { rows } = await sql`
      insert into allowance_notices (consumer_id, per, period) values (${consumerId}, ${per}, ${period}::date)
      on conflict do nothing returning period`.execute(transaction);
    return rows.length > 0;
  }

  async compact(): Promise<void> {
    await sql`
      with ${takeOldCounts('allowance_uses', 'day', sql`current_date - 1`)}
      insert into allowance_uses as known (consumer_id, day, process, requests)
      select consumer_id, day, '', sum(requests) from old group by 1, 2
      on conflict (consumer_id, day, process) do update set requests = known.requests + excluded.requests
    `.execute(this.#database.bulk);
    await sql`delete from allowance_uses where day < current_date - 62`.execute(this.#database.bulk);
    await sql`delete from allowance_notices where period < current_date - 62`.execute(this.#database.bulk);
  }
}
