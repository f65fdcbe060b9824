import { remainingMs } from '../../platform/base/call.ts';
import type { PaidCall } from '../budget/call-budget.ts';
import { type BatchCall, countByConsumer } from '../rest/limiter.ts';
import type { Permit } from '../rest/request.ts';
import type { Forwarding } from './forwarding.ts';
import type { Capacity, DrawnBatch, MixedKind, Mixing, MixingBatcher } from './mixing.ts';
import type { Operation } from './operation.ts';
import type { Pending } from './pending.ts';
import type { RequestQueue } from './request-queue.ts';

/** A batch with what it needs to be sent. */
export interface PermittedBatch<Item, Result> {
  batch: Pending<Item, Result>[];
  call: BatchCall;
  permit: Permit;
}

interface CallSharingOptions<Item, Result> {
  operation: Pick<Operation<Item, Result>, 'size'>;
  queue: RequestQueue<Item, Result>;
  forwarding: Forwarding<Item, Result>;
  /** The longest that a call may take. */
  timeoutMs: number;
  /** Undefined where its batches have calls of their own. */
  mixing?: Mixing | undefined;
  mixedKind?: MixedKind | undefined;
  /** Requests that go into one call. */
  mostRequests(): number;
  newCall(): BatchCall;
  /** Sends one batch. Never throws. */
  send(batch: PermittedBatch<Item, Result>): Promise<void>;
}

/**
 * How one batcher shares calls while calls of the budget are short: other replicas forward their requests to a call that it
 * has got, and other batchers add batches to it; its own batches go with calls of others.
 */
export class CallSharing<Item, Result> implements MixingBatcher {
  readonly mixedKind: MixedKind;
  readonly #options: CallSharingOptions<Item, Result>;
  /** The batcher has got a call, and is about to take its batch. */
  #isGathering = false;

  constructor(options: CallSharingOptions<Item, Result>) {
    this.#options = options;
    this.mixedKind = options.mixedKind ?? { rows: undefined, isWrite: false };
    options.mixing?.register(this);
  }

  /** Lets other replicas add their requests to a call; returns the batchers that may add batches to it. */
  async gather(): Promise<MixingBatcher[]> {
    this.#isGathering = true;
    const companions = this.#options.mixing?.companionsOf(this) ?? [];
    await Promise.all([this, ...companions].map((batcher) => batcher.invite()));
    this.#isGathering = false;
    return companions;
  }

  /** Sends a batch that was taken, in one call with those that the companions have. Never throws. */
  async send(
    first: PermittedBatch<Item, Result> & { paid: PaidCall | undefined },
    companions: readonly MixingBatcher[],
  ): Promise<void> {
    const { mixing, send } = this.#options;
    const { batch, call, permit, paid } = first;
    const others = this.#drawBeside(batch, companions);
    const further = others.flatMap(({ consumers }) => consumers);
    paid?.chargeTo(countByConsumer([...consumersOf(batch), ...further]));
    const [own = permit, ...permits] =
      others.length === 0 ? [] : (mixing?.share(permit, others.length + 1) ?? []);
    const sent = permits.map((each, index) => others[index]?.execute(each));
    await Promise.all([send({ batch, call, permit: own }), ...sent]);
  }

  /** What the companions send in the same call. One with little time must not shorten that of others. */
  #drawBeside(batch: readonly Pending<Item, Result>[], companions: readonly MixingBatcher[]): DrawnBatch[] {
    const { mixing, queue, timeoutMs } = this.#options;
    if (mixing === undefined || companions.length === 0) return [];
    if (batch.some(({ call }) => remainingMs(call) < timeoutMs)) return [];
    const first = { consumers: consumersOf(batch), bytes: this.#bytesOf(batch), rows: this.mixedKind.rows };
    return mixing.draw(companions, first, queue.consumers);
  }

  get waitsSince(): number | undefined {
    return this.#isGathering ? undefined : this.#options.queue.waitsSince;
  }

  invite(): Promise<void> {
    const { forwarding, queue, mostRequests } = this.#options;
    return forwarding.invite(mostRequests() - queue.requests);
  }

  draw(capacity: Capacity): DrawnBatch | undefined {
    const { queue, mostRequests, newCall, send } = this.#options;
    if (this.#isGathering) return undefined;
    const batch = queue.take(Math.min(mostRequests(), capacity.records), { capacity });
    if (batch.length === 0) return undefined;
    return {
      consumers: consumersOf(batch),
      bytes: this.#bytesOf(batch),
      execute: (permit) => send({ batch, call: newCall(), permit }),
    };
  }

  #bytesOf(batch: readonly Pending<Item, Result>[]): number {
    return batch.reduce((sum, { item }) => sum + this.#options.operation.size(item), 0);
  }
}

function consumersOf(batch: readonly Pending<unknown, never>[]): (string | undefined)[] {
  return batch.map(({ call }) => call.consumerId);
}
