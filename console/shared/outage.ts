import type { HandoffClient } from '@handoff-gateway/client';
import type { Problem } from './api.ts';

/** Whether what failed works again by itself: nobody has to change anything. */
export function isOutage({ status }: Pick<Problem, 'status'>): boolean {
  return status === 0 || (status >= 502 && status <= 504);
}

/** Use of the daily quota of Salesforce calls, in the health report. */
export interface Quota {
  used: number;
  limit: number;
  budget?: number | undefined;
  budget_used?: number | undefined;
}

export function isQuotaUsedUp(quota: Quota | undefined): boolean {
  if (quota === undefined) return false;
  const { used, limit, budget = Number.POSITIVE_INFINITY, budget_used: ofBudget = 0 } = quota;
  return used >= limit || ofBudget >= budget;
}

export interface Trouble {
  /** The service itself, the CRM behind it, its answer to the sign-in, its quota of calls, or something else that a page needs. */
  what: 'service' | 'crm' | 'sign_in' | 'quota' | 'part';
  /** Milliseconds since 1970; in the past while it is tried. */
  triedAgainAt: number;
}

/** Something on the page that is read from the service. */
interface Reader {
  isFailing(): boolean;
  reload(): Promise<void>;
}

const usualMs = 30_000;
/** While something does not answer, the next try comes after these. */
const waitsMs = [5000, 10_000, 20_000, usualMs];

interface OutageOptions {
  client: Pick<HandoffClient, 'health'>;
  /** False in test mode, where nothing reaches the CRM. */
  needsCrm: boolean;
  show: (trouble: Trouble | undefined) => void;
}

/**
 * Watches whether the service and the CRM answer, for the whole page: it asks now and then, and when a reader fails. Then it tries
 * again after a while, and everything that has failed with it.
 */
export class Outage {
  readonly #options: OutageOptions;
  readonly #readers = new Set<Reader>();
  #trouble: Trouble | undefined;
  #tries = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isChecking = false;
  #isOver = false;

  constructor(options: OutageOptions) {
    this.#options = options;
  }

  /** Returns what ends it. */
  watch(): () => void {
    void this.#check();
    return () => {
      clearTimeout(this.#timer);
      this.#isOver = true;
    };
  }

  /** Returns what forgets the reader. */
  add(reader: Reader): () => void {
    this.#readers.add(reader);
    return () => {
      this.#readers.delete(reader);
    };
  }

  /** A reader has failed. */
  report(): void {
    if (this.#trouble === undefined) void this.#check();
  }

  /** Somebody asks for it: the tries that follow come quickly again. */
  tryNow(): Promise<void> {
    this.#tries = 0;
    return this.tryAgain();
  }

  /** Asks at once, and reads again what has failed. */
  tryAgain(): Promise<void> {
    return this.#check(this.#failing());
  }

  async #check(failing: readonly Reader[] = []): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    clearTimeout(this.#timer);
    if (this.#trouble) this.#set({ ...this.#trouble, triedAgainAt: Date.now() });
    const [what] = await Promise.all([this.#ask(), ...failing.map((reader) => reader.reload())]);
    this.#isChecking = false;
    if (!this.#isOver) this.#wait(what ?? (this.#failing().length > 0 ? 'part' : undefined));
  }

  #failing(): Reader[] {
    return [...this.#readers].filter((reader) => reader.isFailing());
  }

  #wait(what: Trouble['what'] | undefined): void {
    this.#tries = what === undefined ? 0 : this.#tries + 1;
    const ms = what === undefined ? usualMs : (waitsMs[this.#tries - 1] ?? usualMs);
    this.#set(what && { what, triedAgainAt: Date.now() + ms });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#next(ms), ms);
  }

  /** Nothing is asked for while nobody looks. */
  #next(ms: number): void {
    if (document.hidden) this.#timer = setTimeout(() => this.#next(ms), ms);
    else void this.tryAgain();
  }

  async #ask(): Promise<Exclude<Trouble['what'], 'part'> | undefined> {
    try {
      const { client, needsCrm } = this.#options;
      const { crm } = await client.health();
      if (!needsCrm) return undefined;
      if (!crm.connected) return crm.reason === 'sign_in' ? 'sign_in' : 'crm';
      return isQuotaUsedUp(crm.quota) ? 'quota' : undefined;
    } catch (error) {
      const { status } = error as { status?: number };
      return status === undefined || isOutage({ status }) ? 'service' : undefined;
    }
  }

  #set(trouble: Trouble | undefined): void {
    this.#trouble = trouble;
    this.#options.show(trouble);
  }
}
