import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks, containing, interval, preparedAs } from '../../platform/store/statements.ts';
import type { ListQuery } from '../../records/records.ts';
import { folded } from '../../records/search.ts';
import { sampleId } from './world-members.ts';

/** Quotes and bookings of a world at most; a reservation has a booking. */
export const mostRecords = 10_000;
/** Bytes of their content at most. */
export const mostBytes = 64 * 1024 * 1024;
const deletedAtOnce = 1000;

export interface Row {
  id: string;
  consumer_id: string;
  external_id: string;
  created_at: Date;
  updated_at: Date;
  content: string;
  is_deleted: boolean;
}

export interface WorldResource {
  consumerId: string;
  resource: string;
}

export interface WorldKey extends WorldResource {
  externalId: string;
}

export interface WorldSize {
  records: number;
  bytes: number;
}

export interface Written {
  content: string;
  /** JSON text. */
  filters: string;
}

const columns = sql.raw(
  'r.id::text, r.external_id::text, r.consumer_id, r.created_at, r.updated_at, r.content, r.deleted_at is not null as is_deleted',
);
const isUnusedFor = (days: number) => sql`used_at <= now() - ${interval(days * 86_400)}`;
const second = sql.raw("date_trunc('second', now())");

export class WorldsTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  transaction<T>(work: (transaction: Database['sql']) => Promise<T>): Promise<T> {
    return this.#database.sql.transaction().execute(work);
  }

  async find(keys: readonly WorldKey[], queries = this.#database.sql): Promise<(Row | undefined)[]> {
    const { rows } = await sql<Row & { position: number }>`
      ${preparedAs('test-records-find')}
      select k.position::integer, ${columns}
      from unnest(${keys.map(({ consumerId }) => consumerId)}::text[],
        ${keys.map(({ resource }) => resource)}::text[],
        ${keys.map(({ externalId }) => externalId)}::uuid[])
        with ordinality k (consumer_id, resource, external_id, position)
      join test_records r using (consumer_id, resource, external_id)`.execute(queries);
    const found: (Row | undefined)[] = keys.map(() => undefined);
    for (const row of rows) found[row.position - 1] = row;
    return found;
  }

  async list(world: WorldResource, query: Omit<ListQuery, 'represent'>): Promise<Row[]> {
    const { updatedSince, limit, maxBytes } = query;
    const order =
      updatedSince === undefined
        ? sql.raw('created_at desc, external_id desc')
        : sql.raw('updated_at, external_id');
    // Stored records are longer than shown ones, by less than this.
    const readBytes = 2 * maxBytes + limit * 4096;
    const { rows } = await sql<Row>`
      select ${columns} from (
        select *, sum(octet_length(content)) over (order by ${order}) - octet_length(content) as bytes_before
        from (
          select * from test_records where ${conditions(world, query)} order by ${order} limit ${limit + 1}
        ) as first
      ) as r where bytes_before <= ${readBytes} order by ${order}`.execute(this.#database.sql);
    return rows;
  }

  /** Locks the world until the transaction ends; returns how much is in it. */
  async hold(transaction: Database['sql'], consumerId: string): Promise<WorldSize> {
    const { rows } = await sql<WorldSize>`
      insert into test_worlds (consumer_id) values (${consumerId})
      on conflict (consumer_id) do update set used_at = now()
      returning records, bytes::float8 as bytes`.execute(transaction);
    return rows[0] ?? { records: 0, bytes: 0 };
  }

  async insert(
    transaction: Database['sql'],
    { consumerId, resource, externalId }: WorldKey,
    { content, filters }: Written,
  ): Promise<Row> {
    const { rows } = await sql<Row>`
      with counted as (
        update test_worlds set records = records + 1, bytes = bytes + octet_length(${content}::text)
        where consumer_id = ${consumerId})
      insert into test_records as r (consumer_id, resource, external_id, created_at, updated_at, content, filters)
      values (${consumerId}, ${resource}, ${externalId}::uuid, ${second}, ${second}, ${content}, ${filters}::jsonb)
      returning ${columns}`.execute(transaction);
    return rows[0] as Row;
  }

  /** Locks the record until the transaction ends; undefined where it is gone. */
  async lock(
    transaction: Database['sql'],
    { consumerId, resource }: WorldResource,
    id: string,
  ): Promise<Row | undefined> {
    const { rows } = await sql<Row>`
      select ${columns} from test_records r
      where id = ${id}::bigint and consumer_id = ${consumerId} and resource = ${resource} and deleted_at is null
      for update`.execute(transaction);
    return rows[0];
  }

  /** A second later than before at least: so a record never looks as it did at an earlier time. */
  async update(transaction: Database['sql'], id: string, { content, filters }: Written): Promise<Row> {
    const { rows } = await sql<Row>`
      with before as materialized (
        select consumer_id, octet_length(content) as bytes from test_records where id = ${id}::bigint
      ), counted as (
        update test_worlds w set bytes = w.bytes - before.bytes + octet_length(${content}::text)
        from before where w.consumer_id = before.consumer_id)
      update test_records r set content = ${content}, filters = ${filters}::jsonb,
        updated_at = greatest(${second}, updated_at + interval '1 second')
      where id = ${id}::bigint returning ${columns}`.execute(transaction);
    return rows[0] as Row;
  }

  async remove(transaction: Database['sql'], id: string): Promise<void> {
    await sql`
      with before as materialized (
        select octet_length(content) as bytes from test_records where id = ${id}::bigint
      ), removed as (
        update test_records set deleted_at = now(), content = '{}', filters = '{}' where id = ${id}::bigint
        returning consumer_id)
      update test_worlds w set records = records - 1, bytes = w.bytes - before.bytes
      from removed, before where w.consumer_id = removed.consumer_id`.execute(transaction);
  }

  async forget(transaction: Database['sql'], id: string): Promise<void> {
    await sql`delete from test_records where id = ${id}::bigint and deleted_at is not null`.execute(
      transaction,
    );
  }

  /** Seconds since this write met a fault first, and exactly 0 if it has not before. */
  async metSince(consumerId: string, externalId: string): Promise<number> {
    const { rows } = await sql<{ since: number }>`
      insert into test_faults as f (consumer_id, external_id) values (${consumerId}, ${externalId}::uuid)
      on conflict (consumer_id, external_id) do update set met_at = f.met_at
      returning case when xmax = 0 then 0
        else greatest(0.001, extract(epoch from now() - f.met_at)) end::float8 as since`.execute(
      this.#database.sql,
    );
    return rows[0]?.since ?? 0;
  }

  async forgetFault(transaction: Database['sql'], consumerId: string, externalId: string): Promise<void> {
    await sql`
      delete from test_faults where consumer_id = ${consumerId} and external_id = ${externalId}::uuid`.execute(
      transaction,
    );
  }

  async noteUse(consumerId: string): Promise<void> {
    await sql`
      insert into test_worlds (consumer_id) values (${consumerId})
      on conflict (consumer_id) do update set used_at = now()`.execute(this.#database.sql);
  }

  async unused(days: number): Promise<string[]> {
    const { rows } = await sql<{ consumer_id: string }>`
      select consumer_id from test_worlds where ${isUnusedFor(days)}`.execute(this.#database.bulk);
    return rows.map(({ consumer_id }) => consumer_id);
  }

  /**
   * Empties a world, or with `unusedDays` one that was not used for this long; returns whether it is empty then. What is written
   * meanwhile is gone as well, or counted.
   */
  async empty(consumerId: string, unusedDays?: number): Promise<boolean> {
    const isUnused = unusedDays === undefined ? sql`true` : isUnusedFor(unusedDays);
    // The world first, as all writes hold it.
    const held = sql`held as materialized (
      select consumer_id from test_worlds where consumer_id = ${consumerId} and ${isUnused} for update)`;
    const some = (limit: number) => sql`
      with ${held}, gone as materialized (
        select id, deleted_at, octet_length(content) as bytes from test_records
        where consumer_id = (select consumer_id from held) limit ${limit}
      ), counted as (
        update test_worlds set records = records - (select count(*) from gone where deleted_at is null),
          bytes = bytes - (select coalesce(sum(bytes), 0) from gone where deleted_at is null)
        where consumer_id = (select consumer_id from held)
      )
      delete from test_records where id in (select id from gone)`;
    await changeInChunks(this.#database.bulk, deletedAtOnce, some);
    return this.#database.bulk.transaction().execute(async (transaction) => {
      const { numAffectedRows } = await sql`
        delete from test_worlds where consumer_id = ${consumerId} and ${isUnused}`.execute(transaction);
      if (numAffectedRows === 0n && unusedDays !== undefined) return false;
      await sql`delete from test_records where consumer_id = ${consumerId}`.execute(transaction);
      await sql`delete from test_faults where consumer_id = ${consumerId}`.execute(transaction);
      return true;
    });
  }

  /** Forgets faults and deleted records of yesterday and earlier; not that a sample was deleted, since it would be made again. */
  async clear(signal?: AbortSignal): Promise<void> {
    const day = interval(86_400);
    const ofRecords = (limit: number) => sql`
      delete from test_records where id in (
        select id from test_records where deleted_at <= now() - ${day} and external_id <> ${sampleId}::uuid
        limit ${limit} for update skip locked)`;
    const ofFaults = (limit: number) => sql`
      delete from test_faults where (consumer_id, external_id) in (
        select consumer_id, external_id from test_faults where met_at <= now() - ${day}
        limit ${limit} for update skip locked)`;
    for (const statement of [ofRecords, ofFaults])
      await changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

function conditions(
  { consumerId, resource }: WorldResource,
  { filters, search, updatedSince, after }: Omit<ListQuery, 'represent'>,
): RawBuilder<unknown> {
  const all = [sql`consumer_id = ${consumerId} and resource = ${resource} and deleted_at is null`];
  const wanted = Object.entries(filters).map(([name, value]) => [name, value && folded(value)]);
  if (wanted.length > 0) all.push(sql`filters @> ${JSON.stringify(Object.fromEntries(wanted))}::jsonb`);
  if (search !== undefined) all.push(sql`filters ->> 'q' like ${containing(folded(search))}`);
  if (updatedSince !== undefined) all.push(sql`updated_at >= ${updatedSince}::timestamptz`);
  const position = after && sql`(${after.at}::timestamptz, ${after.id}::uuid)`;
  if (position && updatedSince === undefined) all.push(sql`(created_at, external_id) < ${position}`);
  if (position && updatedSince !== undefined) all.push(sql`(updated_at, external_id) > ${position}`);
  return sql.join(all, sql` and `);
}
