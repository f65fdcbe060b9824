import {
  findPostgresServer,
  type PostgresServer,
  sharedServerVariable,
  startPostgresServer,
} from './postgres.ts';

let started: PostgresServer | undefined;

/** Once before all test files: where no PostgreSQL runs, one is started for all of them. */
export async function globalSetup(): Promise<void> {
  if ((await findPostgresServer()) !== undefined) return;
  started = await startPostgresServer();
  if (started !== undefined) process.env[sharedServerVariable] = started.url;
}

/** Once after all test files. */
export async function globalTeardown(): Promise<void> {
  await started?.stop();
}
