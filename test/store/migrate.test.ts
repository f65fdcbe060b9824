import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Database } from '../../src/store/database.ts';
import { compareSchema, migrate } from '../../src/store/migrate.ts';
import { openPostgres } from '../../src/store/postgres.ts';
import { recordLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('migrations', { skip: !postgres && 'no PostgreSQL' }, () => {
  let database: Database;

  before(async () => {
    database = openPostgres({ url: postgres?.url as string, log: recordLog().log });
    await migrate(database);
  });
  after(() => database.close());

  test('are all there, once, however many processes start', async () => {
    await Promise.all([migrate(database), migrate(database), migrate(database)]);
    const { applied, known, missing, foreign } = await compareSchema(database);
    assert.deepEqual({ applied, missing, foreign }, { applied: known, missing: 0, foreign: undefined });
  });

  test('are applied where their number is below others that were applied before', async () => {
    await database.execute('drop table authentication_attempts');
    await database.execute('delete from schema_migrations where version = 2');
    const { applied, known, missing } = await compareSchema(database);
    assert.deepEqual([applied, missing], [known, 1]);
    await migrate(database);
    assert.equal((await compareSchema(database)).missing, 0);
    assert.deepEqual((await database.execute('select 1 from authentication_attempts')).rows, []);
  });

  test('of a newer program are refused in words', async () => {
    await database.execute("insert into schema_migrations (version, name) values (9999, 'later')");
    await assert.rejects(
      migrate(database),
      /schema version 9999, which this program does not know: run the newer/,
    );
    assert.equal((await compareSchema(database)).foreign, 9999);
  });
});
