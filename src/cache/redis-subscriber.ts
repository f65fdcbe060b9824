import type { Redis } from 'ioredis';
import type { Log } from '../observability/log.ts';

/** How often a quiet connection is tried: one whose peer vanished would stay silent for ever. */
const heartbeatMs = 10_000;

export interface RedisSubscriber {
  subscribe(channel: string, tell: (message: string) => void, onReconnect?: () => void): () => void;
  close(): void;
}

interface Listener {
  tell: (message: string) => void;
  onReconnect: (() => void) | undefined;
}

/**
 * Announcements over a connection of their own, which Redis demands for subscribing. `onReconnect` is called each
 * time the server confirms a subscription, the first time included: before that moment announcements were missed.
 */
export function createRedisSubscriber(redis: Redis, log: Log): RedisSubscriber {
  const channels = new Map<string, Set<Listener>>();

  const join = (channel: string) => {
    if (redis.status !== 'ready') return;
    redis.subscribe(channel).then(
      () => tellAll(channels.get(channel), (listener) => listener.onReconnect?.(), log),
      // A connection that can't subscribe is of no use: the next one joins all channels again.
      () => redis.status === 'ready' && redis.disconnect(true),
    );
  };

  redis.on('ready', () => {
    for (const channel of channels.keys()) join(channel);
  });
  redis.on('message', (channel: string, message: string) => {
    tellAll(channels.get(channel), (listener) => listener.tell(message), log);
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
    subscribe(channel, tell, onReconnect) {
      const listener = { tell, onReconnect };
      const listeners = channels.get(channel);
      channels.set(channel, (listeners ?? new Set()).add(listener));
      if (listeners === undefined) join(channel);
      return () => leave(channel, listener);
    },
    close() {
      clearInterval(heartbeat);
      channels.clear();
      redis.disconnect();
    },
  };
}

/** One listener's failure is its own: the others are told all the same. */
function tellAll(listeners: Set<Listener> | undefined, tell: (listener: Listener) => void, log: Log): void {
  for (const listener of [...(listeners ?? [])]) {
    try {
      tell(listener);
    } catch (err) {
      log.error({ err }, 'A listener to announcements failed');
    }
  }
}
