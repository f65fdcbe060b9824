import { remainingMs, startCall } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import { CrmFailure, isCertainlyUnsent } from '../rest/failure.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import {
  type ForwardedBatch,
  type ForwardedBatches,
  type ForwardedRequest,
  type ForwardingBatcher,
  type Report,
  returnMs,
} from './forwarded-batches.ts';
import type { Operation } from './operation.ts';
import { isWrite, type Pending } from './pending.ts';
import type { RequestQueue } from './request-queue.ts';
import { fromSent, toSent } from './sent-outcome.ts';

/** What the receiver of a batch has beyond the longest call. */
const receiverReserveMs = 2000;
/** Characters of a batch's answers that are returned at most. */
const mostReturned = 4 * 1024 * 1024;

/** What forwarding needs of its batcher. */
interface ForwardingOptions<Item, Result> {
  /** The same on replicas whose requests may share a call. */
  batchKey: string;
  operation: Pick<Operation<Item, Result>, 'effect'>;
  /** The longest that a call may take. */
  timeoutMs: number;
  client: Pick<CrmClient, 'budget'>;
  /** How replicas reach each other; undefined where they share no calls. */
  forwarded?: ForwardedBatches | undefined;
  queue: RequestQueue<Item, Result>;
  /** Lets a request wait for a call of this replica. */
  add(pending: Pending<Item, Result>): void;
  /** Goes on with requests that another replica may have executed. */
  goOnAfterLoss(batch: Pending<Item, Result>[], lost: CrmFailure): void;
}

/** The requests of one batcher that share a call of another replica, and those of other replicas that share its calls. */
export class Forwarding<Item, Result> implements ForwardingBatcher {
  readonly #options: ForwardingOptions<Item, Result>;
  /** Invitations that are open. */
  #inviting = 0;

  constructor(options: ForwardingOptions<Item, Result>) {
    this.#options = options;
    options.forwarded?.register(options.batchKey, this);
  }

  /** Lets other replicas use the capacity that a call has left; resolves when they have answered. Never throws. */
  async invite(capacity: number): Promise<void> {
    const { batchKey, client, forwarded } = this.#options;
    const others = (client.budget?.replicas ?? 1) - 1;
    if (forwarded === undefined || others === 0 || capacity <= 0) return;
    this.#inviting += 1;
    await forwarded.invite(batchKey, capacity, others);
    this.#inviting -= 1;
  }

  forward(most: number): ForwardedBatch | undefined {
    const { queue, operation, timeoutMs, add, goOnAfterLoss } = this.#options;
    // What waits here goes with the call that this replica has.
    const batch = this.#inviting > 0 ? [] : queue.take(most, { isForwarded: true });
    if (batch.length === 0) return undefined;
    const sentAt = monotonicMs();
    const open = new Map(batch.entries());
    return {
      requests: batch.map(({ item, call, since }) => {
        const { consumerId } = call;
        return { item, consumerId, isWrite: isWrite(operation, call), waitedMs: sentAt - since };
      }),
      // So that each is answered before its own end.
      ms: Math.min(timeoutMs + receiverReserveMs, ...batch.map(({ call }) => remainingMs(call) - returnMs)),
      settle(index, outcome) {
        const pending = open.get(index);
        open.delete(index);
        if (pending === undefined) return open.size === 0;
        pending.call.crmMs += monotonicMs() - sentAt;
        if (outcome === 'not executed') add(pending);
        else if ('failure' in outcome) pending.reject(fromSent(outcome.failure));
        else pending.resolve(outcome.result as Result);
        return open.size === 0;
      },
      lose() {
        const outcomeUnknown = operation.effect !== 'read';
        const lost = new CrmFailure('lost', 'another replica did not report what became of it', {
          outcomeUnknown,
        });
        goOnAfterLoss([...open.values()], lost);
      },
    };
  }

  receive(requests: readonly ForwardedRequest[], ms: number, report: Report): Promise<unknown> {
    const isRead = this.#options.operation.effect === 'read';
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

  #submit(request: ForwardedRequest, ms: number): Promise<Result> {
    const { item, consumerId, waitedMs } = request;
    return new Promise((resolve, reject) => {
      const call = { ...startCall('forwarded', consumerId, ms), isWrite: request.isWrite };
      const [tenant, since] = [consumerId ?? '', monotonicMs() - waitedMs];
      const pending = { item: item as Item, call, tenant, since, tries: 0, leaveQueue() {}, resolve, reject };
      this.#options.add(pending);
    });
  }
}
