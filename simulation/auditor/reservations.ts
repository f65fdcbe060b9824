import { titleOf, type Write } from './answers.ts';
import type { Ending, Table } from './facts.ts';

/** A reservation as the clients know it. */
export interface KnownReservation {
  readonly write: Write;
  readonly trip: string;
  readonly startSec: number;
  id: string | undefined;
  isCancelled: boolean;
  isBusy: boolean;
}

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
    const bySlot = Map.groupBy(
      tables.filter(({ status }) => standing.has(status)),
      (table) => table.start_sec,
    );
    for (const known of this.known) {
      const { final } = known.write;
      const rows = bookings.get(known.trip) ?? [];
      const own: Table[] = bySlot.get(known.startSec) ?? [];
      bySlot.delete(known.startSec);
      const title = titleOf(known.write);
      if (final === undefined) continue;
      const view = known.id === undefined ? undefined : views.get(`/v1/reservations/${known.id}`);
      const shown = final.status === 201 ? statusOf(view?.text) : 'failed';
      const held = rows.filter((row) => row['Status__c'] !== 'cancelled').length;
      const whole = shown === 'confirmed' ? 1 : 0;
      if (shown !== 'confirmed' && shown !== 'cancelled' && shown !== 'failed')
        this.#violate(`the reservation ${known.id} of ${title} ends as ${shown}`);
      else if (own.length !== whole || held !== whole)
        this.#violate(`${title} is ${shown}, with ${own.length} tables and ${held} bookings`);
      if (known.isCancelled && shown === 'confirmed')
        this.#violate(`the reservation ${known.id} was cancelled, but it is ${shown}`);
    }
    for (const [start, left] of bySlot)
      this.#violate(`nobody knows of ${left.length} tables at ${new Date(start * 1000).toISOString()}`);
  }
}

function statusOf(text = '{}'): string {
  return String((JSON.parse(text) as { status?: string }).status);
}
