import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { deadlineFromNow, type Held, leaseSeconds, leasesOf } from '../../platform/store/leases.ts';
import { interval } from '../../platform/store/statements.ts';
import { eventsBetween, eventWithId, lastSequence } from '../events/event-log.ts';
import {
  isVisibleByRow,
  joinVisibility,
  mayBeVisibleByRow,
  type ViewerVisibility,
  visibilityRows,
} from '../events/event-visibility.ts';
import { type DeliveryAttempt, maxEndpoints, pingType } from './endpoint.ts';

/*
 * What becomes of a delivery, of one event to one endpoint:
 *
 *   ── the event is for the endpoint ──> pending ── 2xx ──> delivered
 *                                       ^ ^   │                 │
 *              any other answer, or none │ │   └── the last attempt failed, the endpoint is disabled,
 *                 (after a delay) ───────┘ │       or may not see the event any more ──> failed
 *                                          └───────────── resend, recover ──────────────┴──┘
 *
 * Made once: the events are walked by their sequence, and the position moves in the statement that makes the deliveries.
 * Where an endpoint's consumer is not loaded, nobody can say what it may see: its deliveries are made, and checked
 * when they are leased, as all are. What was never to be seen is then deleted.
 *
 * Sent at least once: a process leases a delivery for 30 seconds, twice as long as an attempt takes, begins the attempt while
 * there is time for all of it, and finishes it under its fence. What a process leaves behind when it is killed is leased again by another.
 *
 * One at a time for each record of an endpoint, and a bounded number for each endpoint: who makes and leases deliveries
 * holds the row of `delivery_position` meanwhile, a few milliseconds, so that each counts what all others have leased.
 * Endpoints that have enough in progress are left out before their deliveries are looked at. So what waits for one of them, however
 * much that is, costs others nothing.
 */

/** A delivery that was never leased, or is finished, has null in `claimed_until`. */
const deliveries = {
  table: 'deliveries',
  row: 'd',
  key: ['id'],
  leasedUntil: 'claimed_until',
  fence: 'claim',
};
const lease = leasesOf(deliveries);
const askedMeanwhile = sql`(next_attempt_at > claimed_until - ${interval(leaseSeconds)})`;
const endpointCapacity = 10;
/** Deliveries at once while nothing but failures comes: such endpoints must not fill what all of them share. */
const failingCapacity = 2;
/**
 * Due deliveries of an endpoint that one lease reads, oldest first. A limit, since one delivery for each record is sent at a
 * time: where most are for a few records, it would otherwise read all of them.
 */
const lookedAt = 200;

const slotsOfConsumer = maxEndpoints * endpointCapacity;
/**
 * Deliveries that a process sends at once: four times the most of one consumer, so that none holds more than a quarter. An
 * endpoint may take 15 s to answer, and its slot cannot be freed earlier for another consumer.
 */
export const slotsInAll = 4 * slotsOfConsumer;
/** Events that one statement walks, and deliveries that it makes, unless one event alone has more. */
const walkedAtOnce = 500;
const madeAtOnce = 2000;
/** Attempts that are kept of one delivery: those of its schedule, and of some that were asked for. */
const keptAttempts = 50;
/** After this much time with nothing but failures an endpoint is disabled. */
const failingSeconds = 5 * 86_400;
const goneStatus = 410;

export interface EndpointViewer {
  viewer: string;
  consumer_id: string;
  /** Null: all that the consumer may. */
  scopes: readonly string[] | null;
}

export interface EndpointConsumers {
  visibility: readonly ViewerVisibility[];
  active: readonly string[];
}

interface Slots {
  taken: ReadonlyMap<string, number>;
  /** Deliveries to lease at most. */
  limit: number;
}

interface PendingWork {
  viewers: EndpointViewer[];
  /** Sequence of the newest event when the viewers were read: later ones may be for others. */
  lastEvent: string;
  hasEvents: boolean;
  /** There are deliveries that could be sent now, though perhaps to an endpoint that has enough in progress. */
  hasDue: boolean;
  /** Seconds until the next one could be; null where none waits for its time. */
  nextInSeconds: number | null;
}

export interface LeasedDelivery extends SentEvent, Held {
  id: string;
  fence: number;
  tries: number;
  endpoint_id: string;
  viewer: string;
  url: string;
  secret_version: string;
  allowed: boolean;
}

export interface SentEvent {
  event_id: string;
  event_type: string;
  owner: string;
  occurred_at: Date;
  resource_type: string;
  resource_id: string;
  /** Null for a ping. */
  permission_resource: string | null;
  /** JSON text. */
  data: string;
  data_omitted: boolean;
}

export const sentEvent = sql`d.event_id, d.event_type, coalesce(e.occurred_at, d.created_at) as occurred_at,
  coalesce(e.resource_type, 'webhook_endpoint') as resource_type, coalesce(e.resource_id, d.endpoint_id) as resource_id,
  e.permission_resource,
  coalesce(e.data, json_build_object('id', d.endpoint_id)::text) as data,
  coalesce(e.data_omitted, false) as data_omitted`;

type DeliveryOutcome = 'delivered' | 'failed' | 'dropped' | 'postponed';

export interface DeliveryResult {
  id: string;
  fence: number;
  url: string;
  /** Dropped: not sent, for good. Postponed: not sent, and no attempt. */
  outcome: DeliveryOutcome;
  attempt: DeliveryAttempt | null;
  /** Seconds until the next attempt; null: there is none. */
  next_in: number | null;
}

/** Reason, from its answers, to disable an endpoint while it has this URL. */
export interface EndpointFault {
  id: string;
  url: string;
  reason: 'gone' | 'failing';
}

export class DeliveryQueue {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async pendingWork(): Promise<PendingWork> {
    const { rows } = await sql<PendingWork>`
      select
        (select coalesce(jsonb_agg(distinct jsonb_build_object(
          'viewer', ${viewer}, 'consumer_id', w.consumer_id, 'scopes', w.scopes)), '[]')
          from webhook_endpoints w) as viewers,
        ${lastSequence}::text as "lastEvent",
        ${lastSequence} > (select sequence from delivery_position) as "hasEvents",
        exists (select from deliveries where ${isDue('deliveries')}) as "hasDue",
        (select extract(epoch from min(next_attempt_at) - now())::double precision from deliveries
          where status = 'pending' and next_attempt_at > now()) as "nextInSeconds"`.execute(
      this.#database.sql,
    );
    return rows[0] as PendingWork;
  }

  /**
   * Makes deliveries of the events up to `lastEvent`, and leases some that are due. The consumers are as they were after that
   * event, or later: by older permissions, or without a new endpoint, a delivery would be left out for good.
   */
  async take(
    consumers: EndpointConsumers,
    { lastEvent, ...slots }: Slots & Pick<PendingWork, 'lastEvent'>,
  ): Promise<{ leased: LeasedDelivery[]; hasMore: boolean }> {
    let hasMore = false;
    const withDeadline = deadlineFromNow();
    const leased = await this.#database.sql.transaction().execute(async (transaction) => {
      // Compiling these statements would take a hundred times as long as running them.
      await sql`select set_config('jit', 'off', true) from delivery_position for update`.execute(transaction);
      const { rows } = await fanOut(consumers.visibility, lastEvent).execute(transaction);
      hasMore = rows[0]?.hasMore === true;
      return slots.limit > 0 ? (await leaseDue(consumers, slots).execute(transaction)).rows : [];
    });
    return { leased: withDeadline(leased), hasMore };
  }

  /**
   * Seconds since the oldest delivery that waits was made, and since the one that is most overdue should have been sent;
   * that of consumers which are not active is not overdue. What is asked for again while its endpoint is disabled may stay
   * pending, and does not count.
   */
  async ages({ active }: Pick<EndpointConsumers, 'active'>): Promise<{ pending: number; overdue: number }> {
    const { rows } = await sql<{ pending: number; overdue: number }>`
      select
        coalesce(extract(epoch from now() - min(oldest.created_at)), 0)::double precision as pending,
        greatest(coalesce(extract(epoch from now() - min(next.next_attempt_at)
          filter (where ${isOneOf(active)})), 0), 0)::double precision as overdue
      from webhook_endpoints w left join lateral (
        select d.created_at from deliveries d where d.endpoint_id = w.id and d.status = 'pending'
        order by d.number limit 1
      ) as oldest on true left join lateral (
        select d.next_attempt_at from deliveries d
        where d.endpoint_id = w.id and d.status = 'pending' and d.claimed_until is null
        order by d.next_attempt_at, d.number limit 1
      ) as next on true where w.enabled`.execute(this.#database.bulk);
    return rows[0] as { pending: number; overdue: number };
  }

  /**
   * Stores results, and what they say of their endpoints. One that was replaced changes nothing, and one of an earlier URL nothing
   * of the endpoint. Returns the endpoints that answered 410, or have had nothing but failures for too long.
   */
  async finish(results: readonly DeliveryResult[]): Promise<EndpointFault[]> {
    const { rows } = await sql<EndpointFault>`
      with results as (
        select * from jsonb_to_recordset(${JSON.stringify(results)}::jsonb)
          as result (id text, fence integer, url text, outcome text, attempt jsonb, next_in double precision)
      ), latest as (
        select d.id, outcome = 'dropped' and d.attempts = '[]' as never_seen
        from deliveries d join results on d.id = results.id and d.claim = results.fence
        where claimed_until is not null
      ), removed as (
        delete from deliveries where id in (select id from latest where never_seen)
      ), done as (
        update deliveries as d set
          attempts = case when attempt is null then attempts
            when jsonb_array_length(attempts) < ${keptAttempts}::integer then attempts || attempt
            else attempts - 0 || attempt end,
          tries = case when ${askedMeanwhile} then 0 when outcome = 'postponed' then tries else tries + 1 end,
          status = case when outcome = 'delivered' then 'delivered'
            when status = 'pending' and (next_in is not null or ${askedMeanwhile}) then 'pending' else 'failed' end,
          next_attempt_at = case when outcome = 'delivered' or status <> 'pending' then null
            when ${askedMeanwhile} then next_attempt_at else now() + make_interval(secs => next_in) end,
          claimed_until = null
        from results
        where d.id = results.id and d.claim = results.fence and claimed_until is not null
          and d.id not in (select id from latest where never_seen)
        returning endpoint_id, url, outcome, attempt ->> 'status' as answered
      ), reported as (
        select endpoint_id, url, bool_or(outcome = 'delivered') as succeeded, bool_or(outcome = 'failed') as failed,
          bool_or(answered = ${String(goneStatus)}) as is_gone
        from done where outcome in ('delivered', 'failed') group by endpoint_id, url
      ), noted as (
        update webhook_endpoints as w set
          last_success_at = case when succeeded then now() else last_success_at end,
          last_failure_at = case when failed then now() else last_failure_at end,
          failing_since = case when succeeded then null else coalesce(failing_since, now()) end
        from reported where w.id = endpoint_id and w.url = reported.url
        returning w.id, w.url, is_gone, failing_since <= now() - ${interval(failingSeconds)} as is_failing
      )
      select id, url, case when is_gone then 'gone' else 'failing' end as reason
      from noted where is_gone or is_failing`.execute(this.#database.sql);
    return rows;
  }
}

const consumer = sql.ref('w.consumer_id');
const viewer: RawBuilder<string> = sql`(w.consumer_id || coalesce(' ' || w.scopes::text, ''))`;

export const isAskedFor: RawBuilder<unknown> = sql`(w.event_types = '[]' or exists (
  select from jsonb_array_elements_text(w.event_types) as asked
  where asked = e.type or (asked like '%.*' and starts_with(e.type, left(asked, -1)))))`;

/** Condition: the viewer is one of these. An array is always hashed; of a subquery, every row may be compared with every other. */
function isOneOf(viewers: readonly string[]): RawBuilder<boolean> {
  return sql`${viewer} = any(${viewers}::text[])`;
}

function isDue(name: string): RawBuilder<unknown> {
  const d = sql.ref(name);
  return sql`(${d}.status = 'pending' and ${d}.next_attempt_at <= now()
    and (${d}.claimed_until is null or ${d}.claimed_until <= now()))`;
}

function fanOut(
  visibility: readonly ViewerVisibility[],
  lastEvent: string,
): RawBuilder<{ hasMore: boolean }> {
  const upTo = sql`${lastEvent}::bigint`;
  return sql`
    with ${visibilityRows(visibility)}, start as (
      select greatest(sequence, (select min(after_sequence) from webhook_endpoints where enabled)) as sequence
      from delivery_position
    ), most as (
      select greatest(1, least(${walkedAtOnce}::bigint, ${madeAtOnce}::bigint / greatest(1, count(*)))) as events
      from webhook_endpoints where enabled
    ), chunk as (
      ${eventsBetween(sql`(select sequence from start)`, upTo, sql`(select events from most)`)}
    ), moved as (
      update delivery_position set sequence = case (select count(*) from chunk)
        when (select events from most) then (select max(sequence) from chunk)
        else greatest(sequence, ${upTo}) end
    ), made as (
      insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
      select w.id, e.id, e.type, e.resource_type || ' ' || e.resource_id, 'pending', now()
      from chunk e join webhook_endpoints w on w.enabled and w.after_sequence < e.sequence and ${isAskedFor}
        ${joinVisibility(viewer)}
      where ${mayBeVisibleByRow(consumer)}
      order by e.sequence
      on conflict (endpoint_id, event_id) do nothing
    )
    select (select count(*) from chunk) = (select events from most) as "hasMore"`;
}

/**
 * Leases deliveries of the consumers in rotation. The consumer that holds the fewest slots comes first, counting what this lease
 * gives it. It gets a slot only while it holds fewer than are free. So one consumer alone gets its full share, several
 * share, and some slots stay free for a consumer that holds none. A ping is about the endpoint itself.
 */
function leaseDue(
  { visibility, active }: EndpointConsumers,
  { taken, limit }: Slots,
): RawBuilder<Omit<LeasedDelivery, keyof Held>> {
  const all = [...taken].map(([consumer_id, count]) => ({ consumer_id, count }));
  const free = slotsInAll - all.reduce((sum, { count }) => sum + count, 0);
  return sql`
    with ${visibilityRows(visibility)}, taken as (
      select * from jsonb_to_recordset(${JSON.stringify(all)}::jsonb) as one (consumer_id text, "count" integer)
    ), endpoints as (
      select w.id, w.consumer_id, case when w.failing_since is null then ${endpointCapacity}::integer else ${failingCapacity}::integer end
        - (select count(*)::integer from deliveries o where o.endpoint_id = w.id and o.claimed_until > now()) as free
      from webhook_endpoints w
      where w.enabled and ${isOneOf(active)}
    ), ready as (
      select due.*, endpoints.consumer_id from endpoints cross join lateral (
        select d.id, d.next_attempt_at, d.number from (
          select * from deliveries d where d.endpoint_id = endpoints.id and ${isDue('d')}
          order by d.next_attempt_at, d.number limit ${lookedAt}
        ) as d
        where not exists (
            select from deliveries o
            where o.endpoint_id = d.endpoint_id and o.record = d.record and o.claimed_until > now())
          and not exists (
            select from deliveries o
            where o.endpoint_id = d.endpoint_id and o.record = d.record and o.number < d.number and ${isDue('o')})
        order by d.next_attempt_at, d.number limit endpoints.free
      ) as due
      where endpoints.free > 0
    ), numbered as (
      select ready.*, coalesce(taken."count", 0)
        + row_number() over (partition by consumer_id order by next_attempt_at, number) as nth
      from ready left join taken using (consumer_id)
    ), interleaved as (
      select id, nth, row_number() over (order by nth, next_attempt_at, number) - 1 as before from numbered
    ), mine as (
      select id from interleaved
      where nth <= ${slotsOfConsumer}::integer and nth + before <= ${free}::integer
      order by before limit ${limit}
    )
    update deliveries as d set ${lease.begin}
    from mine join deliveries as found on found.id = mine.id
      join webhook_endpoints w on w.id = found.endpoint_id
      ${joinVisibility(viewer)}
      left join lateral (${eventWithId(sql.ref('found.event_id'))}) e on true
    where d.id = mine.id and d.status = 'pending'
    returning d.id, d.claim as fence, d.tries, d.endpoint_id,
      w.consumer_id as owner, ${viewer} as viewer, w.url,
      w.secret_version::text as secret_version,
      d.event_type = ${pingType} or ${isVisibleByRow()} as allowed,
      ${sentEvent}`;
}
