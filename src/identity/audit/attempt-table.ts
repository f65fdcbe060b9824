import { type RawBuilder, sql } from 'kysely';
import { dayMs } from '../../platform/base/moment.ts';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks, interval, jsonText } from '../../platform/store/statements.ts';
import { type Attempt, type AttemptResult, type AttemptSum, firstAttemptIdOf } from './attempt.ts';

export interface StoredAttempt extends Attempt {
  id: string;
}

export interface ListedAttempt extends StoredAttempt {
  count: number;
}

export interface StoredTotal extends StoredAttempt, Pick<AttemptSum, 'by'> {
  /** The start of the minute, RFC 3339 UTC. */
  minute: string;
  /** Null: of many networks. */
  name: string | null;
  count: number;
}

const rowOf: Record<AttemptSum['by'], RawBuilder<unknown>> = {
  network: sql`(minute, result, coalesce(address, '')) where minute is not null`,
  consumer: sql`(refused_minute, result, consumer_id) where refused_minute is not null`,
  alike: sql`(alike_minute, coalesce(alike, '')) where alike_minute is not null`,
};

export interface AttemptQuery {
  consumer_id?: string;
  result?: AttemptResult;
  address?: { address: string; network: string };
  api_key?: string;
  request_id?: string;
  /** Milliseconds since 1970; earlier attempts are left out. */
  since?: number;
  after?: string;
  ofConsumers?: readonly string[] | undefined;
  limit: number;
}

const deletedAtOnce = 10_000;
/** Seconds by which the clock of a replica may be ahead. */
const clockTolerance = 60;

const hashOf = (person: RawBuilder<unknown>) => sql`sha256(convert_to(lower(${person}), 'UTF8'))`;
/** Null where the person was forgotten since: the attempt may have waited in the memory of a replica. */
const personIfKept = sql`case when not exists (
  select from forgotten_people where hash = ${hashOf(sql`person`)} and "timestamp" <= until) then person end`;

export class AttemptTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Adds what is not there yet, so that a batch whose outcome is unknown can be sent again. */
  async add(attempts: readonly StoredAttempt[]): Promise<void> {
    await sql`
      insert into authentication_attempts
        (id, attempted_at, consumer_id, endpoint, result, request_id, client_address, user_agent, api_key, person, status)
      select id, "timestamp", consumer_id, endpoint, result, request_id, address, user_agent, api_key, ${personIfKept}, status
      from json_to_recordset(${jsonText(attempts)}::json) as attempt (
        id uuid, "timestamp" timestamptz, consumer_id text, endpoint text, result text, request_id text,
        address text, user_agent text, api_key text, person text, status smallint)
      on conflict do nothing`.execute(this.#database.sql);
  }

  /**
   * Sets how many attempts each of these stands for; what others have added up for the same address, consumer or kind,
   * minute and result goes to the same row. May be repeated like `add`, also with greater counts.
   */
  async addTotals(totals: readonly StoredTotal[]): Promise<void> {
    for (const by of ['network', 'consumer', 'alike'] as const) {
      const some = totals.filter((total) => total.by === by);
      if (some.length > 0) await this.#addTotalsBy(by, some);
    }
  }

  async #addTotalsBy(by: AttemptSum['by'], totals: readonly StoredTotal[]): Promise<void> {
    // Counts only grow: one that comes late must not set back a greater one.
    await sql`
      insert into authentication_attempts as known
        (id, attempted_at, consumer_id, endpoint, result, request_id, client_address, user_agent, api_key, person, status,
          minute, address, refused_minute, alike_minute, alike, counts)
      select id, "timestamp", consumer_id, endpoint, result, request_id, address, user_agent, api_key, ${personIfKept}, status,
        case "by" when 'network' then minute end, case "by" when 'network' then name end,
        case "by" when 'consumer' then minute end,
        case "by" when 'alike' then minute end, case "by" when 'alike' then name end, jsonb_build_object(id, "count")
      from json_to_recordset(${jsonText(totals)}::json) as total (
        id uuid, "timestamp" timestamptz, consumer_id text, endpoint text, result text, request_id text,
        address text, user_agent text, api_key text, person text, status smallint,
        minute timestamptz, "by" text, name text, "count" integer)
      on conflict ${rowOf[by]} do update
      set counts = known.counts || jsonb_build_object(excluded.id, greatest(
        (known.counts ->> excluded.id::text)::integer, (excluded.counts ->> excluded.id::text)::integer))`.execute(
      this.#database.sql,
    );
  }

  async list({
    consumer_id,
    result,
    address,
    api_key,
    request_id,
    since,
    after,
    ofConsumers,
    limit,
  }: AttemptQuery): Promise<ListedAttempt[]> {
    const conditions = [
      ...(consumer_id === undefined ? [] : [sql`consumer_id = ${consumer_id}`]),
      ...(result === undefined ? [] : [sql`result = ${result}`]),
      ...(api_key === undefined ? [] : [sql`api_key = ${api_key}`]),
      ...(request_id === undefined ? [] : [sql`request_id = ${request_id}`]),
      ...(address === undefined
        ? []
        : [
            sql`(client_address = ${address.address} or (minute is not null and address = ${address.network}))`,
          ]),
      ...(since === undefined ? [] : [sql`id >= ${firstAttemptIdOf(since)}::uuid`]),
      ...(after === undefined ? [] : [sql`id < ${after}::uuid`]),
      ...(ofConsumers === undefined ? [] : [sql`consumer_id = any(${ofConsumers}::text[])`]),
    ];
    const where = conditions.length === 0 ? sql`` : sql`where ${sql.join(conditions, sql` and `)}`;
    const { rows } = await sql<
      Omit<ListedAttempt, 'timestamp' | 'address'> & { attempted_at: Date; client_address: string | null }
    >`
      select id, attempted_at, consumer_id, endpoint, result, request_id,
        client_address, user_agent, api_key, person, status,
        coalesce((select sum(value::integer) from jsonb_each_text(counts)), 1)::integer as count
      from authentication_attempts ${where}
      order by id desc limit ${limit}`.execute(this.#database.sql);
    return rows.map(({ attempted_at, client_address, ...row }) => ({
      ...row,
      timestamp: attempted_at.toISOString(),
      address: client_address,
    }));
  }

  async hasOthersThan(consumerIds: readonly string[]): Promise<boolean> {
    const { rows } = await sql<{ found: boolean }>`
      select exists (
        select from authentication_attempts
        where consumer_id is not null and not consumer_id = any(${consumerIds}::text[])) as found`.execute(
      this.#database.sql,
    );
    return rows[0]?.found === true;
  }

  /** Deletes what is older; `now` in milliseconds since 1970. Returns how many. */
  async deleteOlderThan(days: number, now: number, signal?: AbortSignal): Promise<number> {
    const oldest = now - days * dayMs;
    await sql`delete from forgotten_people where until < ${new Date(oldest)}`.execute(this.#database.bulk);
    const boundary = firstAttemptIdOf(oldest);
    const statement = (limit: number) => sql`
      delete from authentication_attempts where id in (
        select id from authentication_attempts where id < ${boundary}::uuid order by id limit ${limit})`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

/**
 * Attempts no longer name the person, in any case of letters, nor do those that replicas have yet to write; returns how many did.
 * Throws what the database does.
 */
export async function forgetPersonInAttempts({ bulk }: Database, person: string): Promise<number> {
  await sql`
    insert into forgotten_people values (${hashOf(sql`${person}`)}, now() + ${interval(clockTolerance)})
    on conflict (hash) do update set until = excluded.until`.execute(bulk);
  // Statements that don't see this end first.
  await bulk
    .transaction()
    .execute((transaction) => sql`lock table authentication_attempts in share mode`.execute(transaction));
  const { numAffectedRows = 0n } = await sql`
    update authentication_attempts set person = null where lower(person) = lower(${person})`.execute(bulk);
  return Number(numAffectedRows);
}
