import { findPostgresServer, sharedServerVariable, startPostgresServer } from './postgres.ts';
import { findRunningRedis, sharedRedisVariable, startRedis } from './redis.ts';

interface Server {
  url: string;
  stop(): Promise<void>;
}

const started: Server[] = [];

/** Once before all test files: of PostgreSQL and Redis, what does not run is started for all of them. */
export async function globalSetup(): Promise<void> {
  await provide(sharedServerVariable, findPostgresServer, startPostgresServer);
  await provide(sharedRedisVariable, findRunningRedis, startRedis);
}

/** Once after all test files. */
export async function globalTeardown(): Promise<void> {
  for (const server of started) await server.stop();
}

async function provide(
  variable: string,
  find: () => Promise<unknown>,
  start: () => Promise<Server | undefined>,
): Promise<void> {
  if ((await find()) !== undefined) return;
  const server = await start();
  if (server === undefined) return;
  started.push(server);
  // The processes of the test files inherit it.
  process.env[variable] = server.url;
}
