import { AdaptiveSize } from '../../platform/base/batching.ts';
import type { Call } from '../../platform/base/call.ts';
import { monotonicMs, now } from '../../platform/base/chance.ts';
import { FairQueue } from '../../platform/base/concurrency.ts';
import type { Operation } from '../batching/operation.ts';
import type { CallWait } from '../budget/call-budget.ts';
import { largestBatch } from '../rest/request.ts';
import { heavyPartsOf, type PlannedKind, type Waiting } from './planner.ts';

/** Requests that are worth a call: with more of them, waiting longer saves little. */
const batchSize = 50;
/** The part of a call's time that the first request waits for others: each call counts against a daily quota. */
const lingerPart = 1 / 8;
const longestLingerMs = 50;
const presumedLatencyMs = 100;
const parentWaits = 4;
const longestParentWaitMs = 1000;

const growsAfterMs = 10 * 60_000;

export interface QueuedRequest extends Waiting {
  readonly item: unknown;
  readonly call: Call;
  tries: number;
  since: number;
  /** Rejects it when its time, or its maximum wait, is over while it waits. */
  expiry?: NodeJS.Timeout | undefined;
  readonly leaveQueue: () => void;
  readonly settled: Promise<unknown>;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

export function newRequest<Item>(
  { operation }: RequestKind<Item>,
  item: Item,
  call: Call,
  since = monotonicMs(),
  leaveQueue: () => void = () => undefined,
): QueuedRequest {
  const { promise: settled, resolve, reject } = Promise.withResolvers<unknown>();
  // Background work keeps its order, whatever consumers it is for.
  const tenant = call.background === undefined ? (call.consumerId ?? '') : '';
  const [size, parent] = [operation.size(item), operation.parentOf?.(item)];
  const { deadline } = call;
  return {
    item,
    call,
    tenant,
    size,
    parent,
    deadline,
    tries: 0,
    since,
    leaveQueue,
    settled,
    resolve,
    reject,
  };
}

export interface KindOptions<Item, Result> {
  name: string;
  batchKey: string;
  operation: Operation<Item, Result>;
  object: string;
  objectSize: ObjectSize;
  rows: string | undefined;
  isShared?: boolean;
}

export class RequestKind<Item = unknown, Result = unknown> implements PlannedKind<QueuedRequest> {
  readonly name: string;
  readonly batchKey: string;
  readonly operation: Operation<Item, Result>;
  readonly object: string;
  readonly objectSize: ObjectSize;
  readonly rows: string | undefined;
  readonly isShared: boolean;
  readonly queues: [FairQueue<QueuedRequest>, FairQueue<QueuedRequest>, FairQueue<QueuedRequest>] = [
    new FairQueue(),
    new FairQueue(),
    new FairQueue(),
  ];
  isAcquiring = false;
  isGathering = false;
  callWait: CallWait | undefined;
  wasShort = false;
  isHeldUp = false;
  inFlight = 0;
  linger: NodeJS.Timeout | undefined;
  #latencyMs = presumedLatencyMs;
  readonly #batch = new AdaptiveSize(1, largestBatch);

  constructor({
    name,
    batchKey,
    operation,
    object,
    objectSize,
    rows,
    isShared = true,
  }: KindOptions<Item, Result>) {
    this.name = name;
    this.batchKey = batchKey;
    this.operation = operation;
    this.object = object;
    this.objectSize = objectSize;
    this.rows = rows;
    this.isShared = isShared;
  }

  get isWrite(): boolean {
    return this.operation.effect !== 'read';
  }

  get perCall(): number {
    if (!this.isShared) return 1;
    return this.isWrite ? Math.min(this.#batch.value, this.objectSize.most) : this.#batch.value;
  }

  get requests(): number {
    const [urgent, requests] = this.queues;
    return urgent.size + requests.size;
  }

  get size(): number {
    return this.requests + this.queues[2].size;
  }

  get isWorthCall(): boolean {
    return this.requests >= Math.min(batchSize, this.perCall);
  }

  get lingerMs(): number {
    return Math.min(longestLingerMs, this.#latencyMs * lingerPart);
  }

  get parentWaitMs(): number {
    return Math.min(longestParentWaitMs, this.#latencyMs * parentWaits);
  }

  get waitsSince(): number | undefined {
    if (this.isGathering) return undefined;
    const heads = this.queues.flatMap((queue) => [...queue.heads()]);
    return heads.length === 0 ? undefined : Math.min(...heads.map(([, { since }]) => since));
  }

  get isForWrite(): boolean {
    const [urgent, requests] = this.queues;
    return urgent.size > 0 || (this.isWrite && requests.size > 0);
  }

  get who(): { tenant: string; heavyParts: number } {
    return { tenant: this.name, heavyParts: this.isShared ? heavyPartsOf([this]) : 0 };
  }

  *waiting(): Generator<[consumer: string, requests: number]> {
    for (const queue of this.queues) yield* queue.counts();
  }

  isWriteOf(call: Call): boolean {
    return this.isWrite || call.isWrite === true;
  }

  learn(ms: number, timeoutMs: number): void {
    this.#latencyMs += (ms - this.#latencyMs) / 5;
    if (ms >= timeoutMs) this.#batch.halve();
    else this.#batch.double();
  }
}

/**
 * The most records of one object in a write: triggers may do so much for each record that a large call exceeds a limit of
 * the transaction. Lowered in proportion to what succeeded, and doubled every ten minutes after that.
 */
export class ObjectSize {
  readonly #now: () => number;
  readonly #size = new AdaptiveSize(1, largestBatch);
  #changedAt = 0;

  /** `clock`: milliseconds of any steady clock. */
  constructor(clock = now) {
    this.#now = clock;
  }

  /** Records that may go together, 1 to 200. */
  get most(): number {
    while (!this.#size.isMost && this.#now() - this.#changedAt >= growsAfterMs) {
      this.#size.double();
      this.#changedAt += growsAfterMs;
    }
    return this.#size.value;
  }

  /** `records` succeeded together and `of` did not: the limit falls in that ratio, not to 1, as the fault may have passed. */
  lower(records: number, of: number): void {
    this.#size.lowerTo(Math.ceil((this.most * records) / of));
    this.#changedAt = this.#now();
  }
}
