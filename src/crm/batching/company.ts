import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Problem } from '../../base/problem.ts';
import type { ProblemCode, ProblemFacts } from '../../base/problems.ts';
import type { SharedCache } from '../../cache/shared-cache.ts';
import { CrmFailure, type FailureFacts, type FailureKind } from '../rest/failure.ts';

/*
 * Replicas gather together while calls are short: who has a call of the budget invites the others to put into it what
 * they have of the same kind. So the number of replicas does not lower the number of requests that a call serves.
 *
 *   host    has a call, invites, waits until all have answered, for `windowMs` at most, and draws its batch
 *   guest   lends what waits, and gets the outcomes
 *
 * For a guest the host is on the way to the CRM: if no outcomes come, it is unknown what became of the requests, and they
 * are treated as after a lost answer of the CRM. All goes over announcements of the shared cache, which keeps none.
 */

/** Replicas of another version that say something else do not hear each other. */
const protocol = 1;
/** How long a call that could be made waits for others. */
const windowMs = 40;
/** Beyond the longest call: a host may be slow. */
const reserveMs = 5000;

/** A request that is lent. */
export interface LentItem {
  item: unknown;
  consumerId?: string | undefined;
  isWrite: boolean;
  /** Milliseconds that it has waited, and that it has left. */
  waitedMs: number;
  ms: number;
}

interface SentFailure {
  kind: FailureKind;
  message: string;
  facts: Omit<FailureFacts, 'problem'>;
  problem?: { code: ProblemCode; detail: string; facts: ProblemFacts };
}

export type SentOutcome = { result?: unknown } | { failure: SentFailure };

/** What a guest has lent. */
export interface Lent {
  items: LentItem[];
  settle(outcomes: readonly SentOutcome[]): void;
  /** The host had drawn its batch already. */
  giveBack(): void;
  /** Nobody knows what became of it. */
  lose(): void;
}

/** A batcher, as others see it. */
export interface Party {
  lend(room: number): Lent | undefined;
  /** Takes requests of another replica in. Never throws. */
  host(items: readonly LentItem[]): Promise<SentOutcome[]>;
}

type Message =
  | { type: 'call'; id: string; from: string; party: string; room: number }
  | { type: 'none'; id: string }
  | { type: 'items'; id: string; from: string; party: string; batch: string; items: LentItem[] }
  | { type: 'outcomes'; batch: string; outcomes: SentOutcome[] | 'late' };

export class Company {
  readonly #id = randomUUID();
  readonly #cache: SharedCache;
  readonly #channel: string;
  readonly #loseAfterMs: number;
  readonly #parties = new Map<string, Party>();
  /** By invitation: how many answers are awaited, and what to do when they are there. */
  readonly #open = new Map<string, { awaited: number; close: () => void }>();
  /** By the batch that was lent. */
  readonly #lent = new Map<string, { lent: Lent; timer: NodeJS.Timeout }>();
  readonly #leave: (() => void)[];

  constructor({
    cache,
    environment,
    timeoutMs,
  }: { cache: SharedCache; environment: string; timeoutMs: number }) {
    this.#cache = cache;
    this.#channel = `crm_company:${environment}:${protocol}`;
    this.#loseAfterMs = timeoutMs + reserveMs;
    const hear = (text: string) => this.#hear(JSON.parse(text) as Message);
    this.#leave = [this.#channel, this.#channelOf(this.#id)].map((channel) => cache.subscribe(channel, hear));
  }

  join(name: string, party: Party): void {
    this.#parties.set(name, party);
  }

  /** Invites so many other replicas to use the room that a call has. Never throws. */
  async invite(party: string, room: number, others: number): Promise<void> {
    const id = randomUUID();
    const closed = Promise.withResolvers<void>();
    this.#open.set(id, { awaited: others, close: closed.resolve });
    const timer = new AbortController();
    const late = delay(windowMs, undefined, { signal: timer.signal }).catch(() => undefined);
    const share = Math.max(1, Math.floor(room / others));
    this.#send(this.#channel, { type: 'call', id, from: this.#id, party, room: share }, closed.resolve);
    await Promise.race([closed.promise, late]);
    timer.abort();
    this.#open.delete(id);
  }

  stop(): void {
    for (const leave of this.#leave) leave();
    for (const { lent, timer } of this.#lent.values()) {
      clearTimeout(timer);
      lent.lose();
    }
    this.#lent.clear();
  }

  #channelOf(id: string): string {
    return `${this.#channel}:${id}`;
  }

  #send(channel: string, message: Message, onFailure: () => void = () => {}): void {
    this.#cache.publish(channel, JSON.stringify(message)).catch(onFailure);
  }

  #hear(message: Message): void {
    if (message.type === 'call') this.#lend(message);
    else if (message.type === 'items') this.#host(message);
    else if (message.type === 'outcomes') this.#settle(message);
    else this.#answered(message.id);
  }

  #lend({ id, from, party, room }: Message & { type: 'call' }): void {
    if (from === this.#id) return;
    const lent = this.#parties.get(party)?.lend(room);
    const channel = this.#channelOf(from);
    if (lent === undefined) {
      this.#send(channel, { type: 'none', id });
      return;
    }
    const batch = randomUUID();
    const timer = setTimeout(() => this.#take(batch)?.lose(), this.#loseAfterMs);
    this.#lent.set(batch, { lent, timer });
    // Where the cache failed, it may have passed it on all the same.
    this.#send(channel, { type: 'items', id, from: this.#id, party, batch, items: lent.items }, () =>
      this.#take(batch)?.lose(),
    );
  }

  #host({ id, from, party, batch, items }: Message & { type: 'items' }): void {
    const channel = this.#channelOf(from);
    const host = this.#parties.get(party);
    if (host === undefined || !this.#open.has(id)) {
      this.#send(channel, { type: 'outcomes', batch, outcomes: 'late' });
      return;
    }
    void host.host(items).then((outcomes) => this.#send(channel, { type: 'outcomes', batch, outcomes }));
    this.#answered(id);
  }

  #answered(id: string): void {
    const invitation = this.#open.get(id);
    if (invitation === undefined) return;
    invitation.awaited -= 1;
    if (invitation.awaited <= 0) invitation.close();
  }

  #settle({ batch, outcomes }: Message & { type: 'outcomes' }): void {
    const lent = this.#take(batch);
    if (outcomes === 'late') lent?.giveBack();
    else lent?.settle(outcomes);
  }

  #take(batch: string): Lent | undefined {
    const found = this.#lent.get(batch);
    this.#lent.delete(batch);
    clearTimeout(found?.timer);
    return found?.lent;
  }
}

/** A failure as it travels between replicas. */
export function toSent(error: unknown): SentOutcome {
  const failure =
    error instanceof CrmFailure
      ? error
      : new CrmFailure('broken', 'an error of another replica', { outcomeUnknown: true });
  const { problem, ...facts } = failure.facts;
  const { errors, retryAfter } = problem?.facts ?? {};
  return {
    failure: {
      ...{ kind: failure.kind, message: failure.message, facts },
      ...(problem && {
        problem: {
          ...{ code: problem.code, detail: problem.message },
          facts: { ...(errors && { errors }), ...(retryAfter !== undefined && { retryAfter }) },
        },
      }),
    },
  };
}

export function fromSent({ kind, message, facts, problem }: SentFailure): CrmFailure {
  if (problem === undefined) return new CrmFailure(kind, message, facts);
  return new CrmFailure(kind, message, {
    ...facts,
    problem: new Problem(problem.code, problem.detail, problem.facts),
  });
}
