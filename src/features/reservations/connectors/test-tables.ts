import { sql } from 'kysely';
import { adapterFor, type Call, remainingMs } from '../../../platform/base/call.ts';
import { wallMs } from '../../../platform/base/chance.ts';
import { FairLimiter } from '../../../platform/base/concurrency.ts';
import { Problem } from '../../../platform/base/problem.ts';
import type { Database } from '../../../platform/store/database.ts';
import { orUnavailable } from '../../../platform/store/failures.ts';
import { whyNotOffered } from '../merchants.ts';
import type { TableConnector, TableSlot } from './connector.ts';

/** Where tables are to be had, and the last starts of a day in UTC: each half hour from 12:00 to 23:00. */
const merchant = {
  merchant_id: 'casa-olivo-7',
  name: 'Casa Olivo',
  time_zone: 'Europe/Madrid',
  services: [{ service_id: 'table', name: 'Table' }],
};
const seats = 100;
const openFrom = 12 * 60;
const openTo = 23 * 60;
const gridMinutes = 30;
const dayMinutes = 24 * 60;
const cancellableMinutes = 60;

const bookedAtOnce = 2;
const bookingLock = 470_211_891;

const kept = { keeps: 'keeps the tables of test consumers' };

export function liveOrTestTables(live: TableConnector, database: Database): TableConnector {
  const test = createTestTables(live, database);
  const of = (call: Call) => adapterFor(call, { live, test });
  return {
    name: live.name,
    create: (order, attempt, call) => of(call).create(order, attempt, call),
    retrieve: (reference, order, call) => of(call).retrieve(reference, order, call),
    cancel: (reference, order, call) => of(call).cancel(reference, order, call),
    merchants: (call) => of(call).merchants(call),
    areFree: (slots, call) => of(call).areFree(slots, call),
    checkHealth: () => live.checkHealth(),
  };
}

function createTestTables({ name, checkHealth }: TableConnector, database: Database): TableConnector {
  const atStore = <T>(work: () => Promise<T>) => orUnavailable(work, kept);
  /** Each that is booked holds a connection to the database, and live requests need these too. */
  const booking = new FairLimiter(bookedAtOnce, 1);

  return {
    name,
    checkHealth,
    merchants: () => [merchant],
    areFree: (slots, { consumerId = '' }) =>
      atStore(() => Promise.all(slots.map((slot) => isFree(database.sql, slot, consumerId)))),
    async create(order, { token }, call) {
      const { consumerId = '' } = call;
      const reference = `test-${token}`;
      const made = await atStore(() => find(database, reference, call));
      if (made) return { reference, status: statusOf(made) };
      const isBooked = await atStore(() =>
        booking.run(consumerId, () => book(database, order, reference, call)),
      );
      if (!isBooked) throw refused(isOffered(order) ? 'SLOT_UNAVAILABLE' : 'SLOT_NOT_OFFERED');
      return { reference, status: 'confirmed' };
    },
    async retrieve(reference, _order, call) {
      const found = await atStore(() => find(database, reference, call));
      return found && { reference, status: statusOf(found) };
    },
    async cancel(reference, _order, call) {
      const found = await atStore(() => find(database, reference, call));
      if (found === undefined || found.is_cancelled) return;
      if (found.start_at.getTime() - wallMs() < cancellableMinutes * 60_000) {
        const partnerCause = 'USER_CANNOT_CANCEL';
        const detail = `The dining partner refuses to cancel the table: ${partnerCause}.`;
        throw new Problem('conflict', detail, { partnerCause });
      }
      await atStore(() =>
        sql`
          update test_tables set is_cancelled = true
          where consumer_id = ${call.consumerId ?? ''} and reference = ${reference}`.execute(database.sql),
      );
    },
  };
}

/** Whether the seats that are left are enough; tables that overlap with the slot count for all of it. */
async function isFree(queries: Database['sql'], slot: TableSlot, consumerId: string): Promise<boolean> {
  if (!isOffered(slot) || Date.parse(slot.startAt) <= wallMs()) return false;
  const { rows } = await sql<{ guests: number }>`
    select coalesce(sum(guests), 0)::integer as guests from test_tables
    where consumer_id = ${consumerId} and not is_cancelled
      and start_at < ${endOf(slot)}::timestamptz and end_at > ${slot.startAt}::timestamptz`.execute(queries);
  return (rows[0]?.guests ?? 0) + slot.partySize <= seats;
}

/** Whether the table is booked now; one after the other, or two would take the same seats. */
function book({ sql: queries }: Database, order: TableSlot, reference: string, call: Call): Promise<boolean> {
  const { consumerId = '' } = call;
  return queries.transaction().execute(async (transaction) => {
    const lock = sql`select pg_advisory_xact_lock(${sql.lit(bookingLock)}, hashtext(${consumerId}))`;
    await lock.execute(transaction);
    if (!(await isFree(transaction, order, consumerId))) return false;
    if (remainingMs(call) === 0) throw new Error('no time was left to book the table');
    await sql`
      insert into test_tables (consumer_id, reference, start_at, end_at, guests)
      values (${consumerId}, ${reference}, ${order.startAt}, ${endOf(order)}, ${order.partySize})
      on conflict do nothing`.execute(transaction);
    return true;
  });
}

async function find({ sql: queries }: Database, reference: string, { consumerId = '' }: Call) {
  const { rows } = await sql<{ is_cancelled: boolean; start_at: Date }>`
    select is_cancelled, start_at from test_tables
    where consumer_id = ${consumerId} and reference = ${reference}`.execute(queries);
  return rows[0];
}

/**
 * Cancels what a test consumer has at the partner's double, for good; with days, which it has not called for, what lies in the
 * past. Throws what the database does.
 */
export async function emptyTestTables(database: Database, consumerId: string, days: number): Promise<void> {
  await sql`
    delete from test_tables where consumer_id = ${consumerId} and (${days} = 0 or start_at <= now())`.execute(
    database.sql,
  );
}

function statusOf({ is_cancelled }: { is_cancelled: boolean }) {
  return is_cancelled ? ('cancelled' as const) : ('confirmed' as const);
}

function isOffered(slot: TableSlot): boolean {
  const { startAt } = slot;
  const minute = (Date.parse(startAt) / 60_000) % dayMinutes;
  const isOpen = minute >= openFrom && minute <= openTo && minute % gridMinutes === 0;
  return isOpen && whyNotOffered([merchant], slot) === undefined;
}

function endOf({ startAt, durationMinutes }: TableSlot): string {
  return new Date(Date.parse(startAt) + durationMinutes * 60_000).toISOString();
}

function refused(partnerCause: string): Problem {
  return new Problem('partner_rejected', `The dining partner refused the table: ${partnerCause}.`, {
    partnerCause,
  });
}
