import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import { monotonicMs } from '../base/chance.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { type KeySet, loadOrCreateKeySet } from '../secrets/key-set.ts';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import type { SharedCache } from './shared-cache.ts';

/*
 * Anyone who can write to Redis could forge values: a token record with another host, or an answer of another replica. So
 * values and messages carry a message authentication code (MAC) under a key of the secrets manager. The MAC also covers the
 * key or channel:
 *
 *   {"a":1}      becomes  {"a":1,"mac":"<version>:<43 characters>"}, which is still JSON
 *   other texts  become   the text, a space, and the MAC
 *
 * A value without a valid MAC counts as missing. Locks and counters have no MAC: changing them makes replicas request tokens
 * at the same time, or count wrongly, and nothing worse.
 */

const code = '([1-9]\\d{0,8}):([A-Za-z0-9_-]{43})';
const inObject = new RegExp(`^(\\{.+),"mac":"${code}"\\}$`, 's');
const behindText = new RegExp(`^(.*) ${code}$`, 's');

/** At most one line in the log in this time: someone who writes to Redis must not fill it. */
const logEveryMs = 60_000;

export function cacheKeyName(environment: string): string {
  return `cache/${environment}/key`;
}

/**
 * The key with which replicas of this environment authenticate what they store in Redis, created at the first start. A new
 * key only makes the cache empty. Throws `KeyUnusable`, `SecretsUnavailable`.
 */
export function loadCacheKeys(secrets: SecretsManager, environment: string): Promise<KeySet> {
  return loadOrCreateKeySet(secrets, cacheKeyName(environment));
}

interface AuthenticatedCacheOptions {
  cache: SharedCache;
  keys: KeySet;
  log: Log;
  metrics: Pick<Metrics, 'cacheRejected'>;
}

/** The shared cache; values and messages without a valid MAC are ignored, logged and counted. */
export function createAuthenticatedCache(options: AuthenticatedCacheOptions): SharedCache {
  const { cache, keys } = options;
  const reject = createReject(options);
  const seal = (name: string, text: string) => sealText(keys, name, text);
  const withSealed = async (key: string, text: string, change: (sealed: string) => Promise<boolean>) => {
    const expected = seal(key, text);
    if (await change(expected)) return true;
    const held = await cache.get(key);
    if (held === undefined || held === expected || openText(keys, key, held) !== text) return false;
    return change(held);
  };

  return {
    kind: cache.kind,
    time: () => cache.time(),
    async get(key) {
      const sealed = await cache.get(key);
      if (sealed === undefined) return undefined;
      const text = openText(keys, key, sealed);
      if (text !== undefined) return text;
      reject(key);
      // Otherwise operations that store only if the key is missing would fail.
      await cache.deleteIfEqual(key, sealed);
      return undefined;
    },
    set: (key, value, ttlMs) => cache.set(key, seal(key, value), ttlMs),
    setIfEqual: (key, expected, value, ttlMs) => {
      const sealed = seal(key, value);
      if (expected === undefined) return cache.setIfEqual(key, undefined, sealed, ttlMs);
      return withSealed(key, expected, (held) => cache.setIfEqual(key, held, sealed, ttlMs));
    },
    delete: (key) => cache.delete(key),
    deleteMatching: (beginning, end) => cache.deleteMatching(beginning, end),
    deleteIfEqual: (key, value) => withSealed(key, value, (held) => cache.deleteIfEqual(key, held)),
    addToSeries: (key, additions, range, ttlMs) => cache.addToSeries(key, additions, range, ttlMs),
    acquireLock: (key, ttlMs) => cache.acquireLock(key, ttlMs),
    publish: (channel, message) => cache.publish(channel, seal(channel, message)),
    subscribe: (channel, listener, onReconnect) =>
      cache.subscribe(
        channel,
        (sealed) => {
          const text = openText(keys, channel, sealed);
          if (text === undefined) reject(channel);
          else listener(text);
        },
        onReconnect,
      ),
    checkHealth: () => cache.checkHealth(),
    close: () => cache.close(),
  };
}

function sealText({ current: { version, key } }: KeySet, name: string, text: string): string {
  const mac = `${version}:${digest(key, name, text).toString('base64url')}`;
  const isObject = text.length > 2 && text.startsWith('{') && text.endsWith('}');
  return isObject ? `${text.slice(0, -1)},"mac":"${mac}"}` : `${text} ${mac}`;
}

/** The text that was sealed for this key or channel; undefined if the MAC is missing or not valid. */
function openText(keys: KeySet, name: string, sealed: string): string | undefined {
  const found = inObject.exec(sealed);
  const [, beginning, version, mac] = found ?? behindText.exec(sealed) ?? [];
  if (beginning === undefined || mac === undefined) return undefined;
  const key = keys.get(Number(version));
  if (key === undefined) return undefined;
  const text = found ? `${beginning}}` : beginning;
  const isOurs = timingSafeEqual(digest(key, name, text), Buffer.from(mac, 'base64url'));
  return isOurs ? text : undefined;
}

/** HMAC-SHA-256 of both, with the length of the name first, so that no two pairs give the same input. */
function digest(key: KeyObject, name: string, text: string): Buffer {
  return createHmac('sha256', key).update(`${name.length}:${name}${text}`).digest();
}

function createReject({ log, metrics }: AuthenticatedCacheOptions): (name: string) => void {
  let loggedAt = Number.NEGATIVE_INFINITY;
  return (name) => {
    metrics.cacheRejected.inc();
    if (monotonicMs() - loggedAt < logEveryMs) return;
    loggedAt = monotonicMs();
    const advice = 'Only replicas with the same cache key may write to this Redis.';
    log.error(
      { name, advice },
      'a value or message in Redis has no valid authentication code, and was ignored',
    );
  };
}
