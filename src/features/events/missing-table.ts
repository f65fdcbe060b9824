import { sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { interval } from '../../platform/store/statements.ts';
import type { IdRange, MissingId } from '../../records/changes.ts';

/** A known record that may be deleted in the CRM, or one known as deleted that may exist again; `since`: by the database's clock. */
export interface MissingRecord {
  resource: string;
  nativeId: string;
  externalId: string;
  isDeleted: boolean;
  since: string;
}

export interface ComparisonPosition {
  resource: string;
  after: string;
}

export class MissingTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async note(ids: readonly MissingId[]): Promise<number> {
    const { numAffectedRows = 0n } = await sql`
      update known_records k set missing_since = now()
      from unnest(${ids.map(({ resource }) => resource)}::text[],
        ${ids.map(({ externalId }) => externalId)}::text[],
        ${ids.map(({ madeBy }) => madeBy)}::text[]) m (resource, external_id, made_by)
      where k.resource = m.resource and k.external_id = m.external_id and not k.is_deleted
        and k.missing_since is null and (m.made_by is null or k.consumer_id = m.made_by)`.execute(
      this.#database.sql,
    );
    return Number(numAffectedRows);
  }

  async waiting(resources: readonly string[], limit: number): Promise<MissingRecord[]> {
    const { rows } = await sql<MissingRecord>`
      select resource, native_id as "nativeId", external_id as "externalId", is_deleted as "isDeleted",
        missing_since::text as since
      from known_records where missing_since is not null and resource = any(${resources}::text[])
      order by missing_since limit ${limit}`.execute(this.#database.bulk);
    return rows;
  }

  async clear(transaction: Database['sql'], lookedUp: readonly MissingRecord[]): Promise<void> {
    await sql`
      update known_records k set missing_since = null
      from unnest(${lookedUp.map(({ resource }) => resource)}::text[], ${lookedUp.map(({ nativeId }) => nativeId)}::text[],
        ${lookedUp.map(({ since }) => since)}::timestamptz[]) f (resource, native_id, since)
      where k.resource = f.resource and k.native_id = f.native_id and k.missing_since <= f.since`.execute(
      transaction,
    );
  }

  /** Where the comparison goes on; null: at the beginning; undefined: none is due until this many seconds after the last start. */
  async comparison(everySeconds: number): Promise<ComparisonPosition | null | undefined> {
    const { rows } = await sql<{ to: string | null }>`
      select compared_to as to from change_reader
      where compared_to is not null or compared_at < now() - ${interval(everySeconds)}`.execute(
      this.#database.sql,
    );
    const [row] = rows;
    return row && (row.to === null ? null : (JSON.parse(row.to) as ComparisonPosition));
  }

  async idsAfter({ resource, after }: ComparisonPosition, limit: number): Promise<string[]> {
    const { rows } = await sql<{ id: string }>`
      select native_id as id from known_records
      where resource = ${resource} and not is_deleted and native_id collate "C" > ${after}
      order by native_id collate "C" limit ${limit}`.execute(this.#database.bulk);
    return rows.map(({ id }) => id);
  }

  /**
   * Notes known records of a range that are not among these ids, and those among them that are known as deleted, which the
   * integration user may not have seen for a while. Records seen since the poll began are left out.
   */
  async noteMissingInRange(
    transaction: Database['sql'],
    { resource, after, to }: IdRange,
    ids: readonly string[],
  ): Promise<void> {
    await sql`
      update known_records set missing_since = now()
      where resource = ${resource.name} and not is_deleted and missing_since is null
        and native_id collate "C" > ${after} and (${to ?? null}::text is null or native_id collate "C" <= ${to ?? null})
        and native_id not in (select unnest(${ids}::text[]))
        and seen_at < (select polled_at from change_reader)`.execute(transaction);
    await sql`
      update known_records k set missing_since = now() from unnest(${ids}::text[]) there (native_id)
      where k.resource = ${resource.name} and k.native_id = there.native_id and is_deleted and missing_since is null`.execute(
      transaction,
    );
  }

  /** Stores the position of the comparison; null: it is complete. `isBegun`: it has just begun. */
  async move(
    transaction: Database['sql'],
    position: ComparisonPosition | null,
    { isBegun }: { isBegun: boolean },
  ): Promise<void> {
    await sql`
      update change_reader set compared_to = ${position && JSON.stringify(position)},
        compared_at = case when ${isBegun} then now() else compared_at end`.execute(transaction);
  }
}
