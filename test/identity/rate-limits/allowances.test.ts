import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { type AllowanceNotice, Allowances } from '../../../src/identity/rate-limits/allowances.ts';
import { openTestDatabase, type TestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';

/** Two replicas at one database, with a clock of their own. */
describe('allowances of several replicas', () => {
  let opened: TestDatabase;
  let now = 0;
  const running: Allowances[] = [];
  before(async () => {
    opened = await openTestDatabase();
  });
  after(() => opened.stop());
  afterEach(async () => {
    for (const replica of running.splice(0)) await replica.stop();
  });
  async function startReplica(): Promise<Allowances> {
    const [database] = opened.replicas;
    const replica = new Allowances({ database, log: recordLog().log, isUsed: () => true, clock: () => now });
    running.push(replica);
    await replica.start();
    return replica;
  }
  const take = (replica: Allowances, id: string, per: 'day' | 'month', times = 1, requests = 10) => {
    let state: ReturnType<Allowances['take']>;
    for (let taken = 0; taken < times; taken++) state = replica.take({ id, allowance: { requests, per } });
    assert.ok(state);
    return state;
  };
  const stored = (replica: Allowances, id: string, per: 'day' | 'month' = 'month') =>
    replica.used({ id, allowance: { requests: 10, per } });

  test('one that has counted nothing refuses its first request beyond what the others have counted', async () => {
    now = Date.UTC(2026, 10, 24, 12);
    const [one, other] = [await startReplica(), await startReplica()];
    assert.equal(take(one, 'con_idle', 'month', 10).allowed, true);
    await stored(one, 'con_idle');
    await other.refresh();
    assert.deepEqual(take(other, 'con_idle', 'month'), {
      ...{ requests: 10, per: 'month', used: 10, allowed: false },
      resets_at: '2026-12-01T00:00:00.000Z',
    });
    // One that has counted before the others have.
    const third = await startReplica();
    take(third, 'con_idle', 'month', 1, 12);
    await stored(third, 'con_idle');
    await one.refresh();
    assert.equal(take(one, 'con_idle', 'month', 1, 12).used, 12);
  });

  test('the day turns at midnight UTC, and the month at its end, also where nothing was counted for days', async () => {
    now = Date.UTC(2026, 10, 29, 23, 59, 59, 999);
    const [one, other] = [await startReplica(), await startReplica()];
    take(one, 'con_day', 'day', 10);
    take(one, 'con_month', 'month', 4);
    take(other, 'con_month', 'month', 3);
    assert.equal(take(one, 'con_day', 'day').allowed, false);
    assert.equal(one.secondsUntil(take(one, 'con_day', 'day')), 1);
    await stored(one, 'con_month');
    await stored(other, 'con_month');
    now += 1;
    assert.deepEqual([take(one, 'con_day', 'day').used, take(other, 'con_month', 'month').used], [1, 8]);
    // Of the day before, which is stored late.
    await one.refresh();
    await other.refresh();
    assert.equal(take(one, 'con_month', 'month').used, 8);
    await stored(one, 'con_month');
    assert.equal((await stored(other, 'con_month'))?.used, 9);
    now = Date.UTC(2026, 11, 1);
    const third = await startReplica();
    for (const replica of [one, other, third]) {
      await replica.refresh();
      assert.equal((await stored(replica, 'con_month'))?.used, 0);
    }
    assert.equal(take(one, 'con_month', 'month').resets_at, '2027-01-01T00:00:00.000Z');
  });

  test('most of it is told by whichever replica learns of it, and given once', async () => {
    now = Date.UTC(2026, 10, 24, 12);
    const [one, other] = [await startReplica(), await startReplica()];
    const told: AllowanceNotice[] = [];
    for (const replica of [one, other])
      replica.onNotice(async (notice) => {
        if (await replica.claimNotice(opened.replicas[0].sql, notice)) told.push(notice);
      });
    take(one, 'con_told', 'day', 4);
    take(other, 'con_told', 'day', 4);
    await stored(one, 'con_told', 'day');
    await stored(other, 'con_told', 'day');
    await Promise.all([one.refresh(), other.refresh()]);
    await Promise.all([one.refresh(), other.refresh()]);
    const mine = told.filter(({ consumerId }) => consumerId === 'con_told');
    assert.deepEqual(
      mine.map(({ state, period }) => [state.per, state.requests, period]),
      [['day', 10, '2026-11-24']],
    );
  });

  test('what one has counted that was cut off for days counts once', async () => {
    const [database] = opened.replicas;
    now = Date.now() - 4 * 86_400_000;
    const [cutOff, other] = [await startReplica(), await startReplica()];
    const rows = async () => {
      const found = await database.execute(
        `select sum(requests)::integer as used, count(*) filter (where process = '')::integer as sums
         from allowance_uses where consumer_id = 'con_late'`,
      );
      return found.rows[0];
    };
    const takeDaily = async (replica: Allowances) => {
      take(replica, 'con_late', 'day');
      await stored(replica, 'con_late');
    };
    for (const replica of [cutOff, other]) await takeDaily(replica);
    now += 86_400_000;
    for (const replica of [cutOff, other]) await takeDaily(replica);
    await other.compact();
    assert.deepEqual(await rows(), { used: 4, sums: 1 });
    await takeDaily(cutOff);
    await other.compact();
    assert.deepEqual(await rows(), { used: 5, sums: 1 });
  });
});
