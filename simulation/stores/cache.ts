import type { Lock } from '../../src/platform/base/lock.ts';
import { createMemoryCache } from '../../src/platform/cache/memory.ts';
import { CacheUnavailable, type SharedCache } from '../../src/platform/cache/shared-cache.ts';
import type { World } from '../virtual/world.ts';
import type { Way } from './reach.ts';

/** The cache of all replicas. */
export class CommonCache {
  readonly #memory: SharedCache;

  constructor(world: World) {
    this.#memory = createMemoryCache({ now: () => world.elapsed });
  }

  /** Past all replicas. */
  read(key: string): Promise<string | undefined> {
    return this.#memory.get(key);
  }

  /** As one replica reaches it: a server of its own, as Redis is. */
  seenFrom(way: Way): SharedCache {
    const memory = this.#memory;
    const away = () => new CacheUnavailable('the cache cannot be reached');
    const call = <T>(work: () => Promise<T>) => way.call(work, away);
    const lockOf = (lock: Lock): Lock => ({
      fence: lock.fence,
      isHeld: () => call(() => lock.isHeld()),
      release: () => call(() => lock.release()),
    });
    return {
      kind: 'redis',
      time: () => call(() => memory.time()),
      get: (key) => call(() => memory.get(key)),
      set: (key, value, ttlMs) => call(() => memory.set(key, value, ttlMs)),
      setIfEqual: (...given) => call(() => memory.setIfEqual(...given)),
      delete: (key) => call(() => memory.delete(key)),
      deleteMatching: (...given) => call(() => memory.deleteMatching(...given)),
      deleteIfEqual: (...given) => call(() => memory.deleteIfEqual(...given)),
      addToSeries: (...given) => call(() => memory.addToSeries(...given)),
      acquireLock: async (key, ttlMs) => {
        const lock = await call(() => memory.acquireLock(key, ttlMs));
        return lock && lockOf(lock);
      },
      publish: (channel, message) =>
        call(async () => {
          const receivers = await memory.publish(channel, message);
          const [, type = 'news'] = /"type":"(\w+)"/.exec(message) ?? [];
          way.actor.reach(`announcement of ${type}`);
          return receivers;
        }),
      subscribe: (channel, listener) =>
        memory.subscribe(channel, (message) => {
          if (way.reach.isCut) return;
          way.world.schedule(1, () => listener(message), { actor: way.actor });
        }),
      checkHealth: () => call(async () => undefined),
      close: async () => {},
    };
  }
}
