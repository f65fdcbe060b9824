import { join } from 'node:path';
import { openPostgres } from '../../src/platform/store/postgres.ts';
import { recordLog } from './log.ts';
import {
  createDatabase,
  findPostgresServer,
  sharedServerVariable,
  startPostgresServer,
  templateVariable,
} from './postgres.ts';
import { findRunningRedis, sharedRedisVariable, startRedis } from './redis.ts';
import { makeTables } from './tables.ts';

interface Server {
  url: string;
  stop(): Promise<void>;
}

/** To be stopped last first. */
const started: Server[] = [];

/**
 * Once before all test files, whose processes inherit the variables: of PostgreSQL and Redis, what does not run is
 * started for all of them, and a database is made that they copy.
 */
export async function globalSetup(): Promise<void> {
  // Each test file loads much of the service, and need not compile it again.
  process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '../../node_modules/.cache/compile-tests');
  const postgres = await provide(sharedServerVariable, findPostgresServer, startPostgresServer);
  if (postgres !== undefined) await provideTemplate(postgres.url);
  await provide(sharedRedisVariable, findRunningRedis, startRedis);
}

/** Once after all test files. */
export async function globalTeardown(): Promise<void> {
  for (const server of started.toReversed()) await server.stop();
}

async function provide<Found>(
  variable: string,
  find: () => Promise<Found | undefined>,
  start: () => Promise<Server | undefined>,
): Promise<Found | Server | undefined> {
  const found = await find();
  if (found !== undefined) return found;
  const server = await start();
  if (server === undefined) return undefined;
  started.push(server);
  process.env[variable] = server.url;
  return server;
}

async function provideTemplate(server: string): Promise<void> {
  const template = await createDatabase(server);
  started.push(template);
  const database = openPostgres({ url: template.url, log: recordLog().log });
  await makeTables(database);
  await database.close();
  process.env[templateVariable] = new URL(template.url).pathname.slice(1);
}
