import { setTimeout as sleep } from 'node:timers/promises';
import type { SharedCache } from '../cache/shared-cache.ts';
import { createLog } from '../observability/log.ts';

/** A Redis that takes longer is left out. */
const longestConnectMs = 2000;

/** The cache in Redis, connected if that is possible within 2 s. */
export async function connectRedis(url: string): Promise<SharedCache> {
  const { createRedisCache } = await import('../cache/redis.ts');
  const cache = createRedisCache({ url, log: createLog('silent') });
  const isConnected = () =>
    cache.checkHealth().then(
      () => true,
      () => false,
    );
  const until = performance.now() + longestConnectMs;
  while (!(await isConnected()) && performance.now() < until) await sleep(20);
  return cache;
}
