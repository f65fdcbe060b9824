import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from '../../src/platform/store/database.ts';
import { migrate } from '../../src/platform/store/migrate.ts';
import { openPglite } from '../../src/platform/store/pglite.ts';
import { openPostgres } from '../../src/platform/store/postgres.ts';
import { recordLog } from './log.ts';
import { copyEmptyDatabase } from './pglite.ts';
import { databaseOfAnyKind, type PostgresDatabase, startPostgres } from './postgres.ts';
import { useStarted } from './use-started.ts';

/** A database of a test's own with empty tables. */
export interface TestDatabase {
  /** Connections to it, one for each replica: PGlite has but one. */
  replicas: [Database, ...Database[]];
  stop(): Promise<void>;
}

/** How each kind is opened, for so many replicas; undefined where there is no PostgreSQL. */
export const databaseKinds: Record<string, (replicas?: number) => Promise<TestDatabase | undefined>> = {
  PGlite: openTestPglite,
  PostgreSQL: openTestPostgres,
};

/** PostgreSQL where there is one: it takes a part of the work of the embedded database. */
export async function openTestDatabase(): Promise<TestDatabase> {
  const postgres = await databaseOfAnyKind();
  return postgres ? openOn(postgres, 1) : openTestPglite();
}

export function useTestDatabase(): TestDatabase {
  return useStarted(openTestDatabase, (opened) => opened.stop());
}

export async function openTestPglite(): Promise<TestDatabase> {
  const dir = await mkdtemp(join(tmpdir(), 'handoff-database-'));
  await copyEmptyDatabase(join(dir, 'database'));
  const database = await openPglite(join(dir, 'database'));
  await migrate(database);
  return {
    replicas: [database],
    stop: async () => {
      await database.close();
      await rm(dir, { recursive: true, maxRetries: 5 });
    },
  };
}

async function openTestPostgres(count = 1): Promise<TestDatabase | undefined> {
  const server = await startPostgres();
  return server && openOn(server, count);
}

async function openOn(server: PostgresDatabase, count: number): Promise<TestDatabase> {
  const open = () => openPostgres({ url: server.url, log: recordLog().log });
  const replicas: TestDatabase['replicas'] = [open(), ...Array.from({ length: count - 1 }, open)];
  await migrate(replicas[0]);
  return {
    replicas,
    stop: async () => {
      for (const database of replicas) await database.close();
      await server.stop();
    },
  };
}
