import { makeUuid } from '@handoff-gateway/client';
import { type Answer, type Problem, problemFrom, type RequestOptions } from '../shared/api.ts';
import { recall } from '../shared/memory.ts';
import type { Session } from '../shared/session.ts';
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

export interface ItemConfirmation {
  status: Confirmation['status'] | 'existing' | 'updated';
  /** Null for one that was refused. */
  external_id: string | null;
  problem?: Problem | null;
}

/** Whether there is a record of this result, or there will be one. */
export function isMade({ state, confirmation, items, made }: Pick, id: string): boolean {
  if (state !== 'done') return false;
  const answer = items ? made?.[items.findIndex(({ resultId }) => resultId === id)] : confirmation;
  return answer !== undefined && !['failed', 'cancelled', 'rejected'].includes(answer.status);
}

/** Whether the result was handed off with this pick, alone or with others. */
export function isOf({ resultId, items }: Pick, id: string): boolean {
  return resultId === id || (items?.some((item) => item.resultId === id) ?? false);
}

interface Owner {
  consumerId: string;
  /** Mark of the person, as several may act as one consumer; null where a key is used. */
  mark: string | null;
}

/** A result that somebody chose to hand off: one Idempotency-Key from the click to the final answer. */
export interface Pick extends Owner {
  key: string;
  /** Undefined for one that was begun before the page was loaded. */
  resultId: string | undefined;
  type: RecordType;
  name: string;
  tripId: string;
  memberId: string;
  /** Results that are handed off together; undefined for one alone. */
  items?: readonly { resultId: string; name: string }[];
  /** The request, byte for byte: a repeat must be the same. */
  body: string;
  state: 'sending' | 'failed' | 'done';
  problem: Problem | undefined;
  confirmation: Confirmation | undefined;
  /** In the order of the items. */
  made?: readonly ItemConfirmation[];
}

type Send = (path: string, options?: RequestOptions) => Promise<Answer>;

/** Where unfinished picks survive a reload of this tab, until their owner signs out. Only the keys and the picks, never credentials. */
const storageKey = 'handoff.picks';
/** Kept for the page at most. */
const mostPicks = 200;

export function picksOf({ memory, consumer, mark }: Session): Picks {
  return recall(memory, 'picks', () => new Picks({ consumerId: consumer.id, mark }));
}

/** All picks of one owner in this tab, newest first. */
export class Picks {
  readonly #owner: Owner;
  #send: Send | undefined;
  #changed = () => {};
  #picks: Pick[];

  constructor(owner: Owner) {
    this.#owner = owner;
    this.#picks = stored()
      .filter((pick) => isOwn(pick, owner))
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
    return this.#begin({ resultId: result.id, type, name: result.name, tripId, memberId, body }, open);
  }

  /** Hands several results off in one request. While that runs, or where it failed and nothing has changed, it is the same pick. */
  handOffTrip(results: readonly Result[], type: RecordType, tripId: string, memberId: string): Promise<void> {
    const body = tripBodyOf(results, type, tripId, memberId);
    const open = this.#picks.find((pick) => pick.body === body && pick.state !== 'done');
    if (open?.state === 'sending') return Promise.resolve();
    if (open && !isFinal(open.problem)) return this.tryAgain(open);
    const items = results.map(({ id, name }) => ({ resultId: id, name }));
    const name = `${results.length} results`;
    return this.#begin({ resultId: undefined, type, name, items, tripId, memberId, body }, open);
  }

  /** Another one in place of `before`, if that was refused for good. */
  #begin(
    begun: Omit<Pick, 'key' | keyof Owner | 'state' | 'problem' | 'confirmation'>,
    before: Pick | undefined,
  ) {
    const pick: Pick = {
      key: makeUuid(),
      ...this.#owner,
      ...begun,
      state: 'sending',
      problem: undefined,
      confirmation: undefined,
    };
    const others = this.#picks.filter((one) => one !== before || !isFinal(one.problem));
    this.#picks = [pick, ...others].slice(0, mostPicks);
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

  /** Forgets all of them at sign-out, and those that the same person has as another consumer. */
  forget(): void {
    const { mark } = this.#owner;
    this.#picks = [];
    store(stored().filter((pick) => (mark === null ? !isOwn(pick, this.#owner) : pick.mark !== mark)));
  }

  /** What became of a hand-off that was accepted. */
  settle(pick: Pick, became: { confirmation: Confirmation } | { made: readonly ItemConfirmation[] }): void {
    this.#change(pick, became);
  }

  async #run(pick: Pick): Promise<void> {
    this.#change(pick, { state: 'sending', problem: undefined });
    try {
      if (this.#send === undefined) throw new Error('nobody is signed in');
      const { body, key: idempotencyKey } = pick;
      const request = { method: 'POST' as const, body, idempotencyKey, prefer };
      if (pick.items === undefined) {
        const { text } = await this.#send('/api/v1/handoff', request);
        const confirmation = { ...withoutId, ...(JSON.parse(text) as Confirmation) };
        this.#change(pick, { state: 'done', confirmation });
      } else {
        const { text } = await this.#send('/api/v1/handoffs', request);
        this.#change(pick, {
          state: 'done',
          made: (JSON.parse(text) as { items: ItemConfirmation[] }).items,
        });
      }
    } catch (error) {
      this.#change(pick, { state: 'failed', problem: problemFrom(error) });
    }
  }

  #change(pick: Pick, change: Partial<Pick>): void {
    // An answer may come after its pick was forgotten: others have signed in.
    if (!this.#picks.some(({ key }) => key === pick.key)) return;
    this.#picks = this.#picks.map((one) => (one.key === pick.key ? { ...one, ...change } : one));
    this.#publish();
  }

  #publish(): void {
    const open = this.#picks.filter((pick) => pick.state !== 'done' && !isFinal(pick.problem));
    store([...open, ...stored().filter((pick) => !isOwn(pick, this.#owner))]);
    this.#changed();
  }
}

/** While the CRM cannot answer, the hand-off is stored, and made later. */
const prefer = 'respond-async, wait=5';

/** The answer to one that was accepted names none. */
const withoutId: { id: string | null } = { id: null };

const interrupted: Problem = {
  title: 'Not finished',
  detail: 'The page was closed before a response arrived. Try again; this never creates a second record.',
  status: 0,
  code: 'interrupted',
  request_id: null,
};

/** Refused for good: the same request would be refused again. Credentials and limits can change. */
export function isFinal(problem: Problem | undefined): boolean {
  return problem !== undefined && [400, 404, 412, 413, 415, 422].includes(problem.status);
}

export function tripBodyOf(
  results: readonly Result[],
  type: RecordType,
  tripId: string,
  memberId: string,
): string {
  const items = results.map((result) => offerOf({ type }, result));
  const head = JSON.stringify({ trip_id: tripId, member_id: memberId });
  return `${head.slice(0, -1)},"items":[${items.join()}]}`;
}

function bodyOf(result: Result, type: RecordType, tripId: string, memberId: string): string {
  return offerOf({ type, trip_id: tripId, member_id: memberId }, result);
}

/** With the details as they were loaded, digit for digit. */
function offerOf(head: object, { name, source, details, validUntil }: Result): string {
  const text = JSON.stringify({ ...head, valid_until: validUntil, result: { name, source } });
  return `${text.slice(0, -2)},"details":${details}}}`;
}

function stored(): Pick[] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(storageKey) ?? '[]');
    return Array.isArray(found) ? (found as Pick[]) : [];
  } catch {
    return [];
  }
}

function isOwn(pick: Pick, { consumerId, mark }: Owner): boolean {
  return pick.consumerId === consumerId && pick.mark === mark;
}

function store(picks: readonly Pick[]): void {
  try {
    sessionStorage.setItem(storageKey, JSON.stringify(picks));
  } catch {
    // It is full: this page still knows them.
  }
}
