import { Redis } from 'ioredis';
import { clearInterval, clearTimeout, randomUUID, setInterval, setTimeout } from '../base/chance.ts';
import type { Lock } from '../base/lock.ts';
import { dayMs } from '../base/moment.ts';
import { pauseAfter } from '../base/waiting.ts';
import type { Log } from '../observability/log.ts';
import { CacheUnavailable, type SharedCache } from './shared-cache.ts';

/** A Redis that is slower than this counts as unavailable: requests wait for it. */
const commandTimeoutMs = 1000;

/** A fence must outlive every holder that could still carry a smaller one; locks live seconds. */
const fenceTtlMs = dayMs;

const advice = 'name a single server, or an address that always leads to the current primary';

const probeKeptMs = 1000;

const maxSeries = 100;

const scripts = {
  setIfEqual: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1`,
  deleteIfEqual: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
  addToSeries: `local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])
    for i = 4, #ARGV, 2 do redis.call('hincrby', KEYS[1], ARGV[i], ARGV[i + 1]) end
    redis.call('pexpire', KEYS[1], ARGV[3])
    if redis.call('hlen', KEYS[1]) > ${maxSeries} then
      for _, number in ipairs(redis.call('hkeys', KEYS[1])) do
        if tonumber(number) < last - ${maxSeries} then redis.call('hdel', KEYS[1], number) end
      end
    end
    local counters = {}
    for number = first, last do counters[#counters + 1] = redis.call('hget', KEYS[1], number) or 0 end
    return counters`,
  // No holder gives its key a later end, or none, and the key of another program would hold the lock for ever.
  acquireLock: `if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      local left = redis.call('pttl', KEYS[1])
      if left >= 0 and left <= tonumber(ARGV[2]) then return 0 end
      redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
    end
    local fence = redis.call('incr', KEYS[2])
    redis.call('pexpire', KEYS[2], ARGV[3])
    return fence`,
};

/**
 * The shared cache in Redis. It connects in the background and by itself again after every loss; while there is no
 * connection, and when an answer takes more than a second, methods throw `CacheUnavailable` at once.
 */
export function createRedisCache(options: { url: string; log: Log }): SharedCache {
  return new RedisCache(options.url, options.log);
}

/** A connection that never queues: a command that can't be sent now fails now. */
function connect(url: string): Redis {
  return new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 2000,
    commandTimeout: commandTimeoutMs,
    // A server that takes commands and never answers: reconnect, so that later commands fail without waiting.
    socketTimeout: commandTimeoutMs,
    keepAlive: 10_000,
    retryStrategy: (attempt) => Math.min(attempt * 100, 2000),
    // After a failover the old primary is a replica: the same name may lead to the new one by now.
    reconnectOnError: ({ message }) => message.includes('READONLY'),
  });
}

class RedisCache implements SharedCache {
  readonly kind = 'redis';
  readonly #commands: Redis;
  readonly #subscriber: RedisSubscriber;
  #refusal: string | undefined;

  constructor(url: string, log: Log) {
    this.#commands = connect(url);
    this.#subscriber = createRedisSubscriber(url, log);
    this.#commands.on('ready', () => void this.#checkMode(log));
    logConnection(this.#commands, log, 'commands');
  }

  async time(): Promise<number> {
    const [seconds, microseconds] = (await this.#run((redis) => redis.time())) as unknown[];
    return Number(seconds) * 1000 + Number(microseconds) / 1000;
  }

  async get(key: string): Promise<string | undefined> {
    return (await this.#run((redis) => redis.get(key).catch(noValueOfOtherKind))) ?? undefined;
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    await this.#run((redis) => redis.set(key, value, 'PX', wholeMs(ttlMs)));
  }

  async setIfEqual(
    key: string,
    expected: string | undefined,
    value: string,
    ttlMs: number,
  ): Promise<boolean> {
    const ttl = wholeMs(ttlMs);
    if (expected === undefined) {
      return (await this.#run((redis) => redis.set(key, value, 'PX', ttl, 'NX'))) === 'OK';
    }
    const done = await this.#run((redis) => redis.eval(scripts.setIfEqual, 1, key, expected, value, ttl));
    return done === 1;
  }

  async delete(key: string): Promise<void> {
    await this.#run((redis) => redis.del(key));
  }

  async deleteMatching(beginning: string, end: string): Promise<number> {
    let deleted = 0;
    let cursor = '0';
    do {
      const [next, keys] = await this.#run((redis) =>
        redis.scan(cursor, 'MATCH', `${beginning}*${end}`, 'COUNT', 1000),
      );
      if (keys.length > 0) deleted += await this.#run((redis) => redis.del(...keys));
      cursor = next;
    } while (cursor !== '0');
    return deleted;
  }

  async deleteIfEqual(key: string, value: string): Promise<boolean> {
    return (await this.#run((redis) => redis.eval(scripts.deleteIfEqual, 1, key, value))) === 1;
  }

  async addToSeries(
    key: string,
    additions: ReadonlyMap<number, number>,
    { first, last }: { first: number; last: number },
    ttlMs: number,
  ): Promise<Map<number, number>> {
    const args = [first, last, wholeMs(ttlMs), ...[...additions].flat()];
    const counters = await this.#run((redis) => redis.eval(scripts.addToSeries, 1, key, ...args));
    return new Map((counters as unknown[]).map((count, i) => [first + i, Number(count)]));
  }

  async acquireLock(key: string, ttlMs: number): Promise<Lock | undefined> {
    const token = randomUUID();
    const fence = Number(
      await this.#run((redis) =>
        redis.eval(scripts.acquireLock, 2, key, `${key}:fence`, token, wholeMs(ttlMs), fenceTtlMs),
      ),
    );
    if (fence === 0) return undefined;
    return {
      fence,
      isHeld: async () => (await this.get(key)) === token,
      release: async () => {
        await this.deleteIfEqual(key, token);
      },
    };
  }

  async publish(channel: string, message: string): Promise<number> {
    return this.#run((redis) => redis.publish(channel, message));
  }

  subscribe(channel: string, listener: (message: string) => void, onReconnect?: () => void): () => void {
    return this.#subscriber.subscribe(channel, listener, onReconnect);
  }

  async checkHealth(): Promise<void> {
    // A full server, and one that has become a replica, answer a ping.
    const key = 'cache_health:write';
    await this.set(key, '', probeKeptMs);
    const refusal = this.#subscriber.refusal();
    if (refusal !== undefined) throw new CacheUnavailable(`Redis: ${refusal}`);
  }

  async close(): Promise<void> {
    this.#subscriber.close();
    this.#commands.disconnect();
  }

  /** A Cluster's node takes some keys and refuses others, a Sentinel all of them, and both answer a ping. */
  async #checkMode(log: Log): Promise<void> {
    // A user that may not ask for it may use the server all the same.
    const info = await this.#commands.info('server').catch(() => '');
    const mode = /^redis_mode:(\w+)/m.exec(info)?.[1] ?? 'standalone';
    this.#refusal =
      mode === 'standalone' ? undefined : `redisUrl leads to a Redis in ${mode} mode: ${advice}`;
    if (this.#refusal !== undefined)
      log.error({ mode, advice }, "can't use this Redis; the gateway goes on without it");
  }

  async #run<T>(command: (redis: Redis) => Promise<T>): Promise<T> {
    if (this.#refusal !== undefined) throw new CacheUnavailable(this.#refusal);
    try {
      return await command(this.#commands);
    } catch (error) {
      // Only the message goes on: the error itself holds the command, and with it tokens or the password.
      throw new CacheUnavailable(`Redis: ${error instanceof Error ? error.message : 'no answer'}`);
    }
  }
}

/** A list, a hash or the like, which only another program can have put there, is no value: the next `set` replaces it. */
function noValueOfOtherKind(error: Error): null {
  if (error.message.startsWith('WRONGTYPE')) return null;
  throw error;
}

/** One line when the connection is lost and one when it is back, not one for every attempt. */
function logConnection(redis: Redis, log: Log, purpose: string): void {
  let lost = false;
  let reason = 'connection closed';
  redis.on('ready', () => {
    if (lost) log.info({ purpose }, 'Redis is connected again');
    lost = false;
  });
  redis.on('error', (error: Error) => {
    reason = error.message;
  });
  redis.on('reconnecting', () => {
    if (!lost) log.warn({ purpose, reason }, "Redis isn't connected; the gateway goes on without it");
    lost = true;
  });
}

function wholeMs(ttlMs: number): number {
  return Math.max(1, Math.ceil(ttlMs));
}

/** How often a quiet connection is checked: one whose peer vanished would stay silent for ever. */
const heartbeatMs = 10_000;

/** Pauses before a channel that the server refused is asked for again, in milliseconds. */
const refusedPauses = { first: 1000, most: 60_000 };
const refusedAdvice = 'let the Redis user subscribe: +@pubsub and &*';

interface Listener {
  onMessage: (message: string) => void;
  onReconnect: (() => void) | undefined;
}

/**
 * Announcements over a connection of their own, which Redis demands for subscribing. `onReconnect` is called each
 * time the server confirms a subscription, the first time included: before that moment announcements were missed.
 */
function createRedisSubscriber(url: string, log: Log) {
  const redis = connect(url);
  logConnection(redis, log, 'announcements');
  const channels = new Map<string, Set<Listener>>();
  const refusals = createRefusals((channel) => join(channel), log);

  const onJoined = (channel: string) => {
    refusals.end(channel);
    callAll(channels.get(channel), (listener) => listener.onReconnect?.(), log);
  };
  const join = (channel: string) => {
    if (redis.status !== 'ready' || !channels.has(channel)) return;
    redis.subscribe(channel).then(
      () => onJoined(channel),
      (error: Error) => {
        if (!channels.has(channel)) return;
        // The server answered, so another connection would get the same answer.
        if (error.name === 'ReplyError') refusals.note(channel, error.message);
        // A connection that can't subscribe is of no use: the next one joins all channels again.
        else if (redis.status === 'ready') redis.disconnect(true);
      },
    );
  };

  redis.on('ready', () => {
    for (const channel of channels.keys()) join(channel);
  });
  redis.on('message', (channel: string, message: string) => {
    callAll(channels.get(channel), (listener) => listener.onMessage(message), log);
  });
  const heartbeat = setInterval(() => {
    // Without an answer the socket's timeout closes the connection; ours is only to ask.
    if (redis.status === 'ready') redis.ping().catch(() => undefined);
  }, heartbeatMs);
  heartbeat.unref();

  const leave = (channel: string, listener: Listener) => {
    const listeners = channels.get(channel);
    if (!listeners?.delete(listener) || listeners.size > 0) return;
    channels.delete(channel);
    refusals.forget(channel);
    if (redis.status === 'ready') redis.unsubscribe(channel).catch(() => undefined);
  };

  return {
    refusal: refusals.reason,
    subscribe(channel: string, onMessage: (message: string) => void, onReconnect?: () => void): () => void {
      const listener = { onMessage, onReconnect };
      const listeners = channels.get(channel);
      channels.set(channel, (listeners ?? new Set()).add(listener));
      if (listeners === undefined) join(channel);
      return () => leave(channel, listener);
    },
    close(): void {
      clearInterval(heartbeat);
      for (const channel of channels.keys()) refusals.forget(channel);
      channels.clear();
      redis.disconnect();
    },
  };
}

/** Channels that the server lets this user not subscribe to, each asked for again and again. */
function createRefusals(retry: (channel: string) => void, log: Log) {
  const refused = new Map<string, { reason: string; count: number; timer: NodeJS.Timeout }>();
  const forget = (channel: string) => {
    clearTimeout(refused.get(channel)?.timer);
    return refused.delete(channel);
  };
  return {
    note(channel: string, reason: string): void {
      // One line for all channels and tries.
      if (refused.size === 0)
        log.error(
          { reason, advice: refusedAdvice },
          "Redis doesn't let the gateway subscribe; it goes on without announcements",
        );
      const count = (refused.get(channel)?.count ?? 0) + 1;
      forget(channel);
      const timer = setTimeout(() => retry(channel), pauseAfter(count, refusedPauses)).unref();
      refused.set(channel, { reason, count, timer });
    },
    end(channel: string): void {
      if (forget(channel) && refused.size === 0) log.info({}, 'Redis lets the gateway subscribe again');
    },
    forget,
    /** Undefined while no channel is refused. */
    reason: () => refused.values().next().value?.reason,
  };
}

type RedisSubscriber = ReturnType<typeof createRedisSubscriber>;

/** A listener that fails does not keep the others from being called. */
function callAll(listeners: Set<Listener> | undefined, call: (listener: Listener) => void, log: Log): void {
  for (const listener of [...(listeners ?? [])]) {
    try {
      call(listener);
    } catch (err) {
      log.error({ err }, 'a listener to announcements failed');
    }
  }
}
