import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { firstFence, leaseEnd } from '../../platform/store/leases.ts';
import type { NewHandoff } from './accepted.ts';

/** How many accepted hand-offs may wait, in all and of one consumer. */
export interface QueueLimits {
  inAll: number;
  ofConsumer: number;
}

/** Stores new hand-offs up to the limits; returns those that were stored. The caller holds the lock for acceptance. */
export async function insertNew(
  transaction: Database['sql'],
  handoffs: readonly NewHandoff[],
  { inAll, ofConsumer }: QueueLimits,
): Promise<{ external_id: string; fence: string }[]> {
  const column = (value: (handoff: NewHandoff) => unknown) => sql`${handoffs.map(value)}`;
  const ofSame = sql`consumer_id = wanted.consumer_id`;
  const { rows } = await sql<{ external_id: string; fence: string }>`
    with wanted as (
      select *, row_number() over (partition by consumer_id order by number) as nth
      from unnest(${column(({ externalId }) => externalId)}::uuid[], ${column(({ type }) => type)}::text[],
        ${column(({ consumerId }) => consumerId)}::text[],
        ${column(({ consumerName }) => consumerName ?? null)}::text[],
        ${column(({ actor }) => actor ?? null)}::text[], ${column(({ requestId }) => requestId)}::text[],
        ${column(({ tripId }) => tripId)}::uuid[], ${column(({ memberId }) => memberId)}::uuid[],
        ${column(({ result }) => result.name)}::text[], ${column(({ result }) => result.source)}::text[],
        ${column(({ result }) => result.details)}::text[], ${column(({ mayExist }) => mayExist)}::boolean[],
        ${column(({ isHeld }) => isHeld)}::boolean[])
        with ordinality as given (external_id, type, consumer_id, consumer_name, actor, request_id, trip_id, member_id,
          name, source, details, may_exist, is_held, number)
    ), waiting as (
      select consumer_id, (${countWaiting(ofConsumer, ofSame)}) as count
      from (select distinct consumer_id from wanted) as wanted
    )
    insert into handoffs as h (external_id, type, status, consumer_id, consumer_name, actor, request_id, trip_id, member_id,
      name, source, details, attempts, may_exist, fence, lease_until, due_at, accepted_at)
    select external_id, type, 'accepted', consumer_id, consumer_name, actor, request_id, trip_id, member_id, name,
      source, details, is_held::integer, may_exist or is_held, ${firstFence},
      case when is_held then ${leaseEnd} else now() end, now(),
      date_trunc('milliseconds', now())
    from wanted join waiting using (consumer_id)
    where nth + waiting.count <= ${ofConsumer}::integer
    order by number
    limit greatest(0, ${inAll}::integer - (${countWaiting(inAll)}))
    on conflict (external_id) do nothing
    returning external_id, fence::text`.execute(transaction);
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
): Promise<'waits' | 'full' | undefined> {
  const ofSame = sql`consumer_id = failed.consumer_id`;
  const { rows } = await sql<{ waits: boolean }>`
    with failed as (
      select external_id, (${countWaiting(inAll)}) < ${inAll}::integer
        and (${countWaiting(ofConsumer, ofSame)}) < ${ofConsumer}::integer as has_room
      from handoffs as failed
      where external_id = ${externalId} and status = 'failed' and details is not null
    ), again as (
      update handoffs h set status = 'accepted', problem = null, completed_at = null, troubles = 0, due_at = now(),
        lease_until = now(), fence = fence + 1
      from failed where h.external_id = failed.external_id and h.status = 'failed' and has_room
      returning h.external_id
    )
    select again.external_id is not null as waits from failed left join again using (external_id)`.execute(
    transaction,
  );
  if (rows[0] === undefined) return undefined;
  return rows[0].waits ? 'waits' : 'full';
}

/** Counts waiting hand-offs, up to the limit. */
function countWaiting(limit: number, condition: RawBuilder<unknown> = sql`true`) {
  return sql`
    select count(*) from (
      select from handoffs where status = 'accepted' and ${condition} limit ${limit}) as waiting`;
}
