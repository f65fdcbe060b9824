import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../store/database.ts';
import { changeInPieces, interval } from '../store/statements.ts';
import { eventColumns, type Grant, grantRows, isWanted } from './delivery-queue.ts';
import { type Delivery, type DeliveryStatus, pingType } from './endpoint.ts';

/** Events that one statement of a recovery walks. */
const walkedAtOnce = 2000;
/** Deliveries that one statement deletes. */
const deletedAtOnce = 5000;

const columns = sql.raw('id, event_id, event_type, status, attempts, next_attempt_at');
/** Sent at once, with the whole schedule before it. */
const again = sql.raw("status = 'pending', next_attempt_at = now(), tries = 0");

/** The order of lists. */
interface Numbered {
  number: string;
}

/** A delivery as operators see it. */
export interface ListedDelivery extends Delivery {
  endpoint_id: string;
  created_at: Date;
}

export interface DeliveryFilter {
  status?: DeliveryStatus | undefined;
  event_id?: string | undefined;
}

/** Deliveries as consumers and operators see them. */
export class DeliveriesTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Newest first, those before the number `before`. */
  async list(
    endpointId: string,
    { status, event_id }: DeliveryFilter,
    before: string | undefined,
    limit: number,
  ): Promise<(Delivery & Numbered)[]> {
    const { rows } = await sql<Delivery & Numbered>`
      select ${columns}, number::text as number from deliveries where endpoint_id = ${endpointId}
        ${status === undefined ? sql`` : sql`and status = ${status}`}
        ${event_id === undefined ? sql`` : sql`and event_id = ${event_id}`}
        ${before === undefined ? sql`` : sql`and number < ${before}::bigint`}
      order by number desc limit ${limit}`.execute(this.#database.sql);
    return rows;
  }

  /** The same over all endpoints, for operators. */
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

  /** Has an event of no feed sent to an endpoint; returns its id. */
  async addPing(endpointId: string): Promise<string> {
    const { rows } = await sql<{ event_id: string }>`
      insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
      select ${endpointId}, event_id, ${pingType}, event_id, 'pending', now()
      from (select 'evt_' || replace(gen_random_uuid()::text, '-', '') as event_id) as made
      returning event_id`.execute(this.#database.sql);
    return (rows[0] as { event_id: string }).event_id;
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
   * those that came while it was disabled. Returns how many.
   */
  async recover(endpointId: string, since: Date, grants: readonly Grant[]): Promise<number> {
    let recovered = 0;
    for (let after: string | null = '0'; after !== null; ) {
      const piece = recoverPiece(endpointId, since, grants, after);
      const { rows } = await piece.execute(this.#database.bulk);
      recovered += rows[0]?.recovered ?? 0;
      after = rows[0]?.last ?? null;
    }
    return recovered;
  }

  /** Deletes deliveries that were made so many days ago, and those of endpoints that are gone. */
  async deleteOld(days: number): Promise<void> {
    const statement = sql`
      delete from deliveries where id in (
        select id from deliveries
        where created_at < now() - ${interval(days * 86_400)}
          or not exists (select from webhook_endpoints w where w.id = endpoint_id)
        limit ${deletedAtOnce})`;
    await changeInPieces(this.#database.bulk, deletedAtOnce, statement);
  }
}

/** One statement: of the events after a sequence. `last`: of the last one that it saw. */
function recoverPiece(
  endpointId: string,
  since: Date,
  grants: readonly Grant[],
  after: string,
): RawBuilder<{ last: string | null; recovered: number }> {
  return sql`
    with ${grantRows(grants)}, piece as (
      select ${eventColumns} from events e where sequence > ${after}::bigint and recorded_at >= ${since} order by sequence
      limit ${walkedAtOnce}
    ), wanted as (
      select e.* from piece e join webhook_endpoints w on w.id = ${endpointId} and w.enabled and ${isWanted}
    ), made as (
      insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
      select ${endpointId}, id, type, resource_type || ' ' || resource_id, 'pending', now() from wanted order by sequence
      on conflict (endpoint_id, event_id) do update set ${again} where deliveries.status <> 'delivered'
      returning 1
    )
    select (select max(sequence)::text from piece) as last, (select count(*)::integer from made) as recovered`;
}
