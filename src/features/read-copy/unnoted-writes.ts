import { clearTimeout, monotonicMs, setTimeout } from '../../platform/base/chance.ts';
import { coalesce } from '../../platform/base/concurrency.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';

/** How long a report is kept for processes that start later; after longer without a poll the copy is refilled anyway. */
const keptMs = 15 * 86_400_000;
const retryMs = 500;

/**
 * Writes that a replica could not store in the copy, since it did not reach the database. After such a write every replica asks
 * the CRM until there is a poll that began later: that one has seen the write, even if the replica has ended meanwhile.
 * Without Redis other replicas do not learn of it; those whose connection to it is lost learn of it when they have another.
 */
export class UnnotedWrites {
  readonly #cache: Pick<SharedCache, 'get' | 'set' | 'publish' | 'subscribe'>;
  readonly #key: string;
  readonly #unsubscribe: () => void;
  readonly #announce: () => Promise<void>;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #wasSubscribed = false;

  constructor(cache: Pick<SharedCache, 'get' | 'set' | 'publish' | 'subscribe'>, environment: string) {
    this.#cache = cache;
    this.#key = `copy_behind:${environment}`;
    this.#unsubscribe = cache.subscribe(
      this.#key,
      () => this.#note(),
      () => this.#noteSubscription(),
    );
    this.#announce = coalesce(async () => {
      const done = [cache.set(this.#key, 'yes', keptMs), cache.publish(this.#key, 'yes')];
      // Each is tried, even if the other fails.
      await Promise.allSettled(done);
      await Promise.all(done);
    });
  }

  /** Learns of those that were reported before; where the cache is unavailable, there may be some. */
  async start(): Promise<void> {
    const reported = await this.#cache.get(this.#key).catch(() => 'unknown');
    if (reported !== undefined) this.#note();
  }

  /** To be awaited before the write is acknowledged. Never rejects. */
  async report(): Promise<void> {
    this.#note();
    await this.#tryToAnnounce();
    this.#note();
  }

  /** Whether a poll that began this many seconds ago has seen them all. */
  areSeenBy(pollAge: number): boolean {
    return monotonicMs() - pollAge * 1000 > this.#reportedAt;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#unsubscribe();
  }

  async #tryToAnnounce(): Promise<void> {
    await this.#announce().catch(() => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.#tryToAnnounce(), retryMs).unref();
    });
  }

  /** The cache has the reports from before the first subscription. While a connection was lost, one may have failed to get there. */
  #noteSubscription(): void {
    if (this.#wasSubscribed) this.#note();
    else void this.start();
    this.#wasSubscribed = true;
  }

  #note(): void {
    this.#reportedAt = monotonicMs();
  }
}
