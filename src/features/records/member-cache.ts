import { isTestCall } from '../../platform/base/call.ts';
import { now, randomUUID, wallMs } from '../../platform/base/chance.ts';
import { CacheUnavailable, type SharedCache } from '../../platform/cache/shared-cache.ts';
import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';
import type { MemberCache } from '../../records/offers.ts';
import type { Records, StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';

/*
 * Members in the shared cache, one key each. The key is in one of these states:
 *
 *   empty ── a read begins ──> reading ── that read ends ──> cached ── time is over ──> empty
 *                                 │                             │
 *                                 └────────── drop ─────────────┴──> empty
 *
 *   reading  holds a marker, a new one for each read. A read writes its marker into the key first and stores the member
 *            only while the marker is still there: not after a drop since the read began, a restart of Redis, an
 *            eviction, or another read after any of them. So no member is stored that a drop was meant for.
 *   cached   holds the member as the CRM had it when the read began, for `seconds` from then. A request that takes no
 *            member of that age reads it again, with what is held as its marker: others are served from it meanwhile.
 *
 * No process keeps members of its own: a drop is one command, and done for all replicas.
 */

export const recordMetrics = {
  memberCacheHits: {
    type: 'counter',
    name: 'handoff_member_cache_hits_total',
    help: 'Reads of one member answered from the shared cache.',
  },
  memberCacheMisses: {
    type: 'counter',
    name: 'handoff_member_cache_misses_total',
    help: 'Reads of one member that missed the shared cache.',
  },
} as const satisfies MetricRows;

export type RecordMetrics = MetricsOf<typeof recordMetrics>;

/** Longer than a request lives; a marker whose reader died keeps others from storing for this long. */
const markerMs = 30_000;

interface MemberCacheOptions {
  cache: SharedCache;
  member: Resource;
  scope: string;
  /** How long a member is kept; 0: not at all. */
  seconds: number;
  metrics: Pick<RecordMetrics, 'memberCacheHits' | 'memberCacheMisses'>;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

const keyPrefix = 'member:';

/**
 * Drops a member of every org that shares the cache; a read that is under way then stores nothing. Returns how many
 * there were. Throws `CacheUnavailable`.
 */
export function forgetMember(cache: SharedCache, externalId: string): Promise<number> {
  return cache.deleteMatching(keyPrefix, `:${externalId}`);
}

/** A member is never cached longer, whatever the settings of a replica say. */
const maxSeconds = 300;

export function createMemberCache(options: MemberCacheOptions): MemberCache {
  const { cache, scope, seconds, metrics, clock = wallMs } = options;
  const keyOf = (externalId: string) => `${keyPrefix}${scope}:${externalId}`;
  return {
    async find(externalId, fetch, maxAgeSeconds = Number.POSITIVE_INFINITY) {
      if (seconds === 0) return fetch();
      const key = keyOf(externalId);
      const [began, readAt] = [now(), clock()];
      const { record, ...begun } = await orNothing(() => begin(key, maxAgeSeconds, options), {});
      if (record !== undefined) {
        metrics.memberCacheHits.inc();
        return record;
      }
      metrics.memberCacheMisses.inc();
      let fetched: StoredRecord | undefined;
      let hasFailed = true;
      try {
        fetched = await fetch();
        hasFailed = false;
      } finally {
        const leftMs = seconds * 1000 - (now() - began);
        const text =
          fetched && leftMs > 0 ? formatRecord(fetched, { readAt, until: clock() + leftMs }) : undefined;
        const { marker, isStillGood } = begun;
        if (marker !== undefined && !(hasFailed && isStillGood))
          await orNothing(() => end(cache, { key, marker, text, leftMs }), undefined);
      }
      return fetched;
    },
    async drop(externalId, since) {
      try {
        await cache.delete(keyOf(externalId));
      } catch (error) {
        const mayRemain = clock() - since <= maxSeconds * 1000 + markerMs;
        if (mayRemain || !(error instanceof CacheUnavailable)) throw error;
      }
    },
  };
}

async function begin(
  key: string,
  maxAgeSeconds: number,
  { cache, member, clock = wallMs }: MemberCacheOptions,
): Promise<{
  record?: StoredRecord;
  /** Content of the key while this read may store what it finds; undefined where it may not. */
  marker?: string | undefined;
  isStillGood?: boolean;
}> {
  const held = await cache.get(key);
  const record = parseRecord(member, held, clock());
  if (record !== undefined && record.ageSeconds <= maxAgeSeconds)
    return { record: { ...record, ageSeconds: Math.ceil(record.ageSeconds) } };
  if (record !== undefined) return { marker: held, isStillGood: true };
  // Another read is under way: that one stores what it finds.
  if (held !== undefined && isMarker(held)) return {};
  const marker = makeMarker();
  return (await cache.setIfEqual(key, held, marker, markerMs)) ? { marker } : {};
}

async function end(
  cache: SharedCache,
  { key, marker, text, leftMs }: { key: string; marker: string; text: string | undefined; leftMs: number },
): Promise<void> {
  if (text === undefined) await cache.deleteIfEqual(key, marker);
  else await cache.setIfEqual(key, marker, text, leftMs);
}

/** Reads one member of the CRM through the cache, unless the request wants the CRM's answer. Writes, and decisions that depend on a member, ask the CRM itself. */
export function cachedMembers(records: Records, cache: MemberCache): Pick<Records, 'find'> {
  return {
    find: (resource, externalId, call) => {
      const fetch = () => records.find(resource, externalId, call);
      const { maxAgeSeconds } = call.freshness ?? {};
      const isCached = maxAgeSeconds !== 0 && !isTestCall(call);
      return isCached ? cache.find(externalId, fetch, maxAgeSeconds) : fetch();
    },
  };
}

async function orNothing<T>(work: () => Promise<T>, nothing: T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CacheUnavailable) return nothing;
    throw error;
  }
}

function makeMarker(): string {
  return `reading ${randomUUID()}`;
}

function isMarker(held: string): boolean {
  return held.startsWith('reading ');
}

/** Milliseconds since 1970. */
interface Kept {
  readAt: number;
  /** An old value that somebody stores in the cache again is not valid. */
  until: number;
}

function formatRecord({ nativeId, values }: StoredRecord, { readAt, until }: Kept): string {
  return JSON.stringify({ nativeId, values, readAt, until });
}

/**
 * A cached member with its age at `time`; undefined for anything else, for one whose time is over, and for one that a version
 * with other fields has stored.
 */
function parseRecord(
  member: Resource,
  held: string | undefined,
  time: number,
): (StoredRecord & { ageSeconds: number }) | undefined {
  if (held === undefined || !held.startsWith('{')) return undefined;
  try {
    const { readAt, until, ...record } = JSON.parse(held) as StoredRecord & Kept;
    const isWhole = Object.keys(member.fields).every((name) => name in record.values);
    if (!isWhole || typeof readAt !== 'number' || until <= time) return undefined;
    return { ...record, ageSeconds: Math.max(0, time - readAt) / 1000 };
  } catch {
    return undefined;
  }
}
