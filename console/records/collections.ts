import { recall } from '../shared/memory.ts';
import type { Session } from '../shared/session.ts';
import type { Collection } from './search.ts';

/** The kinds of records, in the order of the page. */
export const collections = ['quotes', 'bookings', 'members'] as const satisfies readonly Collection[];

export const titles: Record<Collection, string> = {
  quotes: 'Quotes',
  bookings: 'Bookings',
  members: 'Members',
};

/** The last search in each list, which the way back from a record leads to. */
function addressesIn({ memory }: Session): Partial<Record<Collection, string>> {
  return recall(memory, 'addresses', () => ({}));
}

export function listAddress(session: Session, collection: Collection): string {
  return addressesIn(session)[collection] ?? `#/records/${collection}`;
}

/** Keeps the address of the list that is shown. */
export function keepAddress(session: Session, collection: Collection): void {
  addressesIn(session)[collection] = location.hash;
}
