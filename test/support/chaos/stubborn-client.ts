import { setTimeout as delay } from 'node:timers/promises';
import type { Credentials } from '../gateway.ts';
import { type Answer, isReplay } from '../keyed-writes.ts';
import type { Figures } from './figures.ts';
import type { Turnstile } from './turnstile.ts';

export interface WriteRequest {
  method: 'POST' | 'PATCH' | 'DELETE';
  path: string;
  key: string;
  body?: string;
  ifMatch?: string | undefined;
}

export interface StubbornClientOptions {
  /** Where to send next: any replica, dead ones included, as a simple balancer would. */
  nextUrl: () => string;
  credentials: Credentials;
  turnstile: Turnstile;
  figures: Figures;
}

/** What a key has met on its way: a connection that broke, and an owner that still had it. */
interface Met {
  noAnswer: boolean;
  owner: boolean;
}

/** Longer than any replica may take for a request. */
const answerWithinMs = 40_000;
/** A key that is not done by then counts as lost. */
const doneWithinMs = 600_000;
const longestPauseMs = 5000;

/** A client as partners should write it: it sends the same request under the same key until it is answered for good. */
export class StubbornClient {
  readonly #options: StubbornClientOptions;

  constructor(options: StubbornClientOptions) {
    this.#options = options;
  }

  /** Sends once; undefined where no whole answer came. */
  async send(request: WriteRequest): Promise<Answer | undefined> {
    const { method, path, key, body, ifMatch } = request;
    return this.#exchange(path, {
      method,
      headers: {
        'idempotency-key': key,
        ...(ifMatch !== undefined && { 'if-match': ifMatch }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body }),
    });
  }

  /** The answer that is not about to change; `twice` sends the first request to two replicas at once. */
  async sendUntilDone(request: WriteRequest, twice: boolean): Promise<Answer> {
    const giveUpAt = performance.now() + doneWithinMs;
    const met: Met = { noAnswer: false, owner: false };
    for (let tried = 0; performance.now() < giveUpAt; tried++) {
      const sends = twice && tried === 0 ? 2 : 1;
      const answers = await Promise.all(Array.from({ length: sends }, () => this.send(request)));
      for (const [index, answer] of answers.entries()) this.#count(answer, tried + index > 0, met);
      const [answer, other = answer] = answers.filter((each) => each && !isPassing(each));
      if (answer) return this.#settle(request, answer, other, met);
      await delay(pauseMs(answers[0], tried));
    }
    throw new Error(`${describe(request)} was not done within ${doneWithinMs / 60_000} minutes`);
  }

  #settle(request: WriteRequest, answer: Answer, other: Answer | undefined, met: Met): Answer {
    const { figures } = this.#options;
    if (other?.text !== answer.text) figures.violation(`two answers to ${describe(request)} differ`);
    if (met.noAnswer && met.owner && !isReplay(answer)) figures.takenOver += 1;
    return answer;
  }

  /** Reads until there is an answer. */
  async read(path: string): Promise<Answer> {
    const giveUpAt = performance.now() + doneWithinMs;
    for (let tried = 0; performance.now() < giveUpAt; tried++) {
      this.#options.figures.reads += 1;
      const answer = await this.#exchange(path, { method: 'GET' });
      if (answer && !isPassing(answer)) return answer;
      await delay(pauseMs(answer, tried));
    }
    throw new Error(`GET ${path} was not answered within ${doneWithinMs / 60_000} minutes`);
  }

  #count(answer: Answer | undefined, isRepeat: boolean, met: Met): void {
    const { figures } = this.#options;
    figures.sent += 1;
    if (isRepeat) figures.repeats += 1;
    if (answer === undefined) {
      figures.broken += 1;
      met.noAnswer = true;
      return;
    }
    figures.answered(answer.status);
    if (isReplay(answer)) figures.replays += 1;
    met.owner ||= answer.status === 409;
  }

  async #exchange(path: string, init: RequestInit): Promise<Answer | undefined> {
    const { turnstile, nextUrl, credentials } = this.#options;
    const { apiKey, apiSecret } = credentials;
    const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret, ...(init.headers as object) };
    return turnstile.pass(async () => {
      try {
        const signal = AbortSignal.timeout(answerWithinMs);
        const response = await fetch(nextUrl() + path, { ...init, headers, signal });
        return { status: response.status, headers: response.headers, text: await response.text() };
      } catch {
        return undefined;
      }
    });
  }
}

export function describe({ method, path, key }: WriteRequest): string {
  return `${method} ${path} (key ${key})`;
}

/** An answer after which the same request may be sent again and end otherwise. */
function isPassing({ status, text }: Answer): boolean {
  return status >= 500 || status === 429 || (status === 409 && text.includes('idempotency_in_progress'));
}

/** As Retry-After says, and longer each time, so that a key that is held for 30 s is not asked for 30 times. */
function pauseMs(answer: Answer | undefined, tried: number): number {
  const retryAfterMs = Number(answer?.headers.get('retry-after') ?? 0) * 1000;
  return Math.max(retryAfterMs, Math.min(longestPauseMs, 100 * 2 ** tried)) + Math.random() * 100;
}
