import assert from 'node:assert/strict';
import { createAuthenticatedCache, loadCacheKeys } from '../../src/platform/cache/authenticated.ts';
import { createRedisCache } from '../../src/platform/cache/redis.ts';
import type { SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/platform/secrets/file.ts';
import { eventually } from './eventually.ts';
import { recordLog } from './log.ts';

/** The cache of the gateways with those secrets, of the environment `dev`. */
export async function openSharedCache(redisUrl: string, secretsDir: string): Promise<SharedCache> {
  const { log } = recordLog();
  const secrets = createFileSecretsManager({ dir: secretsDir });
  const keys = await loadCacheKeys(secrets, 'dev');
  await secrets.close();
  const cache = createRedisCache({ url: redisUrl, log });
  await eventually(async () => assert.ok(!(await cache.checkHealth().catch(() => true))), { everyMs: 10 });
  return createAuthenticatedCache({ cache, keys, log, metrics: createMetrics() });
}
