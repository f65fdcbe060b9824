import { remainingMs, startCall } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import type { CallBudget } from '../budget/call-budget.ts';
import { CrmFailure, isCertainlyUnsent } from '../failure.ts';
import {
  type ForwardedBatch,
  type ForwardedBatches,
  type ForwardedRequest,
  type Forwarder,
  fromSent,
  type Report,
  returnMs,
  toSent,
} from './forwarded-batches.ts';
import { newRequest, type QueuedRequest, type RequestKind } from './request-kind.ts';

const receiverReserveMs = 2000;
/** Characters of a batch's answers that are returned at most. */
const mostReturned = 4 * 1024 * 1024;
/** Bytes of requests that join another replica's call, which travel through the shared cache. */
const mostForwardedBytes = 256 * 1024;

export interface ForwardedRoom {
  records: number;
  bytes: number;
  sizeOf: (request: QueuedRequest) => number;
  furtherMs: number;
}

interface ForwardingOptions {
  kind: RequestKind;
  timeoutMs: number;
  budget?: Pick<CallBudget, 'replicas'> | undefined;
  forwarded?: ForwardedBatches | undefined;
  scheduler: {
    add(kind: RequestKind, request: QueuedRequest): void;
    takeForOther(kind: RequestKind, room: ForwardedRoom): QueuedRequest[];
    goOnAfterLoss(kind: RequestKind, requests: readonly QueuedRequest[], lost: CrmFailure): void;
  };
}

export class Forwarding implements Forwarder {
  readonly #options: ForwardingOptions;
  #inviting = 0;

  constructor(options: ForwardingOptions) {
    this.#options = options;
    options.forwarded?.register(options.kind.batchKey, this);
  }

  async invite(): Promise<void> {
    const { kind, budget, forwarded } = this.#options;
    const capacity = kind.perCall - kind.requests;
    const others = (budget?.replicas ?? 1) - 1;
    if (forwarded === undefined || others === 0 || capacity <= 0) return;
    this.#inviting += 1;
    await forwarded.invite(kind.batchKey, capacity, others);
    this.#inviting -= 1;
  }

  forward(most: number): ForwardedBatch | undefined {
    const { kind, timeoutMs, scheduler } = this.#options;
    // What waits here goes with the call that this replica has.
    if (this.#inviting > 0) return undefined;
    const room = { records: most, bytes: mostForwardedBytes, sizeOf: sentSize, furtherMs: 2 * returnMs };
    const batch = scheduler.takeForOther(kind, room);
    if (batch.length === 0) return undefined;
    const sentAt = monotonicMs();
    const open = new Map(batch.entries());
    return {
      requests: batch.map(({ item, call, since }) => {
        const { consumerId } = call;
        return { item, consumerId, isWrite: kind.isWriteOf(call), waitedMs: sentAt - since };
      }),
      // So that each is answered before its own end.
      ms: Math.min(timeoutMs + receiverReserveMs, ...batch.map(({ call }) => remainingMs(call) - returnMs)),
      settle(index, outcome) {
        const pending = open.get(index);
        open.delete(index);
        if (pending === undefined) return open.size === 0;
        pending.call.crmMs += monotonicMs() - sentAt;
        if (outcome === 'not executed') scheduler.add(kind, pending);
        else if ('failure' in outcome) pending.reject(fromSent(outcome.failure));
        else pending.resolve(outcome.result);
        return open.size === 0;
      },
      lose() {
        const outcomeUnknown = kind.isWrite;
        const lost = new CrmFailure('lost', 'another replica did not report what became of it', {
          outcomeUnknown,
        });
        scheduler.goOnAfterLoss(kind, [...open.values()], lost);
      },
    };
  }

  receive(requests: readonly ForwardedRequest[], ms: number, report: Report): Promise<unknown> {
    const isRead = !this.#options.kind.isWrite;
    let returned = 0;
    const answer = async (request: ForwardedRequest, index: number) => {
      try {
        const result = await this.#submit(request, ms);
        if (isRead) returned += JSON.stringify(result ?? null).length;
        report(index, returned > mostReturned ? 'not executed' : { result });
      } catch (error) {
        // It goes on at its sender, with its own time.
        report(index, isCertainlyUnsent(error) ? 'not executed' : toSent(error));
      }
    };
    return Promise.all(requests.map(answer));
  }

  #submit({ item, consumerId, isWrite, waitedMs }: ForwardedRequest, ms: number): Promise<unknown> {
    const { kind, scheduler } = this.#options;
    const call = { ...startCall('forwarded', consumerId, ms), isWrite };
    const request = newRequest(kind, item, call, monotonicMs() - waitedMs);
    scheduler.add(kind, request);
    return request.settled;
  }
}

function sentSize({ item }: QueuedRequest): number {
  return Buffer.byteLength(JSON.stringify(item));
}
