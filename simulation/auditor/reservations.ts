import { titleOf, type Write } from './answers.ts';
import type { Ending } from './facts.ts';

/** A reservation as the clients know it. */
export interface KnownReservation {
  readonly write: Write;
  readonly trip: string;
  readonly startSec: number;
  id: string | undefined;
  isCancelled: boolean;
  isBusy: boolean;
}

const ends = new Set(['confirmed', 'cancelled', 'failed']);
const standing = new Set(['CONFIRMED', 'PENDING_MERCHANT_CONFIRMATION']);

/** Reservations: a table and a booking in the org, or neither. */
export class Reservations {
  readonly known: KnownReservation[] = [];
  readonly #violate: (what: string) => void;

  constructor(violate: (what: string) => void) {
    this.#violate = violate;
  }

  begin(write: Write, trip: string, startSec: number): KnownReservation {
    const known = { write, trip, startSec, id: undefined, isCancelled: false, isBusy: true };
    this.known.push(known);
    return known;
  }

  check({ live, tables, views }: Ending): void {
    const bookings = Map.groupBy(live.get('bookings') ?? [], (row) => String(row['Trip_Id__c']));
    const stand = tables.filter(({ status }) => standing.has(status));
    const bySlot = Map.groupBy(stand, (table) => table.start_sec);
    for (const known of this.known) {
      const rows = bookings.get(known.trip) ?? [];
      const held = rows.filter((row) => row['Status__c'] !== 'cancelled').length;
      const booked = bySlot.get(known.startSec)?.length ?? 0;
      bySlot.delete(known.startSec);
      this.#checkOne(known, shownAs(known, views), { booked, held });
    }
    for (const [start, left] of bySlot)
      this.#violate(`nobody knows of ${left.length} tables at ${new Date(start * 1000).toISOString()}`);
  }

  #checkOne(known: KnownReservation, shown: string | undefined, has: { booked: number; held: number }): void {
    if (shown === undefined) return;
    const title = titleOf(known.write);
    if (!ends.has(shown)) return this.#violate(`the reservation ${known.id} of ${title} ends as ${shown}`);
    const whole = shown === 'confirmed' ? 1 : 0;
    if (has.booked !== whole || has.held !== whole)
      this.#violate(`${title} is ${shown}, with ${has.booked} tables and ${has.held} bookings`);
    if (known.isCancelled && shown === 'confirmed')
      this.#violate(`the reservation ${known.id} was cancelled, but it is ${shown}`);
  }
}

/** Its status in the API; undefined where the request that made it has no last word. */
function shownAs({ id, write }: KnownReservation, views: Ending['views']): string | undefined {
  if (write.final === undefined) return undefined;
  return write.final.status === 201 ? statusOf(views.get(`/v1/reservations/${id}`)?.text) : 'failed';
}

function statusOf(text = '{}'): string {
  return String((JSON.parse(text) as { status?: string }).status);
}
