import { remainingMs, startCall } from '../../platform/base/call.ts';
import {
  clearTimeout,
  monotonicMs,
  now,
  randomUUID,
  setImmediate,
  setTimeout,
} from '../../platform/base/chance.ts';
import { Problem, type ProblemCode, type ProblemFacts } from '../../platform/base/problem.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { CallBudget } from '../budget/call-budget.ts';
import { CrmFailure, type FailureFacts, type FailureKind, isCertainlyUnsent } from '../failure.ts';
import { newRequest, type QueuedRequest, type RequestKind } from './request-kind.ts';

/*
 * While calls of the budget are short, replicas share them, so that a call serves as many requests as with one replica:
 *
 *   1. A replica that has got a call invites the others to forward their waiting requests with the same batch key.
 *   2. Each of the others answers with a batch, which may be empty.
 *   3. The inviting replica starts the call when all have answered, or after `windowMs`. Later batches are not executed.
 *   4. It returns the outcome of each request when it has it.
 *
 * If the sender of a batch gets no outcome in time, it handles the requests as after a lost answer of the CRM, since they
 * may have been executed. The receiver has less time than the sender waits, so that it executes none after that. All
 * messages are announcements of the shared cache, which does not store them.
 */

/** Replicas with another version of these messages use another channel. */
const protocol = 5;
const windowMs = 40;
/** Milliseconds that the sender of a batch waits beyond the time that the receiver has for it. */
export const returnMs = 2000;

const receiverReserveMs = 2000;
/** Characters of a batch's answers that are returned at most. */
const mostReturned = 4 * 1024 * 1024;
/** Bytes of requests that join another replica's call, which travel through the shared cache. */
const mostForwardedBytes = 256 * 1024;

export interface ForwardedRequest {
  item: unknown;
  consumerId?: string | undefined;
  isWrite: boolean;
  /** Milliseconds that it has waited. */
  waitedMs: number;
}

export interface ForwardedBatch {
  requests: ForwardedRequest[];
  /** Milliseconds that the other replica has for it. */
  ms: number;
  settle(index: number, outcome: SentOutcome): boolean;
  lose(): void;
}

export interface Forwarder {
  forward(most: number): ForwardedBatch | undefined;
  receive(requests: readonly ForwardedRequest[], ms: number, report: Report): Promise<unknown>;
}

export type Report = (index: number, outcome: SentOutcome) => void;

interface Invitation {
  type: 'invitation';
  id: string;
  from: string;
  batchKey: string;
  capacity: number;
}

interface Batch {
  type: 'batch';
  id: string;
  from: string;
  batchKey: string;
  invitation: string;
  /** Milliseconds that the receiver has for them. */
  ms: number;
  requests: ForwardedRequest[];
}

interface Outcomes {
  type: 'outcomes';
  batch: string;
  outcomes: [number, SentOutcome][];
}

type Message = Invitation | Batch | Outcomes;

type Announcements = Pick<SharedCache, 'publish' | 'subscribe'>;

export interface ForwardedBatchesOptions {
  cache: Announcements;
  environment: string;
  connectionHash: string;
}

export class ForwardedBatches {
  readonly #id = randomUUID();
  readonly #cache: Announcements;
  readonly #channel: string;
  readonly #forwarders = new Map<string, Forwarder>();
  readonly #invitations = new Map<string, { until: number; missing: number; close: () => void }>();
  readonly #sent = new Map<string, { batch: ForwardedBatch; timer: NodeJS.Timeout }>();
  /**
   * Ids of batches received from other replicas, kept for as long as the sender may wait for an answer: someone who can
   * write to the cache could send a message twice, and a sender that gets "not executed" executes its requests itself.
   */
  readonly #received = new Set<string>();
  readonly #executing = new Set<Promise<unknown>>();
  readonly #unsubscribeAll: () => void;
  readonly #unsubscribeOwn: () => void;
  #isStopped = false;

  constructor({ cache, environment, connectionHash }: ForwardedBatchesOptions) {
    this.#cache = cache;
    this.#channel = `crm_batches:${environment}:${protocol}:${connectionHash}`;
    const receive = (text: string) => this.#receive(JSON.parse(text) as Message);
    this.#unsubscribeAll = cache.subscribe(this.#channel, receive);
    this.#unsubscribeOwn = cache.subscribe(this.#channelOf(this.#id), receive);
  }

  register(batchKey: string, forwarder: Forwarder): void {
    this.#forwarders.set(batchKey, forwarder);
  }

  /** Invites the other replicas, this many of them, to use the capacity that a call has left. Never throws. */
  async invite(batchKey: string, capacity: number, others: number): Promise<void> {
    if (this.#isStopped) return;
    const id = randomUUID();
    const { promise: closed, resolve: close } = Promise.withResolvers<void>();
    this.#invitations.set(id, { until: now() + windowMs, missing: others, close });
    const timer = setTimeout(close, windowMs);
    const share = Math.max(1, Math.floor(capacity / others));
    this.#send(this.#channel, { type: 'invitation', id, from: this.#id, batchKey, capacity: share }).then(
      // As many will answer as have received it, without this one.
      (receivers) => this.#noteAnswers(id, others - (receivers - 1)),
      close,
    );
    await closed;
    clearTimeout(timer);
    this.#invitations.delete(id);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unsubscribeAll();
    await Promise.allSettled(this.#executing);
    this.#unsubscribeOwn();
    for (const id of this.#sent.keys()) this.#lose(id);
  }

  #channelOf(id: string): string {
    return `${this.#channel}:${id}`;
  }

  /** Resolves with the number of receivers. */
  #send(channel: string, message: Message): Promise<number> {
    return this.#cache.publish(channel, JSON.stringify(message));
  }

  #receive(message: Message): void {
    if (message.type === 'invitation') void this.#forward(message);
    else if (message.type === 'batch') this.#execute(message);
    else this.#settle(message.batch, message.outcomes);
  }

  async #forward({ id: invitation, from, batchKey, capacity }: Invitation): Promise<void> {
    if (from === this.#id) return;
    const batch = this.#forwarders.get(batchKey)?.forward(capacity);
    const { requests, ms } = batch ?? { requests: [], ms: 0 };
    const id = randomUUID();
    if (batch !== undefined)
      this.#sent.set(id, { batch, timer: setTimeout(() => this.#lose(id), ms + returnMs) });
    const message: Batch = { type: 'batch', id, from: this.#id, batchKey, invitation, ms, requests };
    try {
      const receivers = await this.#send(this.#channelOf(from), message);
      if (receivers === 0) this.#settle(id, notExecuted(message));
    } catch {
      // The cache may have delivered it all the same.
      this.#lose(id);
    }
  }

  #execute(message: Batch): void {
    const { id, from, batchKey, invitation, ms, requests } = message;
    if (requests.length === 0) this.#noteAnswers(invitation);
    if (requests.length === 0 || this.#received.has(id)) return;
    const report = (outcomes: Outcomes['outcomes']) => {
      // Without this message the sender waits until its time is over.
      this.#send(this.#channelOf(from), { type: 'outcomes', batch: id, outcomes }).catch(() => undefined);
    };
    const forwarder = this.#forwarders.get(batchKey);
    // A process that was suspended receives messages before its timers run, when senders may no longer wait.
    const isLate = now() > (this.#invitations.get(invitation)?.until ?? 0);
    if (forwarder === undefined || this.#isStopped || isLate) {
      report(notExecuted(message));
      return;
    }
    this.#received.add(id);
    setTimeout(() => this.#received.delete(id), ms + returnMs).unref();
    let outcomes: Outcomes['outcomes'] = [];
    // The outcomes of one call come at the same time: one message for all of them.
    const reportAll = () => {
      report(outcomes);
      outcomes = [];
    };
    const executing = forwarder
      .receive(requests, ms, (index, outcome) => {
        if (outcomes.push([index, outcome]) === 1) setImmediate(reportAll);
      })
      .finally(() => this.#executing.delete(executing));
    this.#executing.add(executing);
    this.#noteAnswers(invitation);
  }

  #noteAnswers(id: string, count = 1): void {
    const invitation = this.#invitations.get(id);
    if (invitation === undefined) return;
    invitation.missing -= count;
    if (invitation.missing <= 0) invitation.close();
  }

  #settle(id: string, outcomes: Outcomes['outcomes']): void {
    for (const [index, outcome] of outcomes) {
      if (this.#sent.get(id)?.batch.settle(index, outcome)) this.#end(id);
    }
  }

  #lose(id: string): void {
    this.#end(id)?.lose();
  }

  #end(id: string): ForwardedBatch | undefined {
    const found = this.#sent.get(id);
    this.#sent.delete(id);
    clearTimeout(found?.timer);
    return found?.batch;
  }
}

function notExecuted({ requests }: Batch): Outcomes['outcomes'] {
  return requests.map((_, index) => [index, 'not executed']);
}

interface SentFailure {
  kind: FailureKind;
  message: string;
  facts: Omit<FailureFacts, 'problem'>;
  problem?: { code: ProblemCode; detail: string; facts: ProblemFacts };
}

/**
 * The outcome of a forwarded request. `not executed`: its sender has to send it to the CRM, or, for a read, the answer is too
 * large to return.
 */
export type SentOutcome = { result?: unknown } | { failure: SentFailure } | 'not executed';

function toSent(error: unknown): SentOutcome {
  const failure =
    error instanceof CrmFailure
      ? error
      : new CrmFailure('broken', 'an error of another replica', { outcomeUnknown: true });
  const { problem, ...facts } = failure.facts;
  const sent: SentFailure = { kind: failure.kind, message: failure.message, facts };
  if (problem === undefined) return { failure: sent };
  // The cause is for the log of the replica that has it.
  const { cause: _, ...problemFacts } = problem.facts;
  return {
    failure: { ...sent, problem: { code: problem.code, detail: problem.message, facts: problemFacts } },
  };
}

function fromSent({ kind, message, facts, problem }: SentFailure): CrmFailure {
  if (problem === undefined) return new CrmFailure(kind, message, facts);
  return new CrmFailure(kind, message, {
    ...facts,
    problem: new Problem(problem.code, problem.detail, problem.facts),
  });
}

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
    // Waiting requests go with the call that this replica has.
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
