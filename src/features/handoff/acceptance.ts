import { type RawBuilder, sql } from 'kysely';
import type { Mode } from '../../platform/base/call.ts';
import type { Database } from '../../platform/store/database.ts';
import { firstFence, leaseEnd, leasesOf } from '../../platform/store/leases.ts';
import { isOfTest, timeNow } from '../../platform/store/statements.ts';
import type { NewHandoff } from './accepted.ts';
import { columns } from './rows.ts';

export interface QueueLimits {
  inAll: number;
  ofConsumer: number;
}

const lease = leasesOf({ table: 'handoffs', row: 'h', key: ['external_id'] });
const isEndedItem = sql`(h.reference is not null and h.status not in ('awaiting_approval', 'accepted') and ${lease.isOver})`;

/** A tag is that of a record from before an update: it was there, and isn't removed with a hand-off that is withdrawn. */
const wasSeen = sql`case when entity_tag_before is not null then true end`;

export function isOfMode(mode: Mode): RawBuilder<boolean> {
  const ofTest = isOfTest(sql`consumer_id`);
  return mode === 'test' ? ofTest : sql`not ${ofTest}`;
}

/** Beside the columns of every stored hand-off. */
export interface NewRow {
  externalId: string;
  reference: string | null;
  fence: string;
  mayExist: boolean;
  isReplaced: boolean;
  hadRecord: boolean | null;
  triedSince: Date;
  /** It has taken the place of one of its item that had ended. */
  stood: boolean;
}

const takesOver = sql`on conflict (external_id) do update set sequence = default, status = excluded.status, consumer_name = excluded.consumer_name,
      actor = excluded.actor, actor_subject = excluded.actor_subject, request_id = excluded.request_id,
      member_id = excluded.member_id, name = excluded.name, source = excluded.source, details = excluded.details,
      valid_until = excluded.valid_until, on_repeat = excluded.on_repeat, approval = excluded.approval,
      decided_by = null, decided_at = null, reason = null, native_id = null, problem = null, completed_at = null,
      attempts = excluded.attempts, tries = '[]', troubles = 0, may_exist = h.may_exist or excluded.may_exist, replaced = h.may_exist,
      tried_since = case when h.may_exist then least(coalesce(h.tried_since, h.accepted_at), excluded.tried_since)
        else excluded.tried_since end,
      had_record = case when h.may_exist then h.had_record else excluded.had_record end, entity_tag_before = excluded.entity_tag_before,
      fence = greatest(h.fence + 1, excluded.fence), lease_until = excluded.lease_until, due_at = excluded.due_at,
      accepted_at = excluded.accepted_at, content_at = greatest(excluded.content_at, h.content_at + interval '1 microsecond')
      where ${isEndedItem}`;

/**
 * Stores new hand-offs in this state, as many as the limits allow to be in it; returns those that were stored. They are of
 * consumers of one mode. The
 * caller holds the lock for acceptance.
 */
export async function insertNew(
  transaction: Database['sql'],
  handoffs: readonly NewHandoff[],
  status: 'accepted' | 'awaiting_approval',
  { inAll, ofConsumer }: QueueLimits,
  mode: Mode,
): Promise<NewRow[]> {
  if (handoffs.length === 0) return [];
  const column = (value: (handoff: NewHandoff) => unknown) => sql`${handoffs.map(value)}`;
  const ofSame = sql`consumer_id = wanted.consumer_id`;
  const approval = status === 'accepted' ? null : 'pending';
  const { rows } = await sql<NewRow>`
    with wanted as (
      select *, row_number() over (partition by consumer_id order by number) as nth
      from unnest(${column(({ externalId }) => externalId)}::uuid[], ${column(({ type }) => type)}::text[],
        ${column(({ consumerId }) => consumerId)}::text[],
        ${column(({ consumerName }) => consumerName ?? null)}::text[],
        ${column(({ actor }) => actor ?? null)}::text[], ${column(({ subject }) => subject ?? null)}::text[],
        ${column(({ requestId }) => requestId)}::text[],
        ${column(({ tripId }) => tripId)}::uuid[], ${column(({ memberId }) => memberId)}::uuid[],
        ${column(({ result }) => result.name)}::text[], ${column(({ result }) => result.source)}::text[],
        ${column(({ result }) => result.details)}::text[], ${column(validUntilOf)}::timestamptz[],
        ${column(({ reference }) => reference ?? null)}::text[], ${column(({ onRepeat }) => onRepeat ?? null)}::text[],
        ${column(({ mayExist }) => mayExist)}::boolean[], ${column(({ isHeld }) => isHeld)}::boolean[],
        ${column(({ delaySeconds = 0 }) => delaySeconds)}::integer[],
        ${column(({ mayExist, since }) => (mayExist ? new Date(since) : null))}::timestamptz[],
        ${column(({ before }) => before ?? null)}::text[])
        with ordinality as given (external_id, type, consumer_id, consumer_name, actor, actor_subject, request_id, trip_id,
          member_id, name, source, details, valid_until, reference, on_repeat, may_exist, is_held, delay, tried_since, entity_tag_before,
          number)
    ), waiting as (
      select consumer_id, (${countWaiting(status, ofConsumer, ofSame)}) as count
      from (select distinct consumer_id from wanted) as wanted
    ), ended as (
      select external_id from handoffs h join wanted using (external_id) where ${isEndedItem}
    ), stored as (
    insert into handoffs as h (external_id, type, status, consumer_id, consumer_name, actor, actor_subject, request_id, trip_id, member_id,
      name, source, details, valid_until, reference, on_repeat, approval, attempts, may_exist, tried_since, fence, lease_until, due_at,
      accepted_at, content_at, entity_tag_before, had_record)
    select external_id, type, ${status}, consumer_id, consumer_name, actor, actor_subject, request_id, trip_id, member_id, name,
      source, details, valid_until, reference, on_repeat, ${approval}, is_held::integer, may_exist or (is_held and reference is null), tried_since, ${firstFence},
      case when is_held then ${leaseEnd} else now() + make_interval(secs => delay) end, now(), ${timeNow}, now(), entity_tag_before,
      ${wasSeen}
    from wanted join waiting using (consumer_id)
    where nth + waiting.count <= ${ofConsumer}::integer
    order by number
    limit greatest(0, ${inAll}::integer - (${countWaiting(status, inAll, isOfMode(mode))}))
    ${takesOver}
    returning ${columns}, h.fence::text, h.may_exist as "mayExist", h.replaced as "isReplaced", h.had_record as "hadRecord",
      coalesce(h.tried_since, h.accepted_at) as "triedSince"
    )
    select stored.*, ended.external_id is not null as stood from stored left join ended on ended.external_id = stored."externalId"
    order by stored.sequence::bigint`.execute(transaction);
  return rows;
}

/**
 * Has a failed one wait again, where there is room. Undefined where it is in another state, or its content was erased.
 * Nobody may store any meanwhile.
 */
export async function waitAgain(
  transaction: Database['sql'],
  externalId: string,
  { inAll, ofConsumer }: QueueLimits,
  mode: Mode,
): Promise<'waits' | 'full' | undefined> {
  const ofSame = sql`consumer_id = failed.consumer_id`;
  const { rows } = await sql<{ waits: boolean }>`
    with failed as (
      select external_id, (${countWaiting('accepted', inAll, isOfMode(mode))}) < ${inAll}::integer
        and (${countWaiting('accepted', ofConsumer, ofSame)}) < ${ofConsumer}::integer as has_capacity
      from handoffs as failed
      where external_id = ${externalId} and status = 'failed' and details is not null
    ), again as (
      update handoffs h set status = 'accepted', problem = null, completed_at = null, troubles = 0, due_at = now(),
        lease_until = now(), fence = fence + 1
      from failed where h.external_id = failed.external_id and h.status = 'failed' and has_capacity
      returning h.external_id
    )
    select again.external_id is not null as waits from failed left join again using (external_id)`.execute(
    transaction,
  );
  if (rows[0] === undefined) return undefined;
  return rows[0].waits ? 'waits' : 'full';
}

function validUntilOf({ validUntil }: NewHandoff): Date | null {
  return validUntil === undefined ? null : new Date(validUntil);
}

function countWaiting(status: string, limit: number, condition: RawBuilder<unknown> = sql`true`) {
  // A literal, for the partial indexes.
  return sql`
    select count(*) from (
      select from handoffs where status = ${sql.lit(status)} and ${condition} limit ${limit}) as waiting`;
}
