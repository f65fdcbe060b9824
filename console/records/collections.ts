import type { Session } from '../shared/session.ts';
import type { Collection } from './search.ts';

/** The kinds of records, in the order of the page. */
export const collections = ['quotes', 'bookings', 'members'] as const satisfies readonly Collection[];

export const titles: Record<Collection, string> = {
  quotes: 'Quotes',
  bookings: 'Bookings',
  members: 'Members',
};

/** The last search in each list, which the way back from a record leads to; gone when this consumer signs out. */
const addresses = new WeakMap<Session['consumer'], Partial<Record<Collection, string>>>();

export function listAddress({ consumer }: Session, collection: Collection): string {
  return addresses.get(consumer)?.[collection] ?? `#/records/${collection}`;
}

/** Keeps the address of the list that is shown. */
export function keepAddress({ consumer }: Session, collection: Collection): void {
  addresses.set(consumer, { ...addresses.get(consumer), [collection]: location.hash });
}
