import { type RawBuilder, sql } from 'kysely';
import type { Mode } from '../../platform/base/call.ts';
import { now } from '../../platform/base/chance.ts';
import { startOf } from '../../platform/base/text.ts';
import type { Database } from '../../platform/store/database.ts';
import { deadlineFromNow, forgetRows, type Held, leasesOf } from '../../platform/store/leases.ts';
import { changeInChunks, interval, isRowVisible, timeNow } from '../../platform/store/statements.ts';
import { lateSeconds } from '../../records/records.ts';
import { addEvents } from '../events/event-log.ts';
import { insertNew, isOfMode, type NewRow, type QueueLimits, waitAgain } from './acceptance.ts';
import {
  type AttemptFacts,
  type HandoffOutcome,
  type HandoffQuery,
  type HandoffStatus,
  keptAttempts,
  longestDetail,
  type NewHandoff,
  type Readable,
  type Settled,
  type StoredHandoff,
  type TakenHandoff,
} from './accepted.ts';
import { hasEnded } from './approvals-table.ts';
import type { HandoffType } from './handoff.ts';
import { columns, type EventOf, eventsOf, originColumns, stampOf, toStored, toTaken } from './rows.ts';

/** Bytes of details that one chunk holds in memory; a first hand-off may have more. */
const mostBytes = 3 * 1024 * 1024;
/** Numbers of the advisory locks under which new ones are counted and stored; any constants will do. */
const acceptanceLocks = { live: 4_702_118_904, test: 4_702_118_905 };
const changedAtOnce = 1000;
const unlimited = { inAll: 2 ** 31 - 1, ofConsumer: 2 ** 31 - 1 };

const cancellable: readonly HandoffStatus[] = ['awaiting_approval', 'accepted', 'failed'];

const lease = leasesOf({ table: 'handoffs', row: 'h', key: ['external_id'] });
const isUnsettled = sql`(status in ('cancelled', 'rejected', 'failed') and may_exist)`;
const withoutWords = (tries: RawBuilder<unknown>) => sql`(
  select coalesce(jsonb_agg(one - 'detail' order by nth), '[]') from jsonb_array_elements(${tries}) with ordinality as all_attempts (one, nth))`;
const erased = sql`member_id = null, name = null, source = null, details = null, entity_tag_before = null, tries = ${withoutWords(sql`tries`)}`;

/**
 * Accepted hand-offs; the moves stand at the top of accepted.ts. What waits is accepted, counted, delivered and removed for
 * the consumers of one mode; all else is by id, or by who may see it. Methods throw what the database does.
 */
export class HandoffsTable {
  readonly #database: Database;
  readonly #mode: Mode;
  readonly #lastFailing = new Map<string, string>();

  constructor(database: Database, mode: Mode = 'live') {
    this.#database = database;
    this.#mode = mode;
  }

  get #isOwn(): RawBuilder<boolean> {
    return isOfMode(this.#mode);
  }

  /**
   * Stores new ones in their order, up to the limits. Returns for each the lease of the stored row; `known` where its
   * External ID is stored already; undefined where a limit is reached. Those that wait for approval have the same limits, and are
   * counted by themselves. One replica at a time: two that count at once would exceed the limits.
   */
  async accept(
    handoffs: readonly NewHandoff[],
    limits: QueueLimits,
    eventOf: EventOf,
  ): Promise<(HandoffLease | 'known' | undefined)[]> {
    const withDeadline = deadlineFromNow();
    const rows = await this.#oneByOne(async (transaction) => {
      const toDeliver = handoffs.filter(({ needsApproval }) => !needsApproval);
      const toApprove = handoffs.filter(({ needsApproval }) => needsApproval);
      const accepted = await insertNew(transaction, toDeliver, 'accepted', limits, this.#mode);
      const awaiting = await insertNew(transaction, toApprove, 'awaiting_approval', limits, this.#mode);
      await addEvents(transaction, eventsOf(awaiting.map(toStored), eventOf));
      return [...accepted, ...awaiting];
    });
    const stored = new Map(withDeadline(rows).map((row) => [row.externalId, toLease(row)]));
    const others = handoffs.map(({ externalId }) => externalId).filter((id) => !stored.has(id));
    const known = others.length === 0 ? undefined : await this.#known(others);
    return handoffs.map(
      ({ externalId }) => stored.get(externalId) ?? (known?.has(externalId) ? 'known' : undefined),
    );
  }

  #oneByOne<T>(work: (transaction: Database['sql']) => Promise<T>): Promise<T> {
    return this.#database.sql.transaction().execute(async (transaction) => {
      await sql`select pg_advisory_xact_lock(${sql.lit(acceptanceLocks[this.#mode])})`.execute(transaction);
      return work(transaction);
    });
  }

  async #known(externalIds: readonly string[]): Promise<Set<string>> {
    const { rows } = await sql<{ external_id: string }>`
      select external_id from handoffs where external_id = any(${externalIds}::uuid[])`.execute(
      this.#database.sql,
    );
    return new Set(rows.map(({ external_id }) => external_id));
  }

  /**
   * Takes up to `count` hand-offs that have not failed. Consumers take turns, each in its order of acceptance, so that none
   * waits for all those of another.
   */
  take(type: HandoffType, count: number): Promise<TakenHandoff[]> {
    const free = sql`type = ${type} and status = 'accepted' and troubles = 0 and ${lease.isOver} and ${this.#isOwn}`;
    const nextConsumer = (after: RawBuilder<unknown>) => sql`
      select consumer_id from handoffs h where ${free} and consumer_id > ${after} order by consumer_id limit 1`;
    // An array is computed once. A join that was planned while the table was small would compute it for each row.
    return this.#take(sql`
      select h.external_id, h.may_exist from handoffs h
      where ${free} and external_id = any(array(
        select external_id from (
          select external_id, sum(size) over (order by nth, sequence) - size as bytes_before from (
            with recursive consumers as (
              (${nextConsumer(sql`''`)})
              union all
              select (${nextConsumer(sql`consumers.consumer_id`)}) from consumers where consumer_id is not null
            )
            select own.* from consumers cross join lateral (
              select external_id, sequence, size, row_number() over (order by sequence) as nth from handoffs h
              where ${free} and consumer_id = consumers.consumer_id order by sequence limit ${count}
            ) as own order by nth, sequence limit ${count}
          ) as first
        ) as chunk where bytes_before < ${mostBytes}))
      order by h.sequence for update skip locked`);
  }

  async takeFailing(type: HandoffType, failing: Failing): Promise<TakenHandoff[]> {
    const kind = `${type} ${failing}`;
    const last = this.#lastFailing.get(kind) ?? '';
    let taken = await this.#takeFailingAfter(last, type, failing);
    if (taken.length === 0 && last !== '') taken = await this.#takeFailingAfter('', type, failing);
    this.#lastFailing.set(kind, taken[0]?.consumerId ?? '');
    return taken;
  }

  #takeFailingAfter(consumerId: string, type: HandoffType, failing: Failing): Promise<TakenHandoff[]> {
    return this.#take(sql`
      select external_id, may_exist from handoffs h
      where type = ${type} and status = 'accepted' and troubles ${failing === 'once' ? sql`= 1` : sql`> 1`}
        and due_at <= now() and ${lease.isOver} and troubles > 0 and consumer_id > ${consumerId} and ${this.#isOwn}
      order by consumer_id, due_at limit 1 for update skip locked`);
  }

  async makeDue(type?: HandoffType): Promise<void> {
    const statement = (limit: number) => sql`
      update handoffs set due_at = now() where external_id in (
        select external_id from handoffs
        where ${type === undefined ? sql`true` : sql`type = ${type}`} and status = 'accepted' and troubles > 0 and due_at > now() and ${this.#isOwn}
        limit ${limit} for update skip locked)`;
    await changeInChunks(this.#database.bulk, changedAtOnce, statement);
  }

  async #take(due: RawBuilder<unknown>): Promise<TakenHandoff[]> {
    const statement = sql<object>`
      with due as (${due}), taken as (
        update handoffs h set ${lease.begin}, attempts = h.attempts + 1,
          may_exist = h.may_exist or h.reference is null,
          entity_tag_before = case when h.may_exist then h.entity_tag_before end
        from due where h.external_id = due.external_id
        returning h.sequence, h.external_id as "externalId", h.type, ${originColumns}, h.trip_id as "tripId",
          h.member_id as "memberId", h.name, h.source, h.details, h.valid_until as "validUntil", h.fence::text,
          due.may_exist as "mayExist", h.troubles as failures, h.reference, h.on_repeat as "onRepeat", h.approval,
          h.replaced as "isReplaced", h.had_record as "hadRecord", h.entity_tag_before as before,
          coalesce(h.tried_since, h.accepted_at) as "triedSince"
      )
      select * from taken order by sequence`;
    const withDeadline = deadlineFromNow();
    const { rows } = await statement.execute(this.#database.sql);
    return withDeadline(rows).map(toTaken);
  }

  async noteRecords(looked: readonly LookedFor[]): Promise<boolean[]> {
    const column = (value: (one: LookedFor) => unknown) => sql`${looked.map(value)}`;
    const { rows } = await sql<{ external_id: string }>`
      update handoffs h set may_exist = true, had_record = looked.had_record
      from unnest(${column(({ handoff }) => handoff.externalId)}::uuid[],
        ${column(({ handoff }) => handoff.fence)}::bigint[], ${column(({ hadRecord }) => hadRecord)}::boolean[])
        as looked (external_id, fence, had_record)
      where h.external_id = looked.external_id and h.fence = looked.fence and h.status = 'accepted'
      returning h.external_id`.execute(this.#database.sql);
    const noted = new Set(rows.map(({ external_id }) => external_id));
    return looked.map(({ handoff }) => noted.has(handoff.externalId));
  }

  /** False for an attempt that was replaced. */
  async rememberBefore(
    { externalId, fence }: Pick<TakenHandoff, 'externalId' | 'fence'>,
    entityTag: string,
  ): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update handoffs h set entity_tag_before = ${entityTag}
      where external_id = ${externalId} and ${lease.isOf(fence)} and status = 'accepted'`.execute(
      this.#database.sql,
    );
    return numAffectedRows === 1n;
  }

  settle(settled: readonly Settled[], eventOf: EventOf): Promise<StoredHandoff[]> {
    return this.#database.sql.transaction().execute(async (transaction) => {
      const stored = await storeOutcomes(transaction, settled);
      if (stored.length < settled.length) await endLeases(transaction, settled);
      await addEvents(transaction, eventsOf(stored, eventOf));
      return stored;
    });
  }

  /** Deletes one that was answered otherwise than 202; false for an attempt that was replaced. */
  async drop({ externalId, fence }: Pick<TakenHandoff, 'externalId' | 'fence'>): Promise<boolean> {
    const { numAffectedRows } = await sql`
      delete from handoffs h where external_id = ${externalId} and ${lease.isOf(fence)} and status = 'accepted'
    `.execute(this.#database.sql);
    return numAffectedRows === 1n;
  }

  async find(externalId: string): Promise<StoredHandoff | undefined> {
    const { rows } = await sql<object>`
      select ${columns}, h.tries as "latestAttempts",
        case when h.status = 'accepted' and h.due_at > now() then h.due_at end as "nextAttemptAt"
      from handoffs h where external_id = ${externalId}`.execute(this.#database.sql);
    return rows[0] && toStored(rows[0]);
  }

  async hasStored(externalIds: readonly string[], since: Date): Promise<boolean> {
    const { rows } = await sql`
      select from handoffs where external_id = any(${externalIds}::uuid[]) and content_at >= ${since}
      limit 1`.execute(this.#database.sql);
    return rows.length > 0;
  }

  async list({ readable, status, tripId, isOpen, after, limit }: HandoffQuery): Promise<StoredHandoff[]> {
    const conditions = [
      isReadable(readable),
      ...(status === undefined ? [] : [sql`h.status = ${status}`]),
      ...(tripId === undefined ? [] : [sql`h.trip_id = ${tripId}`]),
      ...(isOpen ? [sql`h.status in ('awaiting_approval', 'accepted', 'failed')`] : []),
      ...(after === undefined ? [] : [sql`h.sequence < ${after}::bigint`]),
    ];
    const { rows } = await sql<object>`
      select ${columns} from handoffs h where ${sql.join(conditions, sql` and `)}
      order by h.sequence desc limit ${limit}`.execute(this.#database.sql);
    return rows.map(toStored);
  }

  retry(externalId: string, limits = unlimited) {
    return this.#oneByOne((transaction) => waitAgain(transaction, externalId, limits, this.#mode));
  }

  /** Content of these hand-offs, of those that hold any; `ids` come first to last while their details fit in `maxBytes`. */
  async contents(ids: readonly string[], readable: Readable, maxBytes: number): Promise<HeldContent[]> {
    const { rows } = await sql<HeldContent>`
      select external_id, type, trip_id, member_id, name, source, bytes_before > ${maxBytes} as is_left,
        case when bytes_before <= ${maxBytes} then details end as details
      from (
        select h.*, sum(size) over (order by nth) - size as bytes_before
        from unnest(${ids}::uuid[]) with ordinality as wanted (id, nth) join handoffs h on h.external_id = wanted.id
        where h.member_id is not null and ${isReadable(readable)}
      ) as h`.execute(this.#database.sql);
    return rows;
  }

  /** JSON text of what is to be written; undefined once it is not needed any more. */
  async details(externalId: string): Promise<string | undefined> {
    const { rows } = await sql<{ details: string | null }>`
      select details from handoffs where external_id = ${externalId}`.execute(this.#database.sql);
    return rows[0]?.details ?? undefined;
  }

  /** Cancels one that waits or has failed; whatever is under way for it is removed later. False in any other state than these. */
  async cancel(externalId: string, states = cancellable, contentStamp?: string): Promise<boolean> {
    const isAsSeen = contentStamp === undefined ? sql`true` : sql`${stampOf} = ${contentStamp}::bigint`;
    const { numAffectedRows } = await sql`
      update handoffs h set status = 'cancelled', problem = null, completed_at = ${timeNow}, ${erased}, fence = fence + 1, due_at = now()
      where external_id = ${externalId} and status = any(${states}::text[]) and ${isAsSeen}`.execute(
      this.#database.sql,
    );
    return numAffectedRows === 1n;
  }

  takeUnsettled(count: number): Promise<UnsettledHandoff[]> {
    return lease.takeDue<UnsettledHandoff>(this.#database.sql, {
      where: sql`${isUnsettled} and due_at <= now() and ${this.#isOwn}`,
      orderBy: 'due_at',
      limit: count,
      returning: sql`h.external_id as "externalId", h.fence::text, h.type, h.consumer_id as "consumerId", h.status,
        h.completed_at <= now() - ${interval(lateSeconds)} as "isLast",
        h.reference is not null as "isItem", h.had_record as "hadRecord",
        (extract(epoch from coalesce(h.tried_since, h.accepted_at)) * 1000)::float8 as since`,
    });
  }

  /** Looked for once more after so many seconds; undefined: there is no record, and none will come. */
  async putOff(
    { externalId, fence }: Pick<UnsettledHandoff, 'externalId' | 'fence'>,
    seconds: number | undefined,
  ): Promise<void> {
    await sql`
      update handoffs h set may_exist = ${seconds !== undefined}, due_at = now() + ${interval(seconds ?? 0)},
        ${lease.end}
      where external_id = ${externalId} and ${lease.isOf(fence)} and ${isUnsettled}`.execute(
      this.#database.sql,
    );
  }

  async overview(): Promise<{
    waiting: number;
    oldestSeconds: number;
    hasUnsettled: boolean;
    hasEnded: boolean;
  }> {
    const { rows } = await sql<{ waiting: number; oldest: number; unsettled: boolean; ended: boolean }>`
      select (select count(*)::integer from handoffs where status = 'accepted' and ${this.#isOwn}) as waiting,
        coalesce((select extract(epoch from now() - accepted_at)::double precision from handoffs
          where status = 'accepted' and ${this.#isOwn} order by sequence limit 1), 0) as oldest,
        exists (select from handoffs where ${isUnsettled} and due_at <= now() and ${this.#isOwn}) as unsettled,
        exists (select from handoffs h where ${hasEnded} and ${this.#isOwn}) as ended`.execute(
      this.#database.sql,
    );
    const { waiting = 0, oldest = 0, unsettled: hasUnsettled = false, ended = false } = rows[0] ?? {};
    return { waiting, oldestSeconds: Math.max(0, Math.round(oldest)), hasUnsettled, hasEnded: ended };
  }

  forget(consumerId: string, days: number): Promise<void> {
    return forgetRows(this.#database.bulk, {
      from: sql`handoffs h`,
      key: 'external_id',
      where: sql`consumer_id = ${consumerId} and accepted_at <= now() - ${interval(days * 86_400)}`,
      // One that is only held back was not tried yet.
      isIdle: sql`(attempts = 0 or ${lease.isOver})`,
    });
  }

  deleteOlderThan(days: number, signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from handoffs where external_id in (
        select external_id from handoffs
        where completed_at <= now() - ${interval(days * 86_400)} and status not in ('awaiting_approval', 'accepted')
        limit ${limit} for update skip locked)`;
    return changeInChunks(this.#database.bulk, changedAtOnce, statement, signal);
  }

  /**
   * Erases what failed hand-offs of a member hold, so that they cannot be tried again. Returns those that had something;
   * one that waits still needs it.
   */
  async eraseMember(memberId: string): Promise<{ id: string; is_erased: boolean }[]> {
    const { rows } = await sql<{ id: string; is_erased: boolean }>`
      with mine as (select external_id from handoffs where member_id = ${memberId}::uuid), erased as (
        update handoffs h set ${erased}, problem = null, reason = null from mine
        where h.external_id = mine.external_id and h.status not in ('awaiting_approval', 'accepted')
        returning h.external_id
      )
      select mine.external_id as id, erased.external_id is not null as is_erased
      from mine left join erased using (external_id) order by 1`.execute(this.#database.bulk);
    return rows;
  }
}

export interface HeldContent {
  external_id: string;
  type: HandoffType;
  trip_id: string;
  member_id: string;
  /** Null, as the source and the details are, where nothing is to be written any more. */
  name: string | null;
  source: string | null;
  /** JSON text. */
  details: string | null;
  /** It comes after `maxBytes` of others: the details are not read. */
  is_left: boolean;
}

export type HandoffLease = Pick<
  TakenHandoff,
  'fence' | 'deadline' | 'mayExist' | 'isReplaced' | 'hadRecord' | 'since'
> &
  Pick<NewRow, 'stood'>;

function toLease({ fence, deadline, stood, reference, isReplaced, ...row }: NewRow & Held): HandoffLease {
  return {
    ...{ fence, deadline, stood, isReplaced },
    mayExist: row.mayExist && reference !== null,
    hadRecord: row.hadRecord ?? undefined,
    since: row.triedSince.getTime(),
  };
}

export interface LookedFor {
  handoff: Pick<TakenHandoff, 'externalId' | 'fence'>;
  hadRecord: boolean;
}

export type Failing = 'once' | 'again';

export interface UnsettledHandoff extends Held {
  externalId: string;
  fence: string;
  type: HandoffType;
  consumerId: string;
  status: 'cancelled' | 'rejected' | 'failed';
  isLast: boolean;
  isItem: boolean;
  hadRecord: boolean | null;
  /** Milliseconds since 1970: none of its calls came before. */
  since: number;
}

async function endLeases(transaction: Database['sql'], settled: readonly Settled[]): Promise<void> {
  await sql`
    update handoffs h set ${lease.end}, due_at = now()
    from unnest(${settled.map(({ handoff }) => handoff.externalId)}::uuid[],
      ${settled.map(({ handoff }) => handoff.fence)}::bigint[]) as done (external_id, fence)
    where h.external_id = done.external_id and h.fence = done.fence + 1 and h.status = 'cancelled'`.execute(
    transaction,
  );
}

async function storeOutcomes(
  transaction: Database['sql'],
  settled: readonly Settled[],
): Promise<StoredHandoff[]> {
  const column = (value: (settled: Settled) => unknown) => sql`${settled.map(value)}`;
  const of = (value: (outcome: HandoffOutcome) => unknown) => column(({ outcome }) => value(outcome));
  const readAt = now();
  const ofAttempt = (value: (attempt: AttemptFacts) => unknown) =>
    column(({ attempt }) => (attempt ? value(attempt) : null));
  const latest = sql`case when jsonb_array_length(h.tries) < ${sql.lit(keptAttempts)} then h.tries else h.tries - 0 end`;
  // `now()` is when the transaction began, which may be before the outcomes were read.
  const tries = sql`case when done.ms is null then h.tries else ${latest} || jsonb_build_object('number', h.attempts,
    'at', to_char(greatest(h.accepted_at, now() - make_interval(secs => done.ms_ago / 1000)) at time zone 'UTC',
      'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'ms', done.ms, 'code', done.code, 'detail', done.detail) end`;
  const { rows } = await sql<object>`
    update handoffs h set status = done.status, native_id = done.native_id, problem = done.problem,
      may_exist = done.may_exist, troubles = done.failures, ${lease.end},
      due_at = now() + make_interval(secs => done.pause),
      completed_at = case when done.status = 'accepted' then null else ${timeNow} end,
      tries = case when done.status = 'created' then ${withoutWords(tries)} else ${tries} end,
      member_id = case when done.status = 'created' then null else h.member_id end,
      name = case when done.status = 'created' then null else h.name end,
      source = case when done.status = 'created' then null else h.source end,
      details = case when done.status = 'created' then null else h.details end,
      entity_tag_before = case when done.status = 'created' then null else h.entity_tag_before end
    from unnest(${column(({ handoff }) => handoff.externalId)}::uuid[],
      ${column(({ handoff }) => handoff.fence)}::bigint[], ${of(({ status }) => status)}::text[],
      ${of((outcome) => (outcome.status === 'created' ? outcome.nativeId : null))}::text[],
      ${of((outcome) => (outcome.status === 'failed' ? JSON.stringify(outcome.refusal) : null))}::text[],
      ${of((outcome) => 'mayExist' in outcome && outcome.mayExist)}::boolean[],
      ${of((outcome) => (outcome.status === 'accepted' ? outcome.failures : 0))}::integer[],
      ${of((outcome) => (outcome.status === 'accepted' ? outcome.pauseSeconds : 0))}::double precision[],
      ${ofAttempt(({ startedAt }) => readAt - startedAt)}::double precision[],
      ${ofAttempt(({ startedAt, endedAt }) => Math.round(endedAt - startedAt))}::integer[],
      ${ofAttempt(({ failure }) => failure?.code ?? null)}::text[],
      ${ofAttempt(({ failure }) => (failure && startOf(failure.detail, longestDetail)) ?? null)}::text[])
      as done (external_id, fence, status, native_id, problem, may_exist, failures, pause, ms_ago, ms, code, detail)
    where h.external_id = done.external_id and h.fence = done.fence
      and (h.status = 'accepted' or (h.status = 'failed' and done.status = 'created'))
    returning ${columns}`.execute(transaction);
  return rows.map(toStored);
}

/** Another request has made the record of one that had ended, or has found one (no id). Undefined where the row was taken meanwhile. */
export async function endInstead(
  transaction: Database['sql'],
  { externalId, fence }: Pick<TakenHandoff, 'externalId' | 'fence'>,
  nativeId: string | undefined,
): Promise<StoredHandoff | undefined> {
  const created = sql`status = 'created', native_id = ${nativeId}, problem = null, completed_at = ${timeNow}, approval = null,
    decided_by = null, decided_at = null, reason = null, ${erased},`;
  const { rows } = await sql<object>`
    update handoffs h set ${nativeId === undefined ? sql`` : created} may_exist = false, ${lease.end}
    where external_id = ${externalId} and ${lease.isOf(fence)}
    returning ${columns}`.execute(transaction);
  return rows[0] && toStored(rows[0]);
}

function isReadable(readable: Readable): RawBuilder<unknown> {
  const types = Object.entries(readable).map(
    ([type, visible]) => sql`(h.type = ${type} and ${isRowVisible(visible, sql`h.consumer_id`)})`,
  );
  const isOfType = types.length === 0 ? sql`false` : sql`(${sql.join(types, sql` or `)})`;
  const owners = new Set(
    Object.values(readable).map((visible) => (visible === 'all' ? null : visible.consumerId)),
  );
  const [owner = null] = owners;
  // For the index: a consumer that sees only its own reads nobody else's.
  return owners.size === 1 && owner !== null ? sql`(h.consumer_id = ${owner} and ${isOfType})` : isOfType;
}
