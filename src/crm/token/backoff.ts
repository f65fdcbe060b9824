import { randomFraction } from '../../platform/base/chance.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import { parseObject } from './access-token.ts';
import type { SignInRefusal } from './token-endpoint.ts';

const shortestMs = 1000;
const longestMs = 300_000;
const memoryMs = 60_000;

interface BackoffRecord {
  /** Milliseconds since 1970. */
  until: number;
  failures: number;
  kind: 'failed' | 'refused';
  keyVersion: string | null;
  /** Repair, where only somebody can help who makes it; null where the fault may pass. */
  advice: string | null;
  refusal: SignInRefusal | null;
}

export type TokenFault = Pick<BackoffRecord, 'advice' | 'refusal'>;

interface BackoffOptions {
  cache: SharedCache;
  key: string;
  connectionHash: string;
  now: () => number;
}

/**
 * The back-off after failed acquisitions, shared by all replicas through the cache. Where the cache is unavailable, each
 * replica keeps what it last knew. Records of other settings do not count: changed settings deserve a try at once.
 */
export class Backoff {
  readonly #options: BackoffOptions;
  #known: BackoffRecord | undefined;
  /** The cache did not take what this process knows. */
  #isUnshared = false;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  async current(): Promise<BackoffRecord | undefined> {
    const record = await this.#read();
    return record !== undefined && record.until > this.#options.now() ? record : undefined;
  }

  async fault(): Promise<TokenFault | undefined> {
    return this.#read();
  }

  async failed(keyVersion: string | null, { advice, refusal }: TokenFault): Promise<number> {
    const failures = ((await this.#read())?.failures ?? 0) + 1;
    const until = this.#options.now() + (advice === null ? delayMs(failures) : longestMs);
    return this.#write({ until, failures, kind: 'failed', keyVersion, advice, refusal });
  }

  /** A new token was refused before it was ever taken. The first such is free: the call's repeat needs a token. */
  async refused(keyVersion: string | null): Promise<number> {
    const before = (await this.#read())?.failures ?? 0;
    const until = this.#options.now() + (before === 0 ? 0 : delayMs(before));
    return this.#write({
      until,
      failures: before + 1,
      kind: 'refused',
      keyVersion,
      advice: null,
      refusal: null,
    });
  }

  async end(kind?: BackoffRecord['kind']): Promise<void> {
    if (this.#known === undefined || (kind !== undefined && this.#known.kind !== kind)) return;
    this.#known = undefined;
    const { cache, key } = this.#options;
    const shared = await cache.get(key).catch(() => undefined);
    if (shared !== undefined) await cache.deleteIfEqual(key, shared).catch(() => undefined);
  }

  async #read(): Promise<BackoffRecord | undefined> {
    const { cache, key, connectionHash } = this.#options;
    try {
      const shared = parse(await cache.get(key), connectionHash);
      // Nothing shared: another replica ended it, unless ours never got there.
      if (shared === undefined && this.#isUnshared) return this.#live();
      this.#known = shared;
      this.#isUnshared = false;
    } catch {
      // The cache is unavailable: what this process knows must do.
    }
    return this.#live();
  }

  #live(): BackoffRecord | undefined {
    if (this.#known !== undefined && this.#known.until + memoryMs <= this.#options.now())
      this.#known = undefined;
    return this.#known;
  }

  async #write(record: BackoffRecord): Promise<number> {
    const { cache, key, connectionHash, now } = this.#options;
    this.#known = record;
    const waitMs = Math.max(0, record.until - now());
    const value = JSON.stringify({ ...record, connection: connectionHash });
    this.#isUnshared = await cache.set(key, value, waitMs + memoryMs).then(
      () => false,
      () => true,
    );
    return waitMs;
  }
}

function delayMs(failures: number): number {
  const middle = pauseAfter(failures, { first: shortestMs, most: 2 * longestMs });
  const spread = Math.round(middle * (0.75 + randomFraction() / 2));
  return Math.min(longestMs, Math.max(shortestMs, spread));
}

function parse(value: string | undefined, connectionHash: string): BackoffRecord | undefined {
  const members = parseObject(value);
  if (members === undefined || members['connection'] !== connectionHash) return undefined;
  const { until, failures, kind, keyVersion, advice } = members;
  if (typeof until !== 'number' || typeof failures !== 'number') return undefined;
  return {
    until,
    failures,
    kind: kind === 'refused' ? 'refused' : 'failed',
    keyVersion: textOrNull(keyVersion),
    advice: textOrNull(advice),
    refusal: readRefusal(members['refusal']),
  };
}

function readRefusal(value: unknown): SignInRefusal | null {
  if (typeof value !== 'object' || value === null) return null;
  const { error, error_description } = value as Record<string, unknown>;
  return typeof error === 'string' ? { error, error_description: textOrNull(error_description) } : null;
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
