import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { Client } from 'pg';
import type { Database } from '../../../src/platform/store/database.ts';
import { isReadOnly, isUnavailable } from '../../../src/platform/store/failures.ts';
import { migrate } from '../../../src/platform/store/migrate.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { recordLog } from '../../support/log.ts';
import { startPostgres } from '../../support/postgres.ts';

const server = await startPostgres();
after(() => server?.stop());

describe('a connection to a server that takes no writes', { skip: !server && 'no PostgreSQL' }, () => {
  let database: Database;
  let administrator: Client;

  before(async () => {
    database = openPostgres({ url: server?.url ?? '', log: recordLog().log, maxConnections: 1 });
    administrator = new Client({
      connectionString: server?.url,
      options: '-c default_transaction_read_only=off',
    });
    await administrator.connect();
    await migrate(database);
  });
  after(async () => {
    await administrator.end();
    await database.close();
  });

  /** For connections that are made from now on. */
  const setReadOnly = (state: 'on' | 'off') =>
    administrator.query(
      `do $$ begin
        execute format('alter database %I set default_transaction_read_only = ${state}', current_database());
      end $$`,
    );
  /** Closes what the database has open, so that its next connection is a new one. */
  const disconnect = () =>
    administrator.query(
      `select pg_terminate_backend(pid, 10000) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    );
  const write = (kind: 'sql' | 'bulk') =>
    database[kind].transaction().execute((transaction) => sql`delete from locks`.execute(transaction));

  const uses: Record<string, () => Promise<unknown>> = {
    'a write of a request': () => write('sql'),
    'a write of a job': () => write('bulk'),
    'a statement of the job queue': () => database.execute('delete from locks'),
    'the look at its health': () => database.checkHealth(),
    'a migration': () => migrate(database),
  };
  for (const [name, use] of Object.entries(uses)) {
    test(`is closed after ${name}, and the next one writes`, async () => {
      await setReadOnly('on');
      await disconnect();
      await assert.rejects(use(), (error) => isReadOnly(error) && isUnavailable(error));
      await setReadOnly('off');
      await use();
    });
  }
});
