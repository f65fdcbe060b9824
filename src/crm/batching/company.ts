import { randomUUID } from 'node:crypto';
import { now } from '../../platform/base/clock.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { ProblemCode, ProblemFacts } from '../../platform/base/problems.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import { CrmFailure, type FailureFacts, type FailureKind } from '../rest/failure.ts';

/*
 * Replicas gather together while calls are short: who has a call of the budget invites the others to put into it what
 * they have of the same kind. So the number of replicas does not lower the number of requests that a call serves.
 *
 *   host    has a call, invites, waits until all have answered, for `windowMs` at most, and draws its batch
 *   guest   lends what waits, and gets the outcome of each request when it is there
 *
 * For a guest the host is on the way to the CRM: if no outcome comes, it is unknown what became of the request, and it
 * is treated as after a lost answer of the CRM. The host has less time than the guest waits, so that nothing is sent for
 * a request that its guest has given up. All goes over announcements of the shared cache, which keeps none.
 */

/** Replicas of another version that say something else do not hear each other. */
const protocol = 3;
/** How long a call that could be made waits for others. */
const windowMs = 40;
/** What a guest waits beyond the time that its host has. */
export const returnMs = 2000;

/** A request that is lent. */
export interface LentItem {
  item: unknown;
  consumerId?: string | undefined;
  isWrite: boolean;
  /** Milliseconds that it has waited. */
  waitedMs: number;
}

interface SentFailure {
  kind: FailureKind;
  message: string;
  facts: Omit<FailureFacts, 'problem'>;
  problem?: { code: ProblemCode; detail: string; facts: ProblemFacts };
}

/** `again`: a read whose answer is too much to pass on. The guest has to ask the CRM itself. */
export type SentOutcome = { result?: unknown } | { failure: SentFailure } | 'again';

/** What a guest lends. */
export interface Loan {
  items: LentItem[];
  /** Milliseconds that the host has for them. */
  ms: number;
  /** The outcome of one of the items; whether it was the last that was missing. */
  settle(index: number, outcome: SentOutcome): boolean;
  /** Nobody has taken them. */
  giveBack(): void;
  /** Nobody knows what became of those that are not settled. */
  lose(): void;
}

/** Tells the outcome of one of the items. */
export type Tell = (index: number, outcome: SentOutcome) => void;

/** A batcher, as others see it. */
export interface Party {
  lend(room: number): Loan | undefined;
  /** Takes requests of another replica in, and tells the outcome of each; resolves when it has told all. */
  host(items: readonly LentItem[], ms: number, tell: Tell): Promise<unknown>;
}

interface Invitation {
  type: 'invitation';
  id: string;
  from: string;
  party: string;
  /** Requests that each of the others may send. */
  room: number;
}

interface Items {
  type: 'items';
  /** Of the invitation. */
  id: string;
  from: string;
  party: string;
  loan: string;
  ms: number;
  items: LentItem[];
}

interface Outcomes {
  type: 'outcomes';
  loan: string;
  /** Of some of the items, by their index. */
  outcomes: [number, SentOutcome][];
}

type Message = Invitation | Items | Outcomes | { type: 'none'; id: string } | { type: 'late'; loan: string };

/** How replicas reach each other. */
type Announcements = Pick<SharedCache, 'publish' | 'subscribe'>;

export interface CompanyOptions {
  cache: Announcements;
  environment: string;
  /** Only replicas with the same org, app and user gather. */
  connectionHash: string;
}

export class Company {
  readonly #id = randomUUID();
  readonly #cache: Announcements;
  readonly #channel: string;
  readonly #parties = new Map<string, Party>();
  /** By invitation: until when it is good, how many answers are missing, and what to do when all are there. */
  readonly #invitations = new Map<string, { until: number; missing: number; close: () => void }>();
  /**
   * Batches received from other replicas, kept for as long as the sender may wait for an answer: someone who can write to
   * the cache could send a message twice, and a sender that gets the answer "late" executes its requests itself.
   */
  readonly #taken = new Set<string>();
  readonly #loans = new Map<string, { loan: Loan; timer: NodeJS.Timeout }>();
  /** What is done for other replicas. */
  readonly #hosted = new Set<Promise<unknown>>();
  readonly #leaveAll: () => void;
  readonly #leaveOwn: () => void;
  #isStopped = false;

  constructor({ cache, environment, connectionHash }: CompanyOptions) {
    this.#cache = cache;
    this.#channel = `crm_company:${environment}:${protocol}:${connectionHash}`;
    const hear = (text: string) => this.#hear(JSON.parse(text) as Message);
    this.#leaveAll = cache.subscribe(this.#channel, hear);
    this.#leaveOwn = cache.subscribe(this.#channelOf(this.#id), hear);
  }

  join(name: string, party: Party): void {
    this.#parties.set(name, party);
  }

  /** Invites so many other replicas to use the room that a call has. Never throws. */
  async invite(party: string, room: number, others: number): Promise<void> {
    if (this.#isStopped) return;
    const id = randomUUID();
    const { promise: closed, resolve: close } = Promise.withResolvers<void>();
    this.#invitations.set(id, { until: now() + windowMs, missing: others, close });
    const timer = setTimeout(close, windowMs);
    const share = Math.max(1, Math.floor(room / others));
    // All that hear it will answer, this one left out.
    this.#send(this.#channel, { type: 'invitation', id, from: this.#id, party, room: share }).then(
      (heard) => this.#noteAnswers(id, others - (heard - 1)),
      close,
    );
    await closed;
    clearTimeout(timer);
    this.#invitations.delete(id);
  }

  /** Lends nothing and takes nothing in any more; resolves when what was taken in has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#leaveAll();
    await Promise.allSettled(this.#hosted);
    this.#leaveOwn();
    for (const id of this.#loans.keys()) this.#end(id)?.lose();
  }

  #channelOf(id: string): string {
    return `${this.#channel}:${id}`;
  }

  #send(channel: string, message: Message): Promise<number> {
    return this.#cache.publish(channel, JSON.stringify(message));
  }

  /** For a message whose loss does no more than make the other wait. */
  #tell(replica: string, message: Message): void {
    this.#send(this.#channelOf(replica), message).catch(() => undefined);
  }

  #hear(message: Message): void {
    if (message.type === 'invitation') void this.#lend(message);
    else if (message.type === 'items') this.#host(message);
    else if (message.type === 'outcomes') this.#settle(message);
    else if (message.type === 'late') this.#end(message.loan)?.giveBack();
    else this.#noteAnswers(message.id);
  }

  async #lend({ id, from, party, room }: Invitation): Promise<void> {
    if (from === this.#id) return;
    const loan = this.#parties.get(party)?.lend(room);
    if (loan === undefined) {
      this.#tell(from, { type: 'none', id });
      return;
    }
    const { items, ms } = loan;
    const loanId = randomUUID();
    const timer = setTimeout(() => this.#end(loanId)?.lose(), ms + returnMs);
    this.#loans.set(loanId, { loan, timer });
    try {
      const message: Items = { type: 'items', id, from: this.#id, party, loan: loanId, ms, items };
      const heard = await this.#send(this.#channelOf(from), message);
      if (heard === 0) this.#end(loanId)?.giveBack();
    } catch {
      // The cache may have passed it on all the same.
      this.#end(loanId)?.lose();
    }
  }

  #host({ id, from, party, loan, ms, items }: Items): void {
    if (this.#taken.has(loan)) return;
    const host = this.#parties.get(party);
    // A replica that stood still reads what came meanwhile before its timers end, and guests may have given it up.
    const isLate = now() > (this.#invitations.get(id)?.until ?? 0);
    if (host === undefined || this.#isStopped || isLate) {
      this.#tell(from, { type: 'late', loan });
      return;
    }
    this.#taken.add(loan);
    setTimeout(() => this.#taken.delete(loan), ms + returnMs).unref();
    let outcomes: Outcomes['outcomes'] = [];
    // One message for those of one call, which come at once.
    const tellAll = () => {
      this.#tell(from, { type: 'outcomes', loan, outcomes });
      outcomes = [];
    };
    const hosted = host
      .host(items, ms, (index, outcome) => {
        if (outcomes.push([index, outcome]) === 1) setImmediate(tellAll);
      })
      .finally(() => this.#hosted.delete(hosted));
    this.#hosted.add(hosted);
    this.#noteAnswers(id);
  }

  #noteAnswers(id: string, count = 1): void {
    const invitation = this.#invitations.get(id);
    if (invitation === undefined) return;
    invitation.missing -= count;
    if (invitation.missing <= 0) invitation.close();
  }

  #settle({ loan: id, outcomes }: Outcomes): void {
    for (const [index, outcome] of outcomes) {
      if (this.#loans.get(id)?.loan.settle(index, outcome)) this.#end(id);
    }
  }

  /** Nothing more is expected of it; undefined where it has ended already. */
  #end(id: string): Loan | undefined {
    const found = this.#loans.get(id);
    this.#loans.delete(id);
    clearTimeout(found?.timer);
    return found?.loan;
  }
}

/** A failure as it travels between replicas. */
export function toSent(error: unknown): SentOutcome {
  const failure =
    error instanceof CrmFailure
      ? error
      : new CrmFailure('broken', 'an error of another replica', { outcomeUnknown: true });
  const { problem, ...facts } = failure.facts;
  const sent: SentFailure = { kind: failure.kind, message: failure.message, facts };
  if (problem === undefined) return { failure: sent };
  // The cause stays here.
  const { cause: _, ...problemFacts } = problem.facts;
  return {
    failure: { ...sent, problem: { code: problem.code, detail: problem.message, facts: problemFacts } },
  };
}

export function fromSent({ kind, message, facts, problem }: SentFailure): CrmFailure {
  if (problem === undefined) return new CrmFailure(kind, message, facts);
  return new CrmFailure(kind, message, {
    ...facts,
    problem: new Problem(problem.code, problem.detail, problem.facts),
  });
}
