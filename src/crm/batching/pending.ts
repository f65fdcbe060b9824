import type { Call } from '../../platform/base/call.ts';

/** A request that waits to be sent. */
export interface Pending<Item, Result> {
  item: Item;
  call: Call;
  tenant: string;
  /** Times it was sent. */
  tries: number;
  /** Since when it waits, wherever that was, by `performance.now()`. */
  since: number;
  /** Rejects it when its time, or its longest wait, is over while it waits. */
  expiry?: NodeJS.Timeout;
  /** Tells admission that it no longer waits. */
  leaveQueue: () => void;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}
