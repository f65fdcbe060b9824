import { type RawBuilder, sql } from 'kysely';
import type { Mode } from '../../platform/base/mode.ts';
import type { Database } from '../../platform/store/database.ts';
import { firstFence, leaseEnd } from '../../platform/store/leases.ts';
import { isOfTest, timeNow } from '../../platform/store/statements.ts';
import type { NewHandoff } from './accepted.ts';
import { columns, type Row } from './rows.ts';

/** How many hand-offs may wait to be delivered, and how many for approval, in all and of one consumer. */
export interface QueueLimits {
  inAll: number;
  ofConsumer: number;
}

/** Condition: the hand-off is of a consumer of this mode. Each mode has its own queue. */
export function isOfMode(mode: Mode): RawBuilder<boolean> {
  const ofTest = isOfTest(sql`consumer_id`);
  return mode === 'test' ? ofTest : sql`not ${ofTest}`;
}

/**
 * Stores new hand-offs in this state, as many as the limits allow to be in it; returns those that were stored. They are of
 * consumers of one mode. The caller holds the lock for acceptance.
 */
export async function insertNew(
  transaction: Database['sql'],
  handoffs: readonly NewHandoff[],
  status: 'accepted' | 'awaiting_approval',
  { inAll, ofConsumer }: QueueLimits,
  mode: Mode,
): Promise<(Row & { fence: string })[]> {
  if (handoffs.length === 0) return [];
  const column = (value: (handoff: NewHandoff) => unknown) => sql`${handoffs.map(value)}`;
  const ofSame = sql`consumer_id = wanted.consumer_id`;
  const approval = status === 'accepted' ? null : 'pending';
  const { rows } = await sql<Row & { fence: string }>`
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
        ${column(({ delaySeconds = 0 }) => delaySeconds)}::integer[])
        with ordinality as given (external_id, type, consumer_id, consumer_name, actor, actor_subject, request_id, trip_id,
          member_id, name, source, details, valid_until, reference, on_repeat, may_exist, is_held, delay, number)
    ), waiting as (
      select consumer_id, (${countWaiting(status, ofConsumer, ofSame)}) as count
      from (select distinct consumer_id from wanted) as wanted
    )
    insert into handoffs as h (external_id, type, status, consumer_id, consumer_name, actor, actor_subject, request_id, trip_id, member_id,
      name, source, details, valid_until, reference, on_repeat, approval, attempts, may_exist, fence, lease_until, due_at, accepted_at)
    select external_id, type, ${status}, consumer_id, consumer_name, actor, actor_subject, request_id, trip_id, member_id, name,
      source, details, valid_until, reference, on_repeat, ${approval}, is_held::integer, may_exist or is_held, ${firstFence},
      case when is_held then ${leaseEnd} else now() + make_interval(secs => delay) end, now(), ${timeNow}
    from wanted join waiting using (consumer_id)
    where nth + waiting.count <= ${ofConsumer}::integer
    order by number
    limit greatest(0, ${inAll}::integer - (${countWaiting(status, inAll, isOfMode(mode))}))
    on conflict (external_id) do nothing
    returning ${columns}, h.fence::text`.execute(transaction);
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

/** Counts hand-offs in a state, up to the limit. */
function countWaiting(status: string, limit: number, condition: RawBuilder<unknown> = sql`true`) {
  // A literal, for the partial indexes.
  return sql`
    select count(*) from (
      select from handoffs where status = ${sql.lit(status)} and ${condition} limit ${limit}) as waiting`;
}
