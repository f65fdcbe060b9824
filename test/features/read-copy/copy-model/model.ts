import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from '../../../support/cluster.ts';
import type { OrgHistory } from './org-history.ts';

interface Sending {
  body?: string;
  headers?: Record<string, string>;
  isKeyed?: boolean;
}

export interface Answer {
  status: number;
  text: string;
  headers: Headers;
}

/** What those who write, read and disturb know, and what they found to be wrong. */
export class Model {
  readonly cluster: Cluster;
  readonly history: OrgHistory;
  readonly random: () => number;
  readonly trips = Array.from({ length: 3 }, () => randomUUID());
  /** External IDs. */
  readonly quotes: string[] = [];
  readonly members: string[] = [];
  /** By External ID: the change that an acknowledged write has made. No later read may show what was before. */
  readonly floors = new Map<string, number>();
  readonly violations: string[] = [];
  readonly counts = new Map<string, number>();
  readonly #log: string[] = [];
  #number = 0;
  isOver = false;

  constructor(cluster: Cluster, history: OrgHistory, random: () => number) {
    this.cluster = cluster;
    this.history = history;
    this.random = random;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  trace(line: string): void {
    this.#log.push(`${Math.round(performance.now())} ${line}`);
  }

  /** Notes what is wrong, with what has happened to the record, and went wrong around it. */
  report(wrong: string, about: string): void {
    const happened = this.#log.filter((line) => line.includes(about) || line.includes('!')).slice(-25);
    this.violations.push([`${Math.round(performance.now())} ${wrong}`, ...happened].join('\n'));
  }

  pick<T>(all: readonly T[]): T {
    return all[Math.floor(this.random() * all.length)] as T;
  }

  /** One of the kinds, each as often as its weight says. */
  pickWeighted<T>(kinds: readonly (readonly [number, T])[]): T {
    let left = this.random() * kinds.reduce((sum, [weight]) => sum + weight, 0);
    const found = kinds.find(([weight]) => (left -= weight) < 0) ?? kinds.at(-1);
    return (found as readonly [number, T])[1];
  }

  /** A name and details that no other write has. */
  nextValues(): { name: string; details: string } {
    const n = ++this.#number;
    return { name: `name ${n}`, details: `{"n":${n},"exact":1234567890123456789.${n}0}` };
  }

  /** Does the work again and again, with pauses of so many milliseconds at most. */
  async repeat(work: () => Promise<void>, longestPause: number): Promise<void> {
    while (!this.isOver) {
      await work().catch((error: unknown) => this.#noteFailure(error));
      await sleep(this.random() * longestPause);
    }
  }

  /** A replica that is down or stands still answers nothing. */
  #noteFailure(error: unknown): void {
    const { name, stack } = error as Error;
    if (error instanceof TypeError || name === 'TimeoutError') this.count('no answer');
    else this.violations.push(String(stack));
  }

  /** To any of the replicas. */
  async send(method: string, path: string, { body, headers, isKeyed }: Sending = {}): Promise<Answer> {
    const { apiKey, apiSecret } = this.cluster.credentials.console;
    const { url } = this.pick(this.cluster.gateways);
    const response = await fetch(`${url}${path}`, {
      method,
      signal: AbortSignal.timeout(30_000),
      headers: {
        ...{ 'x-api-key': apiKey, 'x-api-secret': apiSecret },
        ...(isKeyed && { 'idempotency-key': randomUUID() }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body }),
    });
    const answer = { status: response.status, text: await response.text(), headers: response.headers };
    this.count(`${method} ${answer.status}`);
    return answer;
  }
}
