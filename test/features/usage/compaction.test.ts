import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CallLedger } from '../../../src/features/usage/call-ledger.ts';
import { RequestLedger } from '../../../src/features/usage/request-ledger.ts';
import type { Attempt } from '../../../src/identity/audit/attempt.ts';
import { openTestDatabase, type TestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** What a process has counted of days ago is stored again, with more, once the sums of these days were made. */
describe('counts that a process goes on with after it was cut off for days', () => {
  let opened: TestDatabase;
  before(async () => {
    opened = await openTestDatabase();
  });
  after(() => opened.stop());

  const rowsOf = async (table: string) => {
    const { rows } = await opened.replicas[0].execute(
      `select count(*)::integer as all, count(*) filter (where process = '')::integer as sums from ${table}`,
    );
    return rows[0];
  };

  test('of calls', async () => {
    const [database] = opened.replicas;
    let now = Math.floor(Date.now() / dayMs) * dayMs - 3 * dayMs;
    const [cutOff, other] = [0, 1].map(() => new CallLedger(database, recordLog().log, () => now)) as [
      CallLedger,
      CallLedger,
    ];
    const total = async (ledger: CallLedger) =>
      (await ledger.read({ by: 'consumer', from: 0, to: Number.MAX_SAFE_INTEGER / hourMs })).total;
    const note = async (ledger: CallLedger) => {
      ledger.note('query', ['shop', 'shop']);
      await total(ledger);
    };
    for (const _ of ['an hour', 'the next']) {
      for (const ledger of [cutOff, other]) await note(ledger);
      now += hourMs;
    }
    now -= hourMs;
    await note(cutOff);
    await other.compact();
    assert.deepEqual(await rowsOf('crm_usage'), { all: 3, sums: 1 });
    await note(cutOff);
    await other.compact();
    assert.equal(await total(other), 6);
    now = Date.now();
    for (const ledger of [cutOff, other]) await note(ledger);
    await other.compact();
    assert.equal(await total(other), 8);
    assert.deepEqual(await rowsOf('crm_usage'), { all: 4, sums: 2 });
    await Promise.all([cutOff.stop(), other.stop()]);
  });

  test('of requests', async () => {
    const [database] = opened.replicas;
    let now = Math.floor(Date.now() / dayMs) * dayMs - 4 * dayMs;
    const [cutOff, other] = [0, 1].map(() => new RequestLedger(database, recordLog().log, () => now)) as [
      RequestLedger,
      RequestLedger,
    ];
    const total = async (ledger: RequestLedger) => {
      const days = await ledger.ofConsumer('shop', 0, 1_000_000);
      return days.reduce((sum, day) => sum + day['2xx'], 0);
    };
    const note = async (ledger: RequestLedger) => {
      ledger.note({ consumer_id: 'shop', result: 'accepted', status: 200 } as Attempt);
      await total(ledger);
    };
    for (const _ of ['a day', 'the next']) {
      for (const ledger of [cutOff, other]) await note(ledger);
      now += dayMs;
    }
    now -= dayMs;
    await other.compact();
    assert.deepEqual(await rowsOf('consumer_requests'), { all: 3, sums: 1 });
    await note(cutOff);
    await other.compact();
    assert.equal(await total(other), 5);
    now = Date.now();
    for (const ledger of [cutOff, other]) await note(ledger);
    await other.compact();
    assert.equal(await total(other), 7);
    assert.deepEqual(await rowsOf('consumer_requests'), { all: 4, sums: 2 });
    await Promise.all([cutOff.stop(), other.stop()]);
  });
});
