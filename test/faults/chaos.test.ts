import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runChaos } from '../support/chaos/run-chaos.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';

/** `npm run test:soak` is the same for longer. */
test('replicas that are killed at random lose nothing and do nothing twice', async (context) => {
  const postgres = await startPostgres();
  const redis = await startRedis();
  context.after(async () => {
    await redis?.stop();
    await postgres?.stop();
  });
  if (!postgres || !redis) return context.skip('there is no PostgreSQL or no Redis');
  const seed = Number(process.env['SOAK_SEED'] ?? Math.floor(Math.random() * 1e9));
  const figures = await runChaos({
    databaseUrl: postgres.url,
    redisUrl: redis.url,
    writes: 120,
    kills: 6,
    replicas: 3,
    clients: 16,
    seed,
    leases: 'run',
  });
  for (const line of [`seed ${seed}`, ...figures.lines()]) context.diagnostic(line);
  assert.deepEqual(figures.violations, []);
  assert.equal(figures.writes, 120);
  assert.equal(figures.kills, 6);
});
