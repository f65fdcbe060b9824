import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { AttemptArchive } from '../../src/consumers/attempt-archive.ts';
import { createAttemptIds, firstAttemptIdOf } from '../../src/consumers/attempt-id.ts';
import { createAttemptTable, type StoredAttempt } from '../../src/consumers/attempt-table.ts';
import type { Attempt } from '../../src/consumers/attempts.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import type { Database } from '../../src/store/database.ts';
import { migrate } from '../../src/store/migrate.ts';
import { openPostgres } from '../../src/store/postgres.ts';
import { recordLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

const attempt = (n: number, change: Partial<Attempt> = {}): Attempt => ({
  consumer_id: 'con_0000000000000000',
  endpoint: 'GET /v1/quotes',
  result: 'accepted',
  timestamp: new Date(Date.parse('2027-03-01T08:00:00.000Z') + n).toISOString(),
  request_id: `request-${n}`,
  ...change,
});

/** An archive over a database that can be away and answers when it is told to. */
function archiveOf() {
  const stored: StoredAttempt[] = [];
  const sizes: number[] = [];
  let away = false;
  const metrics = createMetrics();
  const { log, lines } = recordLog();
  const archive = new AttemptArchive({
    table: {
      add: async (attempts) => {
        if (away) throw new Error('the database is away');
        sizes.push(attempts.length);
        stored.push(...attempts);
      },
    },
    log,
    metrics,
  });
  const dropped = async () => (await metrics.auditAttemptsDropped.get()).values[0]?.value;
  const setAway = (value: boolean) => {
    away = value;
  };
  return { archive, stored, sizes, lines, dropped, setAway };
}

describe('the archive of attempts', () => {
  it('writes in batches of 500 at most, in order, and what is left when it stops', async () => {
    const { archive, stored, sizes } = archiveOf();
    for (let i = 0; i < 1200; i++) archive.record(attempt(i));
    await archive.stop();
    assert.deepEqual(
      stored.map(({ request_id }) => request_id),
      Array.from({ length: 1200 }, (_, i) => `request-${i}`),
    );
    assert.deepEqual(sizes, [500, 500, 200]);
  });

  it('loses nothing within its bound while the database is away', async () => {
    const { archive, stored, lines, dropped, setAway } = archiveOf();
    setAway(true);
    for (let i = 0; i < 50_000; i++) {
      archive.record(attempt(i));
      if (i % 7001 === 0) await assert.rejects(archive.flush(), /away/);
    }
    assert.equal(await dropped(), 0);
    setAway(false);
    await archive.stop();
    assert.equal(new Set(stored.map(({ request_id }) => request_id)).size, 50_000);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn', 'info'],
    );
  });

  it('drops the oldest beyond its bound, counts them, and says at the end what was lost', async () => {
    const { archive, stored, lines, dropped, setAway } = archiveOf();
    setAway(true);
    for (let i = 0; i < 60_000; i++) archive.record(attempt(i));
    const lost = (await dropped()) ?? 0;
    assert.ok(lost >= 8500 && lost <= 10_000, String(lost));
    await archive.stop();
    assert.deepEqual(stored, []);
    assert.equal(lines.at(-1)?.facts['attempts'], 60_000 - lost);
  });
});

describe('the table of attempts', { skip: !postgres && 'no PostgreSQL' }, () => {
  let database: Database;
  before(async () => {
    database = openPostgres({ url: postgres?.url ?? '', log: recordLog().log });
    await migrate(database);
  });
  after(() => database.close());

  it('keeps a batch once that is sent twice', async () => {
    const table = createAttemptTable(database);
    const newId = createAttemptIds();
    const batch = [1, 2, 3].map((n) => ({ id: newId(attempt(n).timestamp), ...attempt(n) }));
    await table.add(batch);
    await table.add(batch);
    assert.deepEqual(await table.list({ limit: 10 }), batch.reverse());
  });

  it('deletes what is older than the days of the setting, to the millisecond', async () => {
    const table = createAttemptTable(database);
    const day = 86_400_000;
    const now = Date.parse(attempt(3).timestamp) + 90 * day;
    assert.equal(await table.deleteOlderThan(90, now), 2);
    const left = await table.list({ limit: 10 });
    assert.deepEqual(
      left.map(({ request_id }) => request_id),
      ['request-3'],
    );
  });
});

describe('ids of attempts', () => {
  it('are different, and in the order of time', () => {
    const newIds = [createAttemptIds(), createAttemptIds()];
    const at = (ms: number) => new Date(ms).toISOString();
    const ids = Array.from(
      { length: 9000 },
      (_, i) => newIds[i % 2]?.(at(1_800_000_000_000 + (i % 3))) ?? '',
    );
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids)
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const first = firstAttemptIdOf(1_800_000_000_001);
    for (const [i, id] of ids.entries()) assert.equal(id >= first, i % 3 >= 1);
  });
});
