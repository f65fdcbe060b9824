import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import {
  changeInChunks,
  changeInSearch,
  interval,
  type SearchedChunk,
} from '../../platform/store/statements.ts';
import { Turns } from '../../platform/store/turns.ts';
import { eventsRecordedAfter, eventWithId } from '../events/event-log.ts';
import { type EventVisibility, isVisibleTo } from '../events/event-visibility.ts';
import { isAskedFor, type SentEvent, sentEvent } from './delivery-queue.ts';
import { type Delivery, type DeliveryStatus, pingType } from './endpoint.ts';

const walkedAtOnce = 2000;
const deletedAtOnce = 5000;
/** Recoveries at once, of one consumer one: each keeps a connection busy, and jobs and deletions need these too. */
const recoveredAtOnce = 2;

const columns = sql.raw('id, event_id, event_type, status, attempts, next_attempt_at');
const again = sql.raw("status = 'pending', next_attempt_at = now(), tries = 0");

interface EventPosition {
  /** RFC 3339, to the microsecond. */
  recorded_at: string;
  sequence: string;
}

export interface ListedDelivery extends Delivery {
  endpoint_id: string;
  created_at: Date;
}

export interface DeliveryFilter {
  status?: DeliveryStatus | undefined;
  event_id?: string | undefined;
}

export class DeliveriesTable {
  readonly #database: Database;
  readonly #recoveries = new Turns(recoveredAtOnce, 'recoveries');

  constructor(database: Database) {
    this.#database = database;
  }

  async list(
    endpointId: string,
    { status, event_id }: DeliveryFilter,
    before: string | undefined,
    limit: number,
  ): Promise<(Delivery & { number: string })[]> {
    const { rows } = await sql<Delivery & { number: string }>`
      select ${columns}, number::text as number from deliveries where endpoint_id = ${endpointId}
        ${status === undefined ? sql`` : sql`and status = ${status}`}
        ${event_id === undefined ? sql`` : sql`and event_id = ${event_id}`}
        ${before === undefined ? sql`` : sql`and number < ${before}::bigint`}
      order by number desc limit ${limit}`.execute(this.#database.sql);
    return rows;
  }

  async listAll(
    status: DeliveryStatus | undefined,
    endpointId: string | undefined,
    limit: number,
  ): Promise<ListedDelivery[]> {
    const { rows } = await sql<ListedDelivery>`
      select ${columns}, endpoint_id, created_at from deliveries where true
        ${status === undefined ? sql`` : sql`and status = ${status}`}
        ${endpointId === undefined ? sql`` : sql`and endpoint_id = ${endpointId}`}
      order by number desc limit ${limit}`.execute(this.#database.sql);
    return rows;
  }

  async addPing(endpointId: string): Promise<string> {
    const { rows } = await sql<{ event_id: string }>`
      insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
      select ${endpointId}, event_id, ${pingType}, event_id, 'pending', now()
      from (select 'evt_' || replace(gen_random_uuid()::text, '-', '') as event_id) as made
      returning event_id`.execute(this.#database.sql);
    return (rows[0] as { event_id: string }).event_id;
  }

  /** Undefined where the event is gone, or may not be seen. */
  async message(id: string, endpointId: string, visibility: EventVisibility): Promise<SentEvent | undefined> {
    const { rows } = await sql<SentEvent>`
      select w.consumer_id as owner, ${sentEvent}
      from deliveries d join webhook_endpoints w on w.id = d.endpoint_id
        left join lateral (${eventWithId(sql.ref('d.event_id'))}) e on true
      where d.id = ${id} and d.endpoint_id = ${endpointId}
        and (d.event_type = ${pingType} or ${isVisibleTo(visibility)})`.execute(this.#database.sql);
    return rows[0];
  }

  /** Has a delivery sent again, whatever became of it; of this endpoint where one is named. Undefined: there is none. */
  async resend(id: string, endpointId?: string): Promise<Delivery | undefined> {
    const { rows } = await sql<Delivery>`
      update deliveries set ${again} where id = ${id}
        and endpoint_id in (select id from webhook_endpoints where enabled
          ${endpointId === undefined ? sql`` : sql`and id = ${endpointId}`})
      returning ${columns}`.execute(this.#database.sql);
    return rows[0];
  }

  /**
   * Has all events that were recorded since then, are for the endpoint, and were not delivered to it sent to it; also
   * those that came while it was disabled. Returns how many. Throws `store_unavailable` where its turn does not come.
   */
  recover(endpointId: string, since: Date, visibility: EventVisibility): Promise<number> {
    const first = { recorded_at: since.toISOString(), sequence: '0' };
    const search = () =>
      changeInSearch<EventPosition>(this.#database.bulk, first, (after) =>
        recoverChunk(endpointId, visibility, after),
      );
    return this.#recoveries.run(visibility.consumer_id, search);
  }

  async deleteOld(days: number, signal?: AbortSignal): Promise<void> {
    const statement = (limit: number) => sql`
      delete from deliveries where id in (
        select id from deliveries where created_at < now() - ${interval(days * 86_400)}
        order by created_at limit ${limit})`;
    await changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }

  /** Deletes the deliveries of endpoints that no longer exist. Reads one delivery of each other endpoint, not all of them. */
  async deleteOrphans(signal?: AbortSignal): Promise<void> {
    const statement = (limit: number) => sql`
      with recursive found (endpoint_id) as (
        (select endpoint_id from deliveries order by endpoint_id limit 1)
        union all
        select (select d.endpoint_id from deliveries d where d.endpoint_id > found.endpoint_id
          order by d.endpoint_id limit 1)
        from found where found.endpoint_id is not null
      )
      delete from deliveries where id in (
        select d.id from found join deliveries d using (endpoint_id)
        where not exists (select from webhook_endpoints w where w.id = found.endpoint_id)
        limit ${limit})`;
    await changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

/**
 * One statement: for the events after a position, by the time they were recorded, so that the many before the start of the
 * recovery are not read.
 */
function recoverChunk(
  endpointId: string,
  visibility: EventVisibility,
  { recorded_at, sequence }: EventPosition,
): RawBuilder<SearchedChunk<EventPosition>> {
  return sql`
    with chunk as (
      ${eventsRecordedAfter(recorded_at, sequence, walkedAtOnce)}
    ), wanted as (
      select e.* from chunk e join webhook_endpoints w on w.id = ${endpointId} and w.enabled
        and ${isAskedFor} and ${isVisibleTo(visibility)}
    ), made as (
      insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
      select ${endpointId}, id, type, resource_type || ' ' || resource_id, 'pending', now() from wanted order by sequence
      on conflict (endpoint_id, event_id) do update set ${again} where deliveries.status <> 'delivered'
      returning 1
    )
    select (select count(*)::integer from made) as changed, (
      select json_build_object('recorded_at', recorded_at, 'sequence', sequence::text) from chunk
      order by chunk.recorded_at desc, chunk.sequence desc limit 1) as last`;
}
