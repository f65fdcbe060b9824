/**
 * The chaos test for longer, against a PostgreSQL and a Redis of its own:
 *
 *     npm run test:soak
 *
 * SOAK_WRITES (10000), SOAK_KILLS (500), SOAK_REPLICAS (4), SOAK_CLIENTS (48) and SOAK_SEED (any) change its size. It
 * prints its figures, and ends with code 1 where anything was lost, done twice, or answered otherwise the second time.
 */
import { runChaos } from '../support/chaos/run-chaos.ts';
import { startPostgresServer } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';

const size = (name: string, fallback: number) => Number(process.env[`SOAK_${name}`] ?? fallback);

const postgres = await startPostgresServer();
const redis = await startRedis();
try {
  if (!postgres || !redis) throw new Error('The soak needs the programs of PostgreSQL and Redis.');
  const options = {
    writes: size('WRITES', 10_000),
    kills: size('KILLS', 500),
    replicas: size('REPLICAS', 4),
    clients: size('CLIENTS', 48),
    seed: size('SEED', Math.floor(Math.random() * 1e9)),
  };
  print(`soak ${JSON.stringify(options)}`);
  const figures = await runChaos({
    ...options,
    databaseUrl: postgres.url,
    redisUrl: redis.url,
    leases: 'time',
    onProgress: print,
  });
  for (const line of figures.lines()) print(line);
  if (figures.violations.length > 0 || figures.writes !== options.writes) process.exitCode = 1;
} finally {
  await redis?.stop();
  await postgres?.stop();
}

function print(line: string): void {
  process.stdout.write(`${new Date().toISOString()} ${line}\n`);
}
