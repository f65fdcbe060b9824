import { join } from 'node:path';
import { copyEmptyDatabase } from './pglite.ts';
import { databaseOfAnyKind } from './postgres.ts';

/** For `env` of a gateway whose test is about the embedded database. */
export const embedded = { DATABASE_URL: '' };

/**
 * The database of a gateway's own: none where `env` names one, files in `dataDir` for `embedded`, else one of
 * PostgreSQL, since the embedded one takes several times the work.
 */
export async function provideDatabase(
  env: NodeJS.ProcessEnv,
  dataDir: string,
): Promise<{ env: NodeJS.ProcessEnv; stop(): Promise<void> }> {
  const none = { env: {}, stop: async () => {} };
  if (env.DATABASE_URL) return none;
  const postgres = env.DATABASE_URL === undefined ? await databaseOfAnyKind() : undefined;
  if (postgres) return { env: { DATABASE_URL: postgres.url }, stop: () => postgres.stop() };
  await copyEmptyDatabase(join(dataDir, 'database'));
  return none;
}
