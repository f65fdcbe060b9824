import type { Call } from '../../platform/base/call.ts';
import type { Operation } from './operation.ts';

/** A request that waits to be sent. */
export interface Pending<Item, Result> {
  item: Item;
  call: Call;
  tenant: string;
  /** Times it was sent. */
  tries: number;
  /** Since when it waits, on whatever replica, by `monotonicMs()`. */
  since: number;
  /** Rejects it when its time, or its maximum wait, is over while it waits. */
  expiry?: NodeJS.Timeout;
  /** Called when it no longer waits in this replica's queue limit. */
  leaveQueue: () => void;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/** Whether a request is a write, or the look-up that a write begins with. */
export function isWrite({ effect }: Pick<Operation<never, unknown>, 'effect'>, call: Call): boolean {
  return effect !== 'read' || call.isWrite === true;
}
