import { remainingMs } from '../../platform/base/call.ts';
import { now } from '../../platform/base/clock.ts';
import type { FairQueue } from '../../platform/base/fair-queue.ts';
import { CrmFailure } from '../rest/failure.ts';
import { returnMs } from './company.ts';
import type { Pending } from './pending.ts';

/** Bytes in one call. The CRM documents no limit of a body; an answer of the same size must fit into memory too. */
const mostBytes = 3 * 1024 * 1024;
/** The same for requests that join a call of another replica, through the shared cache. */
const mostLentBytes = 256 * 1024;

interface TakeOptions<Item> {
  /** The most requests in one call. */
  most: number;
  /** The requests join a call of another replica. */
  isLent: boolean;
  /** The time limit of a call. */
  timeoutMs: number;
  /** A call with less time than this, in milliseconds, is not started. */
  shortestCallMs: number;
  /** Bytes that an item adds to a call. */
  size(item: Item): number;
}

/** Takes a batch of waiting requests: one queue after the other; in each, consumers take turns. */
export function takeBatch<Item, Result>(
  queues: readonly FairQueue<Pending<Item, Result>>[],
  { most, isLent, timeoutMs, shortestCallMs, size }: TakeOptions<Item>,
): Pending<Item, Result>[] {
  const batch: Pending<Item, Result>[] = [];
  const bytesAtMost = isLent ? mostLentBytes : mostBytes;
  let bytes = 0;
  const time = now();
  const fits = ({ item, call }: Pending<Item, Result>): boolean => {
    const leftMs = remainingMs(call, time);
    // Enough time for a call must be left when it reaches the other replica and comes back.
    if (isLent && leftMs < shortestCallMs + 2 * returnMs) return false;
    const [first] = batch;
    // A call ends at the earliest deadline of its requests: one with little time must not shorten that of others.
    if (first !== undefined && remainingMs(first.call, time) >= timeoutMs !== leftMs >= timeoutMs)
      return false;
    const bytesWithIt = bytes + (isLent ? Buffer.byteLength(JSON.stringify(item)) : size(item));
    // A single item is sent whatever its size, but only in a call of this replica.
    const isFirst = first === undefined && !isLent;
    if (!isFirst && (batch.length >= most || bytesWithIt > bytesAtMost)) return false;
    bytes = bytesWithIt;
    return true;
  };
  for (let next = takeNext(queues, fits); next; next = takeNext(queues, fits)) {
    clearTimeout(next.expiry);
    next.leaveQueue();
    if (remainingMs(next.call, time) < shortestCallMs)
      next.reject(new CrmFailure('late', 'no time was left for the call'));
    else batch.push(next);
  }
  return batch;
}

function takeNext<T>(queues: readonly FairQueue<T>[], fits: (value: T) => boolean): T | undefined {
  for (const queue of queues) {
    const next = queue.next(fits);
    if (next !== undefined) return next;
  }
  return undefined;
}
