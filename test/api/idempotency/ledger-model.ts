import type { Delivery, Sending } from './paused-runs.ts';

/**
 * What the ledger promises, as small as it can be said: rows in memory, a clock in seconds, and requests that stop
 * after each statement. Owners are distinguished by identity, which no row shows: the ledger needs its fence for that.
 */

const retention = 24 * 3600;
const lease = 30;
/** For so long after its claim a request needs not ask whether it still owns it. */
const certain = 5;

export interface ModelRequest {
  key: number;
  fingerprint: number;
  externalId: string;
  /** What the owner does in turn. */
  acts: readonly ('remember' | 'confirm')[];
  /** How it ends: with an answer to keep, with one that may change, or with an error. */
  end: 'answer' | 'error';
  /** Unique to the request. */
  name: string;
}

export interface ModelRow {
  fingerprint: number;
  externalId: string;
  owner: ModelRun;
  leaseUntil: number;
  before: string | undefined;
  completed: { at: number; answer: string } | undefined;
}

export type ModelResult = { answer: string; replayed: boolean } | { problem: string };

interface Owned {
  externalId: string;
  continued: boolean;
  before: string | undefined;
}

export class LedgerModel {
  now = 0;
  readonly rows = new Map<number, ModelRow>();

  start(request: ModelRequest): ModelRun {
    return new ModelRun(this, request);
  }

  /** What the job does for completed claims. */
  forget(): void {
    for (const [key, { completed }] of this.rows) {
      if (completed && completed.at <= this.now - retention) this.rows.delete(key);
    }
  }
}

/** One request: `step` carries out its next statements, until one of them is done and not delivered. */
export class ModelRun {
  readonly request: ModelRequest;
  owned: Owned | undefined;
  result: ModelResult | undefined;
  readonly #model: LedgerModel;
  readonly #claimedAt: number;
  readonly #steps: Generator<void, ModelResult, Delivery>;
  #next: Sending = 'ok';

  constructor(model: LedgerModel, request: ModelRequest) {
    this.#model = model;
    this.request = request;
    this.#claimedAt = model.now;
    this.#steps = this.#run();
  }

  step(delivered: Delivery, next: Sending): void {
    this.#next = next;
    const { done, value } = this.#steps.next(delivered);
    if (done) this.result = value;
  }

  get #row(): ModelRow | undefined {
    return this.#model.rows.get(this.request.key);
  }

  /** Its claim, unless it was replaced or has completed it. */
  get #mine(): ModelRow | undefined {
    return this.#row?.owner === this && !this.#row.completed ? this.#row : undefined;
  }

  *#run(): Generator<void, ModelResult, Delivery> {
    const taken = yield* this.#statement(() => this.#take());
    if (taken === 'failed') return { problem: 'store_unavailable' };
    if (!taken.value) return yield* this.#fromEarlier();
    this.owned = taken.value;
    const problem = yield* this.#act();
    const { end, name } = this.request;
    if (problem !== undefined || end === 'error') {
      yield* this.#statement(() => this.#release());
      return { problem: problem ?? 'crm_unavailable' };
    }
    const completed = yield* this.#statement(() => this.#complete());
    if (completed === 'failed') return { problem: 'store_unavailable, outcome unknown' };
    return completed.value ? { answer: name, replayed: false } : { problem: 'idempotency_in_progress' };
  }

  *#statement<T>(effect: () => T): Generator<void, { value: T } | 'failed', Delivery> {
    const sending = this.#next;
    this.#next = 'ok';
    if (sending === 'unsent') return 'failed';
    const value = effect();
    return (yield) === 'lost' ? 'failed' : { value };
  }

  *#act(): Generator<void, string | undefined, Delivery> {
    for (const act of this.request.acts) {
      if (act === 'confirm' && this.#model.now - this.#claimedAt < certain) continue;
      const done = yield* this.#statement(() => (act === 'remember' ? this.#remember() : this.#owns()));
      if (done === 'failed') return 'store_unavailable';
      if (!done.value) return 'idempotency_in_progress';
    }
    return undefined;
  }

  *#fromEarlier(): Generator<void, ModelResult, Delivery> {
    const found = yield* this.#statement(() => this.#row && { ...this.#row });
    if (found === 'failed') return { problem: 'store_unavailable' };
    const row = found.value;
    if (row && row.fingerprint !== this.request.fingerprint) return { problem: 'idempotency_key_reused' };
    if (!row?.completed) return { problem: 'idempotency_in_progress' };
    return { answer: row.completed.answer, replayed: true };
  }

  #take(): Owned | undefined {
    const { now, rows } = this.#model;
    const row = this.#row;
    const { key, fingerprint, externalId } = this.request;
    if (!row || (row.completed && row.completed.at <= now - retention)) {
      const fresh = { before: undefined, completed: undefined, leaseUntil: now + lease, owner: this };
      rows.set(key, { fingerprint, externalId, ...fresh });
      return { externalId, before: undefined, continued: false };
    }
    if (row.completed || row.leaseUntil > now || row.fingerprint !== fingerprint) return undefined;
    Object.assign(row, { owner: this, leaseUntil: now + lease });
    return { externalId: row.externalId, before: row.before, continued: true };
  }

  #remember(): boolean {
    const row = this.#mine;
    if (row) row.before = this.request.name;
    return row !== undefined;
  }

  #owns(): boolean {
    const row = this.#mine;
    return row !== undefined && row.leaseUntil > this.#model.now;
  }

  #complete(): boolean {
    const row = this.#mine;
    if (row) row.completed = { at: this.#model.now, answer: this.request.name };
    return row !== undefined;
  }

  #release(): void {
    const row = this.#mine;
    if (row) row.leaseUntil = this.#model.now;
  }
}
