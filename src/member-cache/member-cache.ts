import { randomUUID } from 'node:crypto';
import { CacheUnavailable, type SharedCache } from '../cache/shared-cache.ts';
import type { Metrics } from '../observability/metrics.ts';
import { member } from '../resources/members.ts';
import type { StoredRecord } from '../resources/records.ts';

/*
 * Members in the shared cache, one key each. The key is in one of these states:
 *
 *   empty ── a read begins ──> reading ── that read ends ──> cached ── time is over ──> empty
 *                                 │                             │
 *                                 └────────── drop ─────────────┴──> empty
 *
 *   reading  holds the mark of one read, made anew for each. Only that read may replace it, and only while it is still
 *            there: a drop that came since the read began, a restart of Redis, an eviction, another read after any of
 *            them, and what was fetched is not stored. So no member is stored that a drop was meant for.
 *   cached   holds the member as the CRM had it when the read began, for `seconds` from then.
 *
 * No process keeps members of its own: a drop is one command, and done for all replicas.
 */

/** Longer than a request lives; a mark whose reader died keeps others from storing for so long. */
const markMs = 30_000;

export interface MemberCacheOptions {
  cache: SharedCache;
  /** What keeps the members of one org apart from those of another in the same cache. */
  scope: string;
  /** How long a member is kept; 0: not at all. */
  seconds: number;
  metrics: Pick<Metrics, 'memberCacheHits' | 'memberCacheMisses'>;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

export interface MemberCache {
  /** The member from the cache, else from `fetch`; what that finds is kept, and nothing where it finds nothing. */
  find(externalId: string, fetch: () => Promise<StoredRecord | undefined>): Promise<StoredRecord | undefined>;
  /**
   * Drops the member on every replica. `since` is when its change was told (milliseconds since 1970): with the cache
   * away for so long that whatever was cached before must have ended by itself, there is nothing left to drop. Throws
   * `CacheUnavailable` until then.
   */
  drop(externalId: string, since: number): Promise<void>;
}

/** A member is never cached longer, whatever the settings of a replica say. */
const maxSeconds = 300;

export function createMemberCache(options: MemberCacheOptions): MemberCache {
  const { cache, scope, seconds, metrics, clock = Date.now } = options;
  const keyOf = (externalId: string) => `member:${scope}:${externalId}`;

  async function look(key: string): Promise<{ record?: StoredRecord; mark?: string }> {
    const held = await cache.get(key);
    const record = parseRecord(held);
    if (record !== undefined) return { record };
    // Another read is under way: that one stores what it finds.
    if (held !== undefined && isMark(held)) return {};
    const mark = makeMark();
    return (await cache.setIfEqual(key, held, mark, markMs)) ? { mark } : {};
  }

  return {
    async find(externalId, fetch) {
      if (seconds === 0) return fetch();
      const key = keyOf(externalId);
      const began = performance.now();
      const { record: cached, mark } = await orNothing(() => look(key), {});
      if (cached !== undefined) {
        metrics.memberCacheHits.inc();
        return cached;
      }
      metrics.memberCacheMisses.inc();
      let fetched: StoredRecord | undefined;
      try {
        fetched = await fetch();
      } finally {
        const left = seconds * 1000 - (performance.now() - began);
        if (mark !== undefined) await settle(key, mark, left > 0 ? fetched : undefined, left);
      }
      return fetched;
    },
    async drop(externalId, since) {
      try {
        await cache.delete(keyOf(externalId));
      } catch (error) {
        const mayRemain = clock() - since <= maxSeconds * 1000 + markMs;
        if (mayRemain || !(error instanceof CacheUnavailable)) throw error;
      }
    },
  };

  /** Stores what was fetched, or gives the place back. */
  async function settle(
    key: string,
    mark: string,
    fetched: StoredRecord | undefined,
    ttlMs: number,
  ): Promise<void> {
    await orNothing(async () => {
      if (fetched === undefined) await cache.deleteIfEqual(key, mark);
      else await cache.setIfEqual(key, mark, JSON.stringify(fetched), ttlMs);
    }, undefined);
  }
}

/** The cache says itself, in the log and in health, that it is away. */
async function orNothing<T>(work: () => Promise<T>, nothing: T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CacheUnavailable) return nothing;
    throw error;
  }
}

function makeMark(): string {
  return `reading ${randomUUID()}`;
}

function isMark(held: string): boolean {
  return held.startsWith('reading ');
}

/** A cached member; undefined for what is none, or was stored by a version of the program with other fields. */
function parseRecord(held: string | undefined): StoredRecord | undefined {
  if (held === undefined || !held.startsWith('{')) return undefined;
  try {
    const record = JSON.parse(held) as StoredRecord;
    const isWhole = Object.keys(member.fields).every((name) => name in record.values);
    return isWhole ? record : undefined;
  } catch {
    return undefined;
  }
}
