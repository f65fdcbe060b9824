import type { Consumer } from '../consumers/consumer.ts';
import { type Caller, problemFrom } from '../shared/api.ts';

/** Per cent. */
type Saved = { saved: number } | { setByOther: number };

/** Saves what a slider is moved to, one value after the other, and only over a value that was shown. Shares are per cent, or 0. */
export class ShareSaver {
  readonly #send: Caller['send'];
  readonly #path: string;
  /** The share that this tab last learnt. */
  #known: number;
  /** Entity tag of the known share; undefined until the slider has moved and it is read. */
  #tag: string | undefined;
  /** Undefined when everything is sent. */
  #chosen: number | undefined;
  /** Shares that nobody else has set, if the service has one of them: the known one, and those sent without an answer so far. */
  #own: Set<number>;
  /** Changes so far. Answers of two that were under way together may come in any order. */
  #sent = 0;
  /** Saves and changes that are not over. */
  #underWay = 0;
  #lastTurn: Promise<unknown> = Promise.resolve();

  constructor(send: Caller['send'], consumerId: string, known: number) {
    this.#send = send;
    this.#path = `/v1/admin/consumers/${consumerId}`;
    this.#known = known;
    this.#own = new Set([known]);
  }

  get known(): number {
    return this.#known;
  }

  get isAtRest(): boolean {
    return this.#chosen === undefined && this.#underWay === 0;
  }

  /** Takes over what a list read later says. */
  learn(share: number): void {
    this.#known = share;
    this.#own = new Set([share]);
  }

  choose(share: number): void {
    if (this.isAtRest) void this.#look().catch(() => undefined);
    const isKnown = share === this.#known && this.#underWay === 0 && this.#own.size === 1;
    this.#chosen = isKnown ? undefined : share;
  }

  /** Undefined where nothing was to be saved. Throws where the service has not saved it. */
  async save(): Promise<Saved | undefined> {
    this.#underWay += 1;
    const turn = this.#lastTurn.then(() => this.#saveChosen());
    this.#lastTurn = turn.catch(() => undefined);
    return turn.finally(() => {
      this.#underWay -= 1;
    });
  }

  /** Sends what is left to save. A tab that is closed can't read anything first, nor wait for its own last change. */
  leave(): void {
    if (this.#chosen === undefined || (this.#tag === undefined && this.#own.size === 1)) return;
    void this.#change(this.#chosen).catch(() => undefined);
    this.#chosen = undefined;
  }

  async #saveChosen(): Promise<Saved | undefined> {
    const wanted = this.#chosen;
    if (wanted === undefined) return undefined;
    let seen: number;
    try {
      seen = await this.#look();
      // The tab was left meanwhile, and is back.
      if (this.#chosen === undefined) return undefined;
    } finally {
      if (this.#chosen === wanted) this.#chosen = undefined;
    }
    if (!this.#own.has(seen)) {
      this.#chosen = undefined;
      this.learn(seen);
      return { setByOther: seen };
    }
    await this.#change(wanted);
    return { saved: wanted };
  }

  async #look(): Promise<number> {
    this.#tag = undefined;
    const { text, headers } = await this.#send(this.#path);
    const share = (JSON.parse(text) as Consumer).crmShare ?? 0;
    if (this.#own.has(share)) this.#tag = headers.get('etag') ?? undefined;
    return share;
  }

  async #change(wanted: number): Promise<void> {
    const ifMatch = this.#tag;
    this.#tag = undefined;
    this.#own.add(wanted);
    this.#underWay += 1;
    this.#sent += 1;
    const order = this.#sent;
    const body = JSON.stringify({ crmShare: wanted === 0 ? null : wanted });
    try {
      await this.#send(this.#path, { method: 'PATCH', body, ...(ifMatch !== undefined && { ifMatch }) });
    } catch (error) {
      const { status } = problemFrom(error);
      if (status >= 400 && status < 500 && wanted !== this.#known) this.#own.delete(wanted);
      throw error;
    } finally {
      this.#underWay -= 1;
    }
    if (order === this.#sent) this.learn(wanted);
  }
}
