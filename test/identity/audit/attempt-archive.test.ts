import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Attempt } from '../../../src/identity/audit/attempt.ts';
import { createAttemptIds, firstAttemptIdOf } from '../../../src/identity/audit/attempt.ts';
import { AttemptArchive, OwnEntries } from '../../../src/identity/audit/attempt-archive.ts';
import {
  AttemptTable,
  forgetPersonInAttempts,
  type StoredAttempt,
  type StoredTotal,
} from '../../../src/identity/audit/attempt-table.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { migrate } from '../../../src/platform/store/migrate.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { recordLog } from '../../support/log.ts';
import { startPostgres } from '../../support/postgres.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

const attempt = (n: number, change: Partial<Attempt> = {}): Attempt => ({
  consumer_id: 'con_0000000000000000',
  endpoint: 'GET /v1/quotes',
  result: 'accepted',
  timestamp: new Date(Date.parse('2027-03-01T08:00:00.000Z') + n).toISOString(),
  request_id: `request-${n}`,
  address: '192.0.2.1',
  user_agent: 'test',
  api_key: null,
  person: null,
  status: 200,
  ...change,
});

/** An archive over a database that can be unavailable and answers on demand. */
function archiveOf(own: Pick<OwnEntries, 'take'> = { take: () => true }) {
  const stored: StoredAttempt[] = [];
  const totals = new Map<string, StoredTotal>();
  const sizes: number[] = [];
  let isUnavailable = false;
  const metrics = createMetrics();
  const { log, lines } = recordLog();
  const archive = new AttemptArchive({
    table: {
      add: async (attempts) => {
        if (isUnavailable) throw new Error('the database is unavailable');
        sizes.push(attempts.length);
        stored.push(...attempts);
      },
      addTotals: async (added) => {
        if (isUnavailable) throw new Error('the database is unavailable');
        for (const total of added) totals.set(total.id, total);
      },
    },
    log,
    metrics,
    own,
  });
  const dropped = async () => (await metrics.auditAttemptsDropped.get()).values[0]?.value;
  const setUnavailable = (value: boolean) => {
    isUnavailable = value;
  };
  return { archive, stored, totals, sizes, lines, dropped, setUnavailable };
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

  it('loses nothing within its bound while the database is unavailable', async () => {
    const { archive, stored, lines, dropped, setUnavailable } = archiveOf();
    setUnavailable(true);
    for (let i = 0; i < 50_000; i++) {
      archive.record(attempt(i));
      if (i % 7001 === 0) await assert.rejects(archive.flush(), /unavailable/);
    }
    assert.equal(await dropped(), 0);
    setUnavailable(false);
    await archive.stop();
    assert.equal(new Set(stored.map(({ request_id }) => request_id)).size, 50_000);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn', 'info'],
    );
  });

  it('adds up what is alike in all but time, request and client where it has no entry of its own', async () => {
    const { archive, stored, totals } = archiveOf({ take: (owner) => owner !== 'con_0000000000000000' });
    const kinds: Partial<Attempt>[] = [
      {},
      { status: 404 },
      { endpoint: 'GET /v1/quotes/:id' },
      { address: '192.0.2.2' },
      { api_key: 'hgk_other' },
      { person: 'ana@example.com' },
    ];
    for (let i = 0; i < 600; i++) archive.record(attempt(i, kinds[i % kinds.length]));
    archive.record(attempt(60_000));
    archive.record(attempt(0, { consumer_id: 'con_1111111111111111' }));
    await archive.stop();
    const shown = (one: Attempt) => [one.status, one.endpoint, one.address, one.api_key, one.person];
    const sums = [...totals.values()];
    assert.deepEqual(
      sums.sort((a, b) => (a.id < b.id ? -1 : 1)).map((sum) => [...shown(sum), sum.minute, sum.count]),
      [
        ...kinds.map((kind) => [...shown(attempt(0, kind)), '2027-03-01T08:00:00.000Z', 100]),
        [...shown(attempt(0)), '2027-03-01T08:01:00.000Z', 1],
      ],
    );
    assert.deepEqual(
      stored.map(({ consumer_id }) => consumer_id),
      ['con_1111111111111111'],
    );
  });

  it('drops the oldest beyond its bound, counts them, and says at the end what was lost', async () => {
    const { archive, stored, lines, dropped, setUnavailable } = archiveOf();
    setUnavailable(true);
    for (let i = 0; i < 60_000; i++) archive.record(attempt(i));
    const lost = (await dropped()) ?? 0;
    assert.ok(lost >= 8500 && lost <= 10_000, String(lost));
    await archive.stop();
    assert.deepEqual(stored, []);
    assert.equal(lines.at(-1)?.facts['attempts'], 60_000 - lost);
  });

  it('adds up what comes from addresses over their limit, by minute and result, and says the first', async () => {
    const { archive, stored, totals } = archiveOf();
    const from = (address: string, n: number, result: Attempt['result'] = 'unknown_key') =>
      archive.record(attempt(n, { sum: { by: 'network', name: address }, result }));
    for (let n = 0; n < 100; n++) from('192.0.2.1', n);
    await archive.flush();
    for (let n = 100; n < 150; n++) from('192.0.2.1', n);
    from('192.0.2.1', 150, 'missing');
    from('192.0.2.2', 151);
    from('192.0.2.1', 60_000);
    archive.record(attempt(152));
    await archive.stop();
    assert.deepEqual(
      [...totals.values()].map(({ request_id, minute, result, name, count }) => [
        ...[request_id, minute, result, name, count],
      ]),
      [
        ['request-0', '2027-03-01T08:00:00.000Z', 'unknown_key', '192.0.2.1', 150],
        ['request-150', '2027-03-01T08:00:00.000Z', 'missing', '192.0.2.1', 1],
        ['request-151', '2027-03-01T08:00:00.000Z', 'unknown_key', '192.0.2.2', 1],
        ['request-60000', '2027-03-01T08:01:00.000Z', 'unknown_key', '192.0.2.1', 1],
      ],
    );
    assert.equal(stored.length, 1);
  });

  it('adds up in bounded memory however many addresses there are, and loses none', async () => {
    const { archive, totals, dropped } = archiveOf();
    for (let n = 0; n < 50_000; n++) {
      archive.record(
        attempt(n, { sum: { by: 'network', name: `2001:db8:0:${n.toString(16)}` }, result: 'missing' }),
      );
    }
    await archive.stop();
    assert.equal(totals.size, 10_001);
    const others = [...totals.values()].find(({ name }) => name === null);
    assert.equal(others?.count, 40_000);
    assert.equal(await dropped(), 0);
  });

  it('holds a bounded number of sums over many minutes without the database, and counts what it drops', async () => {
    const { archive, lines, dropped, setUnavailable } = archiveOf();
    setUnavailable(true);
    const minutes = 2000;
    for (let minute = 0; minute < minutes; minute++) {
      for (let n = 0; n < 20; n++) {
        const change = { sum: { by: 'network', name: `198.51.100.${n}` }, result: 'missing' } as const;
        archive.record(attempt(minute * 60_000, change));
      }
    }
    await archive.stop();
    const lost = (await dropped()) ?? 0;
    assert.equal(lost, 500);
    assert.equal(lines.at(-1)?.facts['attempts'], minutes * 20 - lost);
  });
});

describe('entries of their own', () => {
  it('are a burst for each owner, and one of all together', () => {
    const own = new OwnEntries();
    const taken = (owner: string, times: number) =>
      Array.from({ length: times }, () => own.take(owner)).filter(Boolean).length;
    const ofOwners = ['a', 'b', 'c', 'd', 'e', 'f'].map((owner) => taken(owner, 6000));
    // Some more each second.
    for (const count of ofOwners.slice(0, 3)) assert.ok(count >= 5000 && count < 5100, String(count));
    const all = ofOwners.reduce((sum, count) => sum + count, 0);
    assert.ok(all >= 20_000 && all < 20_200, String(all));
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
    const table = new AttemptTable(database);
    const newId = createAttemptIds();
    const batch = [1, 2, 3].map((n) => ({ id: newId(attempt(n).timestamp), ...attempt(n) }));
    await table.add(batch);
    await table.add(batch);
    const listed = batch.map((each) => ({ ...each, count: 1 }));
    assert.deepEqual(await table.list({ limit: 10 }), listed.reverse());
  });

  it('has the sums of all replicas in one row, however often each is sent', async () => {
    const table = new AttemptTable(database);
    const minute = '2027-03-02T08:00:00.000Z';
    const timestamps = [1, 2, 3, 4].map((n) => `2027-03-02T08:00:00.10${n}Z`);
    const ids = timestamps.map(createAttemptIds());
    const totalOf = (n: number, count: number, change: Partial<StoredTotal> = {}): StoredTotal => ({
      ...attempt(n, { timestamp: timestamps[n - 1] ?? '', result: 'missing' }),
      id: ids[n - 1] ?? '',
      ...{ minute, by: 'network', name: '192.0.2.1', count, ...change },
    });
    await table.addTotals([totalOf(1, 5), totalOf(2, 9, { name: null })]);
    await table.addTotals([totalOf(3, 7)]);
    await table.addTotals([totalOf(1, 6)]);
    await table.addTotals([totalOf(1, 5)]);
    await table.addTotals([totalOf(4, 1, { name: null }), totalOf(3, 7)]);
    const listed = await table.list({ limit: 10, since: Date.parse(minute) });
    assert.deepEqual(
      listed.map(({ request_id, timestamp, count }) => [request_id, timestamp, count]),
      [
        ['request-2', '2027-03-02T08:00:00.102Z', 10],
        ['request-1', '2027-03-02T08:00:00.101Z', 13],
      ],
    );
  });

  it('counts once what was stored although the answer was lost', async () => {
    const table = new AttemptTable(database);
    let isLost = true;
    const archive = new AttemptArchive({
      table: {
        add: (attempts) => table.add(attempts),
        addTotals: async (totals) => {
          await table.addTotals(totals);
          if (isLost) throw new Error('the connection is gone');
        },
      },
      log: recordLog().log,
      metrics: createMetrics(),
    });
    const timestamp = '2027-03-03T08:00:00.000Z';
    const record = (n: number) =>
      archive.record(attempt(n, { timestamp, sum: { by: 'network', name: '192.0.2.1' }, result: 'expired' }));
    for (let n = 0; n < 10; n++) record(n);
    await assert.rejects(archive.flush(), /gone/);
    isLost = false;
    record(10);
    await archive.stop();
    const listed = await table.list({ limit: 10, result: 'expired' });
    assert.deepEqual(
      listed.map(({ request_id, count }) => [request_id, count]),
      [['request-0', 11]],
    );
  });

  it('knows whether other consumers than some have ever called', async () => {
    const table = new AttemptTable(database);
    assert.equal(await table.hasOthersThan([]), true);
    assert.equal(await table.hasOthersThan(['con_0000000000000000']), false);
  });

  it('deletes what is older than the days of the setting, to the millisecond', async () => {
    const table = new AttemptTable(database);
    const day = 86_400_000;
    const now = Date.parse(attempt(3).timestamp) + 90 * day;
    assert.equal(await table.deleteOlderThan(90, now), 2);
    const left = await table.list({ limit: 10, result: 'accepted' });
    assert.deepEqual(
      left.map(({ request_id }) => request_id),
      ['request-3'],
    );
  });

  it('has alike attempts of all replicas in one row, and those of one consumer that are too many kinds', async () => {
    const table = new AttemptTable(database);
    const minute = '2027-02-06T08:00:00.000Z';
    const newId = createAttemptIds();
    const total = (n: number, name: string | null, count: number): StoredTotal => ({
      ...attempt(n, {
        timestamp: `2027-02-06T08:00:00.00${n}Z`,
        consumer_id: 'con_alike',
        result: 'expired',
      }),
      ...{ id: newId(`2027-02-06T08:00:00.00${n}Z`), minute, by: 'alike', name, count },
    });
    await table.addTotals([total(1, 'one', 5), total(2, 'two', 7), total(3, null, 1)]);
    await table.addTotals([total(4, 'one', 6), total(5, null, 2)]);
    const listed = await table.list({ limit: 3, consumer_id: 'con_alike' });
    assert.deepEqual(
      listed.map(({ request_id, count }) => [request_id, count]),
      [
        ['request-3', 3],
        ['request-2', 7],
        ['request-1', 11],
      ],
    );
  });

  it('does not name a person who was forgotten after the attempt, whenever it is written', async () => {
    const table = new AttemptTable(database);
    const newId = createAttemptIds();
    const minute = '2027-03-04T08:00:00.000Z';
    const consumer_id = 'con_forgetting';
    const by = (person: string, n: number, year: number) => {
      const timestamp = `${year}-03-04T08:00:00.00${n}Z`;
      return { ...attempt(n, { timestamp, person, consumer_id }), id: newId(timestamp) };
    };
    await table.add([by('gone@example.com', 1, 2020)]);
    assert.equal(await forgetPersonInAttempts(database, 'Gone@example.com'), 1);
    await table.add([by('gone@EXAMPLE.com', 2, 2020), by('stays@example.com', 3, 2020)]);
    await table.addTotals([
      { ...by('gone@example.com', 4, 2020), minute, by: 'alike', name: 'four', count: 2 },
    ]);
    await table.add([by('gone@example.com', 5, 2999)]);
    const named = async () => {
      const listed = await table.list({ limit: 10, consumer_id });
      return Object.fromEntries(listed.map(({ request_id, person }) => [request_id.at(-1), person]));
    };
    const others = { 3: 'stays@example.com', 5: 'gone@example.com' };
    assert.deepEqual(await named(), { 1: null, 2: null, 4: null, ...others });
    await table.deleteOlderThan(1, Date.parse('2999-01-01T00:00:00.000Z'));
    await table.add([by('gone@example.com', 6, 2999)]);
    const { rows } = await database.execute('select from forgotten_people');
    assert.deepEqual([rows.length, await named()], [0, { 5: 'gone@example.com', 6: 'gone@example.com' }]);
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
