import { makeUuid } from '@handoff-gateway/client';
import { type Answer, type Problem, problemFrom, type RequestOptions } from '../shared/api.ts';
import type { Result } from './results.ts';

export type RecordType = 'quote' | 'booking';

/** What the service answered. */
export interface Confirmation {
  status: 'created' | 'accepted' | 'awaiting_approval' | 'failed' | 'cancelled' | 'rejected';
  /** The CRM's id; null until the record exists. */
  id: string | null;
  external_id: string;
  problem?: Problem | null;
  approval?: { reason: string | null } | null;
}

/** Whether there is a record, or there will be one. */
export function isMade({ state, confirmation }: Pick): boolean {
  return (
    state === 'done' && ['created', 'accepted', 'awaiting_approval'].includes(confirmation?.status ?? '')
  );
}

/** A result that somebody chose to hand off: one Idempotency-Key from the click to the final answer. */
export interface Pick {
  key: string;
  consumerId: string;
  /** Undefined for one that was begun before the page was loaded. */
  resultId: string | undefined;
  type: RecordType;
  name: string;
  /** The request, byte for byte: a repeat must be the same. */
  body: string;
  state: 'sending' | 'failed' | 'done';
  problem: Problem | undefined;
  confirmation: Confirmation | undefined;
}

type Send = (path: string, options?: RequestOptions) => Promise<Answer>;

/** Where unfinished picks survive a reload of this tab. Only the keys and the picks, never credentials. */
const storageKey = 'handoff.picks';
/** Kept for the page at most. */
const mostPicks = 200;

/** All picks of this consumer in this tab, newest first. */
export class Picks {
  readonly #consumerId: string;
  #send: Send | undefined;
  #changed = () => {};
  #picks: Pick[];

  constructor(consumerId: string) {
    this.#consumerId = consumerId;
    this.#picks = stored()
      .filter((pick) => pick.consumerId === consumerId)
      .map((pick) => ({
        ...pick,
        resultId: undefined,
        state: 'failed',
        problem: pick.problem ?? interrupted,
      }));
  }

  /** From now on requests go out this way, and the page that is shown is notified of changes. */
  connect(send: Send, changed: () => void): void {
    this.#send = send;
    this.#changed = changed;
  }

  get all(): readonly Pick[] {
    return this.#picks;
  }

  /** Hands the result off. While that runs, or where it failed and nothing has changed, it is the same pick. */
  handOff(result: Result, type: RecordType, tripId: string, memberId: string): Promise<void> {
    const body = bodyOf(result, type, tripId, memberId);
    const open = this.#picks.find(
      (pick) => pick.resultId === result.id && pick.type === type && pick.state !== 'done',
    );
    if (open?.state === 'sending') return Promise.resolve();
    if (open?.body === body && !isFinal(open.problem)) return this.tryAgain(open);
    const pick: Pick = {
      key: makeUuid(),
      consumerId: this.#consumerId,
      resultId: result.id,
      type,
      name: result.name,
      body,
      state: 'sending',
      problem: undefined,
      confirmation: undefined,
    };
    // One that was refused for good is over.
    this.#picks = [pick, ...this.#picks.filter((one) => one !== open || !isFinal(one.problem))].slice(
      0,
      mostPicks,
    );
    return this.#run(pick);
  }

  /** The same request under the same key. */
  tryAgain(pick: Pick): Promise<void> {
    if (pick.state === 'sending') return Promise.resolve();
    return this.#run(pick);
  }

  /** Forgets a pick that is not wanted any more. What it may have done stays done. */
  drop(pick: Pick): void {
    this.#picks = this.#picks.filter((one) => one.key !== pick.key);
    this.#publish();
  }

  /** Only these results are shown from now on: what is not finished of others stands by itself. */
  leave(shown: readonly Result[]): void {
    const ids = new Set(shown.map(({ id }) => id));
    this.#picks = this.#picks.map((pick) =>
      pick.state === 'done' || ids.has(pick.resultId ?? '') ? pick : { ...pick, resultId: undefined },
    );
  }

  /** What became of a hand-off that was accepted. */
  settle(pick: Pick, confirmation: Confirmation): void {
    this.#change(pick, { confirmation });
  }

  async #run(pick: Pick): Promise<void> {
    this.#change(pick, { state: 'sending', problem: undefined });
    try {
      if (this.#send === undefined) throw new Error('nobody is signed in');
      const { body, key: idempotencyKey } = pick;
      const { text } = await this.#send('/api/v1/handoff', { method: 'POST', body, idempotencyKey, prefer });
      const confirmation = { ...withoutId, ...(JSON.parse(text) as Confirmation) };
      this.#change(pick, { state: 'done', confirmation });
    } catch (error) {
      this.#change(pick, { state: 'failed', problem: problemFrom(error) });
    }
  }

  #change(pick: Pick, change: Partial<Pick>): void {
    this.#picks = this.#picks.map((one) => (one.key === pick.key ? { ...one, ...change } : one));
    this.#publish();
  }

  #publish(): void {
    store(this.#consumerId, this.#picks);
    this.#changed();
  }
}

/** While the CRM cannot answer, the hand-off is stored, and made later. */
const prefer = 'respond-async, wait=5';

/** The answer to one that was accepted names none. */
const withoutId: { id: string | null } = { id: null };

const interrupted: Problem = {
  title: 'Not finished',
  detail: 'The page was closed before an answer came. Try again: this never creates a second record.',
  status: 0,
  code: 'interrupted',
  request_id: null,
};

/** Refused for good: the same request would be refused again. Credentials and limits can change. */
function isFinal(problem: Problem | undefined): boolean {
  return problem !== undefined && [400, 404, 412, 413, 415, 422].includes(problem.status);
}

function bodyOf(
  { name, source, details, validUntil }: Result,
  type: RecordType,
  tripId: string,
  memberId: string,
): string {
  const offer = { type, trip_id: tripId, member_id: memberId, valid_until: validUntil };
  const head = JSON.stringify({ ...offer, result: { name, source } });
  return `${head.slice(0, -2)},"details":${details}}}`;
}

function stored(): Pick[] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(storageKey) ?? '[]');
    return Array.isArray(found) ? (found as Pick[]) : [];
  } catch {
    return [];
  }
}

function store(consumerId: string, picks: readonly Pick[]): void {
  const others = stored().filter((pick) => pick.consumerId !== consumerId);
  const open = picks.filter((pick) => pick.state !== 'done' && !isFinal(pick.problem));
  try {
    sessionStorage.setItem(storageKey, JSON.stringify([...open, ...others]));
  } catch {
    // It is full: this page still knows them.
  }
}
