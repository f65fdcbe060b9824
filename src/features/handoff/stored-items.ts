import { sql } from 'kysely';
import { sleep } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { leasesOf } from '../../platform/store/leases.ts';
import { addEvents } from '../events/event-log.ts';
import type { Origin, StoredHandoff } from './accepted.ts';
import {
  changedMeanwhile,
  type EarlierAttempts,
  type HandoffConfirmation,
  type HandoffRequest,
  requireSameMember,
} from './handoff.ts';
import { endInstead } from './handoffs-table.ts';
import { columns, type EventOf, eventsOf, toStored } from './rows.ts';

/*
 * An item that is handed off again meets the stored hand-off of the time before:
 *
 *   waiting   It may get the new content. Nobody delivers it meanwhile.
 *   ended     What its calls may have made in the CRM is still to be looked for, or removed. It stays until the new one
 *             stands: a stored one takes its row over, by one that is made at once it is created then. Where the item's record
 *             was there, it stays as it is, and nothing is looked for any more.
 *   created   It says nothing of the record as it is now: the CRM does.
 *
 * Several items are met in one transaction: all of them, or none. Where something is to be made in the CRM first, rows are leased
 * until that is done.
 */

const lease = leasesOf({ table: 'handoffs', row: 'h', key: ['external_id'] });

export interface Again {
  externalId: string;
  request: HandoffRequest;
  needsApproval: boolean;
}

export interface Meeting {
  origin: Origin;
  /** Milliseconds since 1970: what was stored since then may be of an earlier attempt of the same request. Undefined for a first one. */
  continuedSince: number | undefined;
  holds: boolean;
  eventOf: EventOf;
  refusalOf: (refusals: ReadonlyMap<number, unknown>) => unknown;
}

export type Waiting = 'accepted' | 'awaiting_approval';

/** Each array is by the position of the item. */
interface Met {
  waiting: (Waiting | undefined)[];
  left: (EarlierAttempts | undefined)[];
  held: Held[];
}

interface Held {
  again: Again;
  what: 'replace' | 'end';
  fence: string;
}

/** Pauses, in milliseconds, while a hand-off of an item is delivered or removed. */
export const pausesMs = [50, 100, 200, 400, 800, 1600];

export const kept = { keeps: 'keeps accepted hand-offs' };

/** Throws `store_unavailable`, and the `Problem` that the work throws itself. */
export function atStore<T>(work: () => Promise<T>, outcomeUnknown = false): Promise<T> {
  return orUnavailable(work, { ...kept, outcomeUnknown });
}

export function itemInUse(): Problem {
  const detail = 'The item is being delivered or removed right now. Send the same request again shortly.';
  return new Problem('idempotency_in_progress', detail, { retryAfter: 1 });
}

interface Known {
  external_id: string;
  status: StoredHandoff['status'];
  approval: string | null;
  member_id: string | null;
  may_exist: boolean;
  had_record: boolean | null;
  tried_since: Date;
  accepted_at: Date;
  content_at: Date;
  is_free: boolean;
  is_other: boolean;
}

/** Throws `conflict` where the hand-off that waits is for another member. */
export function requireSameItem(
  stored: StoredHandoff | undefined,
  { memberId }: Pick<HandoffRequest, 'memberId'>,
): void {
  if (stored !== undefined && (stored.status === 'accepted' || stored.status === 'awaiting_approval'))
    requireSameMember(stored.memberId, memberId);
}

export interface ItemMeeting extends Pick<Met, 'waiting' | 'left'> {
  /** Once the rest stands, as confirmed. Throws `idempotency_in_progress` where a row was taken meanwhile, `store_unavailable`. */
  done(confirmed?: readonly HandoffConfirmation[]): Promise<void>;
  /** Gives everything back as it was; where that fails too, the leases run out. */
  undone(): Promise<void>;
}

/**
 * Meets the stored hand-offs of items. Throws what `refusalOf` makes of refusals (`conflict`), and `idempotency_in_progress` while one is
 * delivered or removed, `store_unavailable`.
 */
export async function meetItems(
  database: Database,
  items: readonly Again[],
  meeting: Meeting,
): Promise<ItemMeeting> {
  for (const pauseMs of pausesMs) {
    const met = await atStore(() => meet(database, items, meeting));
    if (met === 'busy') {
      await sleep(pauseMs);
      continue;
    }
    const { waiting, left, held } = met;
    return {
      waiting,
      left,
      done: async (confirmed = []) => {
        if (held.length > 0) await atStore(() => finish(database, held, { ...meeting, confirmed }), true);
      },
      undone: async () => {
        if (held.length > 0) await giveBack(database, held).catch(() => undefined);
      },
    };
  }
  throw itemInUse();
}

/** `busy` where one is delivered or removed at the moment. */
async function meet(database: Database, items: readonly Again[], meeting: Meeting): Promise<Met | 'busy'> {
  // What is no item has an External ID of its own, which only an earlier attempt can have stored.
  const mayBeStored = (one: Again) =>
    one.request.reference !== undefined || meeting.continuedSince !== undefined;
  if (!items.some(mayBeStored)) return { waiting: [], left: [], held: [] };
  const ids = items.map(({ externalId }) => externalId);
  const { rows } = await sql`
    select from handoffs where external_id = any(${ids}::uuid[]) and status <> 'created' limit 1`.execute(
    database.sql,
  );
  if (rows.length === 0) return { waiting: [], left: [], held: [] };
  return database.sql.transaction().execute(async (transaction) => {
    const known = await lockRows(transaction, items);
    const refusals = new Map<number, unknown>();
    const moves = items.map((again, index) => {
      try {
        return moveOf(known.get(again.externalId), again, meeting);
      } catch (error) {
        refusals.set(index, error);
        return undefined;
      }
    });
    if (refusals.size > 0) throw meeting.refusalOf(refusals);
    if (moves.includes('busy')) return 'busy';
    const met: Met = { waiting: [], left: [], held: [] };
    for (const [index, again] of items.entries()) {
      const move = moves[index];
      if (move === undefined || move === 'busy') continue;
      if (typeof move === 'string') met.waiting[index] = move;
      else if ('left' in move) {
        met.left[index] = move.left;
        if (meeting.holds) met.held.push(await hold(transaction, again, 'end'));
      } else {
        met.waiting[index] = move.replaces;
        if (meeting.holds) met.held.push(await hold(transaction, again, 'replace'));
        else met.waiting[index] = await replaceContent(transaction, again, meeting);
      }
    }
    return met;
  });
}

type Move = Waiting | 'busy' | { replaces: Waiting } | { left: EarlierAttempts | undefined } | undefined;

/** Throws `conflict`. The hand-off's own state where it stays as it is. */
function moveOf(
  known: Known | undefined,
  { request }: Again,
  { continuedSince }: Pick<Meeting, 'continuedSince'>,
): Move {
  if (known === undefined || known.status === 'created') return undefined;
  const { status } = known;
  const isMaybeOwn = (at: Date) => continuedSince !== undefined && at.getTime() >= continuedSince;
  if (status === 'accepted' || status === 'awaiting_approval')
    return moveOfWaiting(known, status, { request, isMaybeOwn: isMaybeOwn(known.content_at) });
  if (isMaybeOwn(known.accepted_at)) return known.approval === null ? 'accepted' : 'awaiting_approval';
  if (!known.is_free) return 'busy';
  const earlier = { since: known.tried_since.getTime(), hadRecord: known.had_record ?? undefined };
  return { left: known.may_exist ? earlier : undefined };
}

function moveOfWaiting(
  known: Known,
  status: Waiting,
  { request, isMaybeOwn }: { request: HandoffRequest; isMaybeOwn: boolean },
): Move {
  requireSameMember(known.member_id, request.memberId);
  if (request.onRepeat !== 'update') return status;
  if (!isMaybeOwn) return known.is_free ? { replaces: status } : 'busy';
  if (known.is_other) throw changedMeanwhile();
  return status;
}

/** Locks the stored hand-offs of items, in the order of their ids: so two requests for the same ones wait in turn. */
async function lockRows(transaction: Database['sql'], items: readonly Again[]): Promise<Map<string, Known>> {
  const column = (value: (request: HandoffRequest) => unknown) =>
    sql`${items.map(({ request }) => value(request))}`;
  const { rows } = await sql<Known>`
    select h.external_id, h.status, h.approval, h.member_id, h.may_exist, h.had_record,
      coalesce(h.tried_since, h.accepted_at) as tried_since, h.accepted_at, h.content_at, ${lease.isOver} as is_free,
      (h.name, h.details, h.valid_until) is distinct from (item.name, item.details, item.valid_until) as is_other
    from unnest(${items.map(({ externalId }) => externalId)}::uuid[], ${column(({ result }) => result.name)}::text[],
      ${column(({ result }) => result.details)}::text[], ${column(untilOf)}::timestamptz[])
      as item (external_id, name, details, valid_until) join handoffs h using (external_id)
    order by h.external_id for update of h`.execute(transaction);
  return new Map(rows.map((row) => [row.external_id, row]));
}

async function hold(transaction: Database['sql'], again: Again, what: Held['what']): Promise<Held> {
  const { rows } = await sql<{ fence: string }>`
    update handoffs h set ${lease.begin} where external_id = ${again.externalId}
    returning h.fence::text`.execute(transaction);
  return { again, what, fence: rows[0]?.fence ?? '' };
}

/**
 * Does what was held back, once the rest is made in the CRM. A hand-off that was ended meanwhile stays so. Throws
 * `idempotency_in_progress` where the lease ran out and one was delivered as it was.
 */
function finish(database: Database, held: readonly Held[], meeting: Finish): Promise<void> {
  return database.sql.transaction().execute(async (transaction) => {
    const known = await lockRows(
      transaction,
      held.map(({ again }) => again),
    );
    for (const { again, what, fence } of held) {
      if (what === 'end') {
        await endHeld(transaction, { externalId: again.externalId, fence }, meeting);
        continue;
      }
      const status = known.get(again.externalId)?.status;
      if (status === 'created' || status === undefined) throw itemInUse();
      if (status !== 'accepted' && status !== 'awaiting_approval') continue;
      if ((await replaceContent(transaction, again, meeting, fence)) === undefined) throw itemInUse();
    }
  });
}

interface Finish extends Meeting {
  confirmed: readonly HandoffConfirmation[];
}

/** Throws `idempotency_in_progress`: the record may be removed by now. */
async function endHeld(
  transaction: Database['sql'],
  row: { externalId: string; fence: string },
  { confirmed, eventOf }: Finish,
): Promise<void> {
  const made = confirmed.find(
    ({ external_id, status }) => external_id === row.externalId && status !== 'existing',
  );
  const ended = await endInstead(transaction, row, made?.id);
  if (ended === undefined) throw itemInUse();
  if (made) await addEvents(transaction, eventsOf([ended], eventOf));
}

async function giveBack(database: Database, held: readonly Held[]): Promise<void> {
  await sql`
    update handoffs h set ${lease.end}
    from unnest(${held.map(({ again }) => again.externalId)}::uuid[], ${held.map(({ fence }) => fence)}::bigint[])
      as held (external_id, fence)
    where h.external_id = held.external_id and h.fence = held.fence`.execute(database.sql);
}

/**
 * Replaces what a waiting hand-off holds. An approval that was given for other content starts again,
 * and other content needs one that needed none before where the permission asks for it by now. Undefined where another one
 * has leased it.
 */
async function replaceContent(
  transaction: Database['sql'],
  { externalId, request, needsApproval }: Again,
  { origin, eventOf }: Meeting,
  fence?: string,
): Promise<Waiting | undefined> {
  const { result } = request;
  const until = untilOf(request);
  const isFree = fence === undefined ? lease.isOver : sql`(${lease.isOver} or ${lease.isOf(fence)})`;
  const { rows } = await sql<{ asked: boolean }>`
    with before as (
      select external_id, is_other, is_other and status = 'accepted' and (approval = 'approved' or ${needsApproval}::boolean) is true
        as asked
      from (
        select external_id, status, approval, (h.name, h.details, h.valid_until)
          is distinct from (${result.name}::text, ${result.details}::text, ${until}::timestamptz) as is_other
        from handoffs h where external_id = ${externalId} and ${isFree}
      ) as found
    )
    update handoffs h set name = ${result.name}, details = ${result.details},
      valid_until = ${until}, on_repeat = 'update',
      actor = ${origin.actor ?? null}, actor_subject = ${origin.subject ?? null}, request_id = ${origin.requestId},
      fence = h.fence + 1, ${lease.end}, due_at = now(),
      content_at = case when is_other then greatest(now(), h.content_at + interval '1 microsecond') else h.content_at end,
      replaced = h.replaced or (is_other and h.may_exist), entity_tag_before = null,
      status = case when asked then 'awaiting_approval' else h.status end,
      approval = case when asked then 'pending' else h.approval end,
      decided_by = case when asked then null else h.decided_by end,
      decided_at = case when asked then null else h.decided_at end
    from before where h.external_id = before.external_id
    returning ${columns}, asked`.execute(transaction);
  const [row] = rows;
  if (row === undefined) return undefined;
  const replaced = toStored(row);
  if (row.asked) await addEvents(transaction, eventsOf([replaced], eventOf));
  return replaced.status === 'accepted' ? 'accepted' : 'awaiting_approval';
}

function untilOf({ validUntil }: HandoffRequest): Date | null {
  return validUntil === undefined ? null : new Date(validUntil);
}
