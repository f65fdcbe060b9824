import { setTimeout as delay } from 'node:timers/promises';
import { createAuthenticatedCache, loadCacheKeys } from '../../src/platform/cache/authenticated.ts';
import { createRedisCache } from '../../src/platform/cache/redis.ts';
import type { SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/platform/secrets/file.ts';
import { recordLog } from './log.ts';

/** The cache of the gateways with those secrets, of the environment `dev`. */
export async function openSharedCache(redisUrl: string, secretsDir: string): Promise<SharedCache> {
  const { log } = recordLog();
  const secrets = createFileSecretsManager({ dir: secretsDir });
  const keys = await loadCacheKeys(secrets, 'dev');
  await secrets.close();
  const cache = createRedisCache({ url: redisUrl, log });
  while (await cache.checkHealth().catch(() => true)) await delay(10);
  return createAuthenticatedCache({ cache, keys, log, metrics: createMetrics() });
}
