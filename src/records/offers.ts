import type { Call } from '../platform/base/call.ts';
import { defineOffer } from '../platform/base/offers.ts';
import type { ListQuery, RecordPage, StoredRecord } from './records.ts';
import type { Resource } from './resource.ts';

export interface MemberCache {
  /**
   * The member from the cache, with its age, else from `fetch`; what that finds is kept, and nothing where it finds nothing.
   * `maxAgeSeconds`: how old it may be; as old as the cache keeps it if left out.
   */
  find(
    externalId: string,
    fetch: () => Promise<StoredRecord | undefined>,
    maxAgeSeconds?: number,
  ): Promise<StoredRecord | undefined>;
  /**
   * Drops the member on every replica. `since` is when its change was reported (milliseconds since 1970): where the
   * cache has been unavailable for so long that all that was cached before has ended by itself, there is nothing left to
   * drop. Throws `CacheUnavailable` until then.
   */
  drop(externalId: string, since: number): Promise<void>;
}

export const memberCache = defineOffer<MemberCache>('the cache of members');

export interface RecordCopy {
  find(
    resource: Resource,
    externalId: string,
    call: Call,
  ): Promise<{ record: StoredRecord | undefined } | undefined>;
  /** Records however old; undefined where the copy cannot answer. */
  list(resource: Resource, query: ListQuery, call: Call): Promise<RecordPage | undefined>;
  /** Has the member read again. Throws what the database does. */
  memberChanged(externalId: string): Promise<void>;
}

export const recordCopy = defineOffer<RecordCopy>('the copy of the records');

/** Throws `conflict` for a booking that something else needs as it is. */
export type RequireFreeBooking = (externalId: string, call: Call) => Promise<void>;

export const requireFreeBooking = defineOffer<RequireFreeBooking>('the check that a booking is free');

interface TestWorlds {
  /** Each deletes its part of a test consumer's world that is at least this many days old. */
  readonly emptying: Set<(consumerId: string, days: number) => Promise<void>>;
}

export const testWorlds = defineOffer<TestWorlds>('the worlds of test consumers');

export type ReservationsOfTrip = (tripId: string, limit: number, call: Call) => Promise<object[]>;

export const reservationsOfTrip = defineOffer<ReservationsOfTrip>('the reservations of a trip');
