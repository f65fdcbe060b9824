import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type DiningPartner, slotInDays } from './dining-partner.ts';
import type { Org } from './org.ts';

let days = 1;

/** The body of a reservation for a slot that no other has, below the limit of how far ahead the partner books. */
export function newReservation(memberId: string, dining: object = {}): Record<string, unknown> {
  days += 1;
  return {
    trip_id: randomUUID(),
    member_id: memberId,
    name: 'Casa Olivo, a table for four',
    dining: {
      merchant_id: 'casa-olivo-7',
      service_id: 'table',
      start_at: slotInDays(days),
      party_size: 4,
      guest: { given_name: 'Inés', family_name: 'Marín', email: 'ines@example.com', phone: '+12025550143' },
      ...dining,
    },
  };
}

const standing = new Set(['CONFIRMED', 'PENDING_MERCHANT_CONFIRMATION']);

/** What both systems hold of a trip, and of the slot of one reservation. */
export interface Holdings {
  /** Status of each CRM booking. */
  bookings: unknown[];
  /** Status of each table, standing or not. */
  tables: string[];
}

export async function holdingsOf(
  { org, partner }: { org: Org; partner: DiningPartner },
  body: Record<string, unknown>,
): Promise<Holdings> {
  const { start_at } = body['dining'] as { start_at: string };
  const bookings = await org.records('Booking__c', { Trip_Id__c: body['trip_id'] as string });
  const tables = await partner.bookings({ start_sec: String(Date.parse(start_at) / 1000) });
  return {
    bookings: bookings.map((record) => record['Status__c']),
    tables: tables.map(({ status }) => status),
  };
}

/**
 * Asserts for all reservations at once that no table stands without its confirmed CRM booking, and no CRM booking
 * without its standing table, by what they say of each other.
 */
export async function assertWhole({ org, partner }: { org: Org; partner: DiningPartner }): Promise<number> {
  const bookings = (await org.records('Booking__c')).filter((record) => record['Source__c'] === 'dining');
  const live = bookings.filter((record) => record['Status__c'] !== 'cancelled');
  const referred = live.map((record) => {
    assert.equal(record['Status__c'], 'confirmed', String(record['External_Id__c']));
    return (JSON.parse(String(record['Details__c'])) as { dining: { booking_id: string } }).dining.booking_id;
  });
  const tables = (await partner.bookings()).filter(({ status }) => standing.has(status));
  assert.deepEqual(referred.sort(), tables.map(({ booking_id }) => booking_id).sort());
  return tables.length;
}
