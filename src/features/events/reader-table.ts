import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { leaseEnd } from '../../platform/store/leases.ts';
import { changeInChunks, interval } from '../../platform/store/statements.ts';
import { type CopyLease, Replaced } from './copy-writer.ts';
import { addEvents, changeOwners, type NewEvent } from './event-log.ts';
import type {
  Known,
  KnownChanges,
  KnownRecord,
  KnownState,
  PendingDeletion,
  RecordKey,
} from './known-ids.ts';

const deletedAtOnce = 5000;

/** The right to read until another reader takes over; all times by the database's clock. */
export interface Lease {
  fence: string;
  /** Seconds since changes are read at all. */
  startedAgo: number;
  /** Seconds since the last poll that came to its end began; null: there was none yet. */
  completedAgo: number | null;
  failures: number;
  polls: number;
}

export interface ReaderState extends Omit<Lease, 'fence'> {
  /** Null where this reader has not got the lease. */
  fence: string | null;
  /** Seconds since the last poll began. */
  polledAgo: number | null;
  /** Seconds until the next poll is due, and until it may begin for those who know of changes. */
  dueIn: number;
  mayIn: number;
  /** Seconds since the last absence that was too long ended; null: there was none. */
  absentAgo: number | null;
  /** Seconds since the poll began that the copy is from; null where there is none, or no complete one. */
  copyAge: number | null;
}

/** How far the changes of a resource were read, by the CRM's clock; milliseconds since 1970. */
export interface Positions {
  readTo: number;
  readLateTo: number;
  /** Seconds since the last poll began that read all of them; null: there was none yet. */
  completedAgo: number | null;
}

/** Changes of a page, stored whole or not at all. */
export interface Chunk {
  changes?: KnownChanges;
  /** By resource; null leaves it as it is. */
  positions: Map<string, { readTo: number; readLateTo: number | null }>;
  events: NewEvent[];
  further?: ((transaction: Database['sql']) => Promise<void>) | undefined;
}

export const lastPollBegan: RawBuilder<Date> = sql`(select polled_at from change_reader)`;
export const wereChangesRead: RawBuilder<boolean> = sql`exists (select from change_positions)`;

export class ReaderTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async prepare(): Promise<void> {
    await sql`insert into change_reader default values on conflict do nothing`.execute(this.#database.sql);
  }

  /**
   * Takes the lease where a poll is due, or may begin and is wanted; and how things are. A copy that is written under it
   * notes that in the same statement.
   */
  async take(isWanted: boolean, copy?: CopyLease): Promise<ReaderState> {
    const seconds = (moment: string) => sql`extract(epoch from ${sql.raw(moment)})::float8`;
    const { rows } = await sql<ReaderState>`
      with taken as (
        update change_reader set fence = fence + 1, lease_until = ${leaseEnd}, polled_at = now()
        where lease_until <= now() and (due_at <= now() or (${isWanted}::boolean and not_before <= now()))
        returning fence
      )${copy === undefined ? sql`` : sql`, ${copy.follow}`}
      select (select fence::text from taken) as fence, failures, polls,
        ${seconds('now() - started_at')} as "startedAgo",
        ${seconds('now() - polled_at')} as "polledAgo",
        ${seconds('now() - completed_at')} as "completedAgo",
        ${seconds('now() - absent_to')} as "absentAgo",
        ${copy === undefined ? sql`null::float8` : copy.age} as "copyAge",
        ${seconds('greatest(due_at, lease_until) - now()')} as "dueIn",
        ${seconds('greatest(not_before, lease_until) - now()')} as "mayIn"
      from change_reader`.execute(this.#database.sql);
    const [state] = rows;
    if (state === undefined) throw new Error('the table change_reader is empty');
    return state;
  }

  async positions(): Promise<Map<string, Positions>> {
    const { rows } = await sql<{
      resource: string;
      read_to: Date;
      read_late_to: Date;
      completed_ago: number | null;
    }>`
      select resource, read_to, read_late_to, extract(epoch from now() - completed_at)::float8 as completed_ago
      from change_positions limit 100`.execute(this.#database.sql);
    return new Map(
      rows.map((row) => [
        row.resource,
        {
          readTo: row.read_to.getTime(),
          readLateTo: row.read_late_to.getTime(),
          completedAgo: row.completed_ago,
        },
      ]),
    );
  }

  async known(records: readonly (RecordKey & { externalId: string | undefined })[]): Promise<KnownState> {
    const resources = records.map(({ resource }) => resource);
    const externalIds = records.map(({ externalId = '' }) => externalId);
    const wanted = sql`select * from unnest(${resources}::text[], ${externalIds}::text[])`;
    const { rows } = await sql<RecordKey & Known>`
      select resource, native_id as "nativeId", external_id as "externalId", consumer_id as "consumerId", content,
        parts, is_deleted as "isDeleted"
      from (
        select * from known_records where (resource, native_id) in (
          select * from unnest(${resources}::text[], ${records.map(({ nativeId }) => nativeId)}::text[]))
        union
        select * from known_records where not is_deleted and (resource, external_id) in (${wanted})
      ) k order by seen_at`.execute(this.#database.bulk);
    const { rows: pending } = await sql<PendingDeletion>`
      select ${pendingColumns} from pending_deletions where (resource, external_id) in (${wanted})`.execute(
      this.#database.bulk,
    );
    return { records: rows, pending };
  }

  /** Does work in a transaction, and renews the lease. Throws `Replaced`, and what the database does. */
  fenced(fence: string, work: (transaction: Database['sql']) => Promise<void>): Promise<void> {
    return this.#database.bulk.transaction().execute(async (transaction) => {
      const { numAffectedRows } = await sql`
        update change_reader set lease_until = ${leaseEnd} where fence = ${fence}::bigint`.execute(
        transaction,
      );
      if (numAffectedRows !== 1n) throw new Replaced('another reader has taken over');
      await work(transaction);
    });
  }

  /** Stores a chunk, and renews the lease. Throws as `fenced`. */
  store(fence: string, { changes, positions, events, further }: Chunk): Promise<void> {
    return this.fenced(fence, async (transaction) => {
      if (changes !== undefined) await remember(transaction, changes);
      for (const [resource, position] of positions) await movePosition(transaction, resource, position);
      await further?.(transaction);
      await addEvents(transaction, events);
    });
  }

  /**
   * Takes External IDs of these resources that no record has, oldest first, at most `limit`. `further` runs in the same
   * transaction. Returns how many.
   */
  async takePending(
    fence: string,
    { resources, limit }: { resources: readonly string[]; limit: number },
    further: (transaction: Database['sql'], pending: readonly PendingDeletion[]) => Promise<void>,
  ): Promise<number> {
    let count = 0;
    await this.fenced(fence, async (transaction) => {
      const { rows } = await sql<PendingDeletion>`
        select ${pendingColumns} from pending_deletions where resource = any(${resources}::text[])
        order by lost_at, resource, external_id limit ${limit}`.execute(transaction);
      count = rows.length;
      if (count === 0) return;
      await forgetPending(transaction, rows);
      await further(transaction, rows);
    });
    return count;
  }

  /** Ends a poll: the next one is due after this many seconds from its beginning, and may begin after this many. */
  finish(
    fence: string,
    {
      completed,
      isLong,
      dueIn,
      mayIn,
      further,
    }: Pick<Chunk, 'further'> & {
      /** The resources of which all was read; undefined where the poll did not come to its end. */
      completed: readonly string[] | undefined;
      isLong: boolean;
      /** Seconds from its beginning to when the next one is due, and may begin. */
      dueIn: number;
      mayIn: number;
    },
  ): Promise<void> {
    const isComplete = completed !== undefined;
    return this.fenced(fence, async (transaction) => {
      await further?.(transaction);
      await sql`
      update change_positions set completed_at = (select polled_at from change_reader)
      where resource = any(${completed ?? []}::text[])`.execute(transaction);
      await sql`
      update change_reader set lease_until = now(), failures = 0,
        completed_at = case when ${isComplete} then polled_at else completed_at end,
        polls = case when not ${isComplete} then polls when ${isLong} then 0 else polls + 1 end,
        due_at = polled_at + ${interval(dueIn)}, not_before = polled_at + ${interval(mayIn)}`.execute(
        transaction,
      );
    });
  }

  async fail(fence: string, seconds: number): Promise<void> {
    await sql`
      update change_reader set lease_until = now(), failures = failures + 1,
        due_at = now() + ${interval(seconds)}, not_before = now() + ${interval(seconds)}
      where fence = ${fence}::bigint`.execute(this.#database.sql);
  }

  async noteAbsence(fence: string, seconds: number): Promise<void> {
    await sql`
      update change_reader set absent_from = now() - ${interval(seconds)}, absent_to = now(), compared_at = to_timestamp(0)
      where fence = ${fence}::bigint`.execute(this.#database.sql);
  }

  /** Forgets what a member was like; its ids stay. Returns how many there were. Throws what the database does. */
  async eraseMember(memberId: string): Promise<number> {
    const { numAffectedRows = 0n } = await sql`
      update known_records set content = '', parts = null where external_id = ${memberId} and content <> ''`.execute(
      this.#database.bulk,
    );
    return Number(numAffectedRows);
  }

  /** Forgets records that were seen deleted this many days ago: the CRM cannot restore them any more. */
  forgetDeleted(days: number, signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from known_records where (resource, native_id) in (
        select resource, native_id from known_records
        where is_deleted and seen_at < now() - ${interval(days * 86_400)} limit ${limit})`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

const pendingColumns = sql.raw(
  `resource, external_id as "externalId", consumer_id as "consumerId", content,
    to_char(lost_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "lostAt"`,
);

async function remember(
  transaction: Database['sql'],
  { known, withNewOwner, pending, noLongerPending }: KnownChanges,
): Promise<void> {
  if (known.length > 0) await rememberAll(transaction, known);
  if (withNewOwner.length > 0) await changeOwners(transaction, withNewOwner);
  if (noLongerPending.length > 0) await forgetPending(transaction, noLongerPending);
  if (pending.length === 0) return;
  const column = (read: (one: PendingDeletion) => unknown) => sql`${pending.map(read)}`;
  await sql`
    insert into pending_deletions (resource, external_id, consumer_id, content, lost_at)
    select * from unnest(${column(({ resource }) => resource)}::text[],
      ${column(({ externalId }) => externalId)}::text[], ${column(({ consumerId }) => consumerId)}::text[],
      ${column(({ content }) => content)}::text[], ${column(({ lostAt }) => lostAt)}::timestamptz[])
    on conflict (resource, external_id) do update set consumer_id = excluded.consumer_id, content = excluded.content,
      lost_at = excluded.lost_at`.execute(transaction);
}

async function forgetPending(
  transaction: Database['sql'],
  pending: readonly PendingDeletion[],
): Promise<void> {
  await sql`
    delete from pending_deletions where (resource, external_id) in (
      select * from unnest(${pending.map(({ resource }) => resource)}::text[],
        ${pending.map(({ externalId }) => externalId)}::text[]))`.execute(transaction);
}

async function rememberAll(transaction: Database['sql'], known: readonly KnownRecord[]): Promise<void> {
  const column = (read: (record: KnownRecord) => unknown) => sql`${known.map(read)}`;
  await sql`
    insert into known_records (resource, native_id, external_id, consumer_id, content, parts, is_deleted)
    select * from unnest(${column(({ resource }) => resource)}::text[], ${column(({ nativeId }) => nativeId)}::text[],
      ${column(({ externalId }) => externalId)}::text[], ${column(({ consumerId }) => consumerId)}::text[],
      ${column(({ content }) => content)}::text[], ${column(({ parts }) => parts)}::text[],
      ${column(({ isDeleted }) => isDeleted)}::boolean[])
    on conflict (resource, native_id) do update set external_id = excluded.external_id,
      consumer_id = excluded.consumer_id, content = excluded.content, parts = excluded.parts, is_deleted = excluded.is_deleted,
      seen_at = excluded.seen_at`.execute(transaction);
}

/** Never back: a poll that looks far back begins where others were before. */
async function movePosition(
  transaction: Database['sql'],
  resource: string,
  { readTo, readLateTo }: { readTo: number; readLateTo: number | null },
): Promise<void> {
  const [to, lateTo] = [new Date(readTo), readLateTo === null ? null : new Date(readLateTo)];
  await sql`
    insert into change_positions as p (resource, read_to, read_late_to)
    values (${resource}, ${to}::timestamptz, coalesce(${lateTo}::timestamptz, to_timestamp(0)))
    on conflict (resource) do update set read_to = greatest(p.read_to, excluded.read_to),
      read_late_to = greatest(p.read_late_to, excluded.read_late_to)`.execute(transaction);
}
