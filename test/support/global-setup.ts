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
 * Once before all test files, whose processes inherit the variables. PostgreSQL is started for all of them unless
 * DATABASE_URL names one: that which runs already may take too few connections for several test files, and waits for its
 * disk. Redis is started where none runs. A database is made that they copy.
 */
export async function globalSetup(): Promise<void> {
  // Each test file loads much of the service, and need not compile it again.
  process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '../../node_modules/.cache/compile-tests');
  const isGiven = (process.env[sharedServerVariable] ?? process.env['DATABASE_URL']) !== undefined;
  const postgres = isGiven
    ? await findPostgresServer()
    : ((await provide(sharedServerVariable, startPostgresServer)) ?? (await findPostgresServer()));
  if (postgres !== undefined) await provideTemplate(postgres.url);
  if ((await findRunningRedis()) === undefined) await provide(sharedRedisVariable, startRedis);
}

/** Once after all test files. */
export async function globalTeardown(): Promise<void> {
  for (const server of started.toReversed()) await server.stop();
}

/** Undefined where its programs are not installed. */
async function provide(
  variable: string,
  start: () => Promise<Server | undefined>,
): Promise<Server | undefined> {
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
