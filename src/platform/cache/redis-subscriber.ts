import type { Redis } from 'ioredis';
import { clearInterval, setInterval } from '../base/chance.ts';
import type { Log } from '../observability/log.ts';

/** How often a quiet connection is checked: one whose peer vanished would stay silent for ever. */
const heartbeatMs = 10_000;

interface Listener {
  onMessage: (message: string) => void;
  onReconnect: (() => void) | undefined;
}

/**
 * Announcements over a connection of their own, which Redis demands for subscribing. `onReconnect` is called each
 * time the server confirms a subscription, the first time included: before that moment announcements were missed.
 */
export function createRedisSubscriber(redis: Redis, log: Log) {
  const channels = new Map<string, Set<Listener>>();

  const join = (channel: string) => {
    if (redis.status !== 'ready') return;
    redis.subscribe(channel).then(
      () => callAll(channels.get(channel), (listener) => listener.onReconnect?.(), log),
      // A connection that can't subscribe is of no use: the next one joins all channels again.
      () => redis.status === 'ready' && redis.disconnect(true),
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
    if (redis.status === 'ready') redis.unsubscribe(channel).catch(() => undefined);
  };

  return {
    subscribe(channel: string, onMessage: (message: string) => void, onReconnect?: () => void): () => void {
      const listener = { onMessage, onReconnect };
      const listeners = channels.get(channel);
      channels.set(channel, (listeners ?? new Set()).add(listener));
      if (listeners === undefined) join(channel);
      return () => leave(channel, listener);
    },
    close(): void {
      clearInterval(heartbeat);
      channels.clear();
      redis.disconnect();
    },
  };
}

export type RedisSubscriber = ReturnType<typeof createRedisSubscriber>;

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
