import { type Call, remainingMs, startCall } from '../../platform/base/call.ts';
import { fromSent, type LentItem, type Loan, returnMs, type Tell, toSent } from './company.ts';
import type { Pending } from './pending.ts';

/** What a host has beyond the longest call. */
const hostReserveMs = 2000;
/** Characters of answers that a host passes on at most. */
const mostReturned = 4 * 1024 * 1024;

interface Lender<Item, Result> {
  /** The longest that a call may take. */
  timeoutMs: number;
  isWrite(call: Call): boolean;
  /** Lets one wait for a call of this replica. */
  add(pending: Pending<Item, Result>): void;
  /** Goes on with those of which nobody knows what became of them. */
  lose(batch: Pending<Item, Result>[]): void;
}

/** Lends requests of this replica, which wait for no call here, to another one. */
export function lendBatch<Item, Result>(
  batch: readonly Pending<Item, Result>[],
  { timeoutMs, isWrite, add, lose }: Lender<Item, Result>,
): Loan {
  const lentAt = performance.now();
  const open = new Map(batch.entries());
  return {
    items: batch.map(({ item, call, since }) => {
      const { consumerId } = call;
      return { item, consumerId, isWrite: isWrite(call), waitedMs: lentAt - since };
    }),
    // So that each is back before its own end.
    ms: Math.min(timeoutMs + hostReserveMs, ...batch.map(({ call }) => remainingMs(call) - returnMs)),
    settle(index, outcome) {
      const pending = open.get(index);
      open.delete(index);
      if (pending === undefined) return open.size === 0;
      pending.call.crmMs += performance.now() - lentAt;
      if (outcome === 'again') add(pending);
      else if ('failure' in outcome) pending.reject(fromSent(outcome.failure));
      else pending.resolve(outcome.result as Result);
      return open.size === 0;
    },
    giveBack() {
      for (const pending of open.values()) add(pending);
    },
    lose: () => lose([...open.values()]),
  };
}

interface Host<Item, Result> {
  isRead: boolean;
  tell: Tell;
  /** Lets one wait for a call of this replica. */
  add(pending: Pending<Item, Result>): void;
}

/** Takes requests of another replica in, as if they were of this one; resolves when all outcomes are told. */
export function hostItems<Item, Result>(
  items: readonly LentItem[],
  ms: number,
  { isRead, tell, add }: Host<Item, Result>,
): Promise<unknown> {
  let returned = 0;
  const hostOne = ({ item, consumerId, isWrite, waitedMs }: LentItem, index: number) =>
    new Promise<void>((resolve) => {
      add({
        item: item as Item,
        call: { ...startCall('company', consumerId, ms), isWrite },
        tenant: consumerId ?? '',
        tries: 0,
        since: performance.now() - waitedMs,
        leaveQueue: () => {},
        resolve(result) {
          if (isRead) returned += JSON.stringify(result ?? null).length;
          tell(index, returned > mostReturned ? 'again' : { result });
          resolve();
        },
        reject(error) {
          tell(index, toSent(error));
          resolve();
        },
      });
    });
  return Promise.all(items.map(hostOne));
}
