import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { Client } from 'pg';
import type { Database } from '../../../src/platform/store/database.ts';
import { isLocked, isUnavailable } from '../../../src/platform/store/failures.ts';
import { compareSchema, migrate } from '../../../src/platform/store/migrate.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { recordLog } from '../../support/log.ts';
import { startPostgres } from '../../support/postgres.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const postgres = await startPostgres({ empty: true });
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
    const { applied, known, missing, refusal } = await compareSchema(database);
    assert.deepEqual({ applied, missing, refusal }, { applied: known, missing: 0, refusal: undefined });
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

  test('take rows of the earlier version whose start no calendar has', async () => {
    const starts = {
      '2026-12-31T23:30:00.000Z': '2027-01-01T01:00:00.000Z',
      '0000-01-01T00:00:00.000Z': undefined,
      'Invalid Date': undefined,
    };
    await database.execute('alter table reservations drop column ends_at, drop column erased_at');
    await database.execute('delete from schema_migrations where version = 9');
    for (const startAt of Object.keys(starts)) {
      const ordered = JSON.stringify({ table: { startAt, durationMinutes: 90 } });
      await database.execute(
        `insert into reservations (id, state, ordered, partner, table_token, fence, lease_until, next_attempt_at,
          created_at, updated_at)
        values (gen_random_uuid(), 'refused', $1, 'dining', gen_random_uuid(), 1, now(), now(), now(), now())`,
        [ordered],
      );
    }
    await migrate(database);
    const { rows } = await database.execute(
      "select ordered #>> '{table,startAt}' as start, ends_at from reservations",
    );
    const ends = (rows as { start: string; ends_at: Date | null }[]).map((row) => [
      row.start,
      row.ends_at?.toISOString(),
    ]);
    assert.deepEqual(Object.fromEntries(ends), starts);
  });

  const migrateThroughProxy = async (t: TestContext) => {
    const proxy = await startTcpProxy(postgres?.url as string);
    const through = openPostgres({ url: proxy.url, log: recordLog().log });
    t.after(async () => {
      await through.close();
      await proxy.close();
    });
    const hold = proxy.holdRequests('pg_advisory_xact_lock');
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const migrating = migrate(through);
    migrating.catch(() => {});
    await hold.hit();
    return { hold, proxy, migrating };
  };

  test('take as long as they need, and so does the wait for another process', async (t) => {
    const { hold, migrating } = await migrateThroughProxy(t);
    t.mock.timers.tick(3_600_000);
    hold.release();
    await migrating;
  });

  test('end where the server goes away meanwhile, and may be tried again', async (t) => {
    const { proxy, migrating } = await migrateThroughProxy(t);
    await proxy.cut();
    await assert.rejects(migrating, isUnavailable);
  });

  test('wait 12 seconds for a table at most, and then say so', async () => {
    const seen = `
      create table seen as select name, setting from pg_settings where name in ('statement_timeout', 'lock_timeout')`;
    await database.migrate(() => [seen]);
    const { rows } = await database.execute('select name, setting from seen order by name');
    await database.execute('drop table seen');
    assert.deepEqual(rows, [
      { name: 'lock_timeout', setting: '12000' },
      { name: 'statement_timeout', setting: '0' },
    ]);
    const other = new Client({ connectionString: postgres?.url });
    await other.connect();
    await other.query('begin; lock table locks');
    const migrating = database.migrate(() => ['set local lock_timeout = 1', 'lock table locks']);
    await assert.rejects(migrating, isLocked);
    await other.end();
  });

  const add = (oldest: string) =>
    database.execute(`insert into schema_migrations values (9999, 'later', now(), ${oldest})`);
  const remove = () => database.execute('delete from schema_migrations where version = 9999');

  test('of a newer program are taken where they say that this one runs on them', async () => {
    const { known } = await compareSchema(database);
    await add(String(known));
    await migrate(database);
    assert.deepEqual(await compareSchema(database), { applied: 9999, known, missing: 0, refusal: undefined });
    await remove();
  });

  test('of several newer programs are refused with the version that the database has', async () => {
    const { known } = await compareSchema(database);
    await database.execute(
      `insert into schema_migrations values (9997, 'a', now(), 9997), (9998, 'b', now(), 9996),
       (9999, 'c', now(), ${known})`,
    );
    const { refusal } = await compareSchema(database);
    await database.execute('delete from schema_migrations where version > 9000');
    assert.equal(
      refusal,
      `The database has schema version 9999, too new for this program, which has version ${known}: ` +
        'run a program with schema version 9997 or newer, or restore a backup from before migration 9997.',
    );
  });

  for (const [oldest, advice] of [
    ['9998', 'run a program with schema version 9998 or newer'],
    ['null', 'run the newer program'],
  ] as const) {
    test(`of a newer program are refused in words otherwise: ${oldest}`, async () => {
      await add(oldest);
      const { refusal = '', known } = await compareSchema(database);
      assert.equal(
        refusal,
        `The database has schema version 9999, too new for this program, which has version ${known}: ` +
          `${advice}, or restore a backup from before migration 9999.`,
      );
      await assert.rejects(migrate(database), { message: refusal });
      await remove();
    });
  }
});
