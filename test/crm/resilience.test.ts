import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Call, startCall } from '../../src/platform/base/call.ts';
import type { Problem } from '../../src/platform/base/problem.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import { eventually } from '../support/eventually.ts';
import {
  aCall,
  aList,
  type CrmHarness,
  hasCode,
  quoteFor,
  type Replica,
  startCrmHarness,
  total,
} from './crm-harness.ts';

let harness: CrmHarness;
let replica: Replica;
before(async () => {
  harness = await startCrmHarness();
  // The simulated org takes its time for the first query.
  await harness.crm.records.find(quote, randomUUID(), aCall());
});
beforeEach(() => {
  replica = harness.addReplica();
});
afterEach(async () => {
  await harness.org.heal();
  await harness.org.configure({ latencyMs: 0 });
});
after(() => harness.stop());

const find = (call: Call = aCall()) => replica.crm.records.find(quote, randomUUID(), call);
const of = (consumer: string) => startCall('test', consumer);
const turnedAway = (reason: string) => async () => {
  const { values } = await replica.metrics.crmTurnedAway.get();
  return values.find(({ labels }) => labels.reason === reason)?.value ?? 0;
};

describe('a CRM that is dead', () => {
  /** Asks until the breaker is open. */
  async function killed(): Promise<void> {
    await harness.org.fault({ kind: 'down' }, { path: '/services/data/' });
    await eventually(
      async () => assert.notEqual(await total(replica.metrics, 'handoff_crm_breaker_open'), 0),
      {
        pause: () => assert.rejects(find(), { code: 'crm_unavailable' }),
      },
    );
  }

  it('is not waited for: requests are refused without a call, before their keys are claimed', async () => {
    await killed();
    await harness.org.resetCounters();
    for (const refused of [find(), replica.crm.records.list(quote, aList({ limit: 1 }), aCall())])
      await assert.rejects(refused, (error: Problem) => {
        assert.equal(error.code, 'crm_unavailable');
        assert.ok((error.facts.retryAfter ?? 0) >= 1);
        return true;
      });
    assert.throws(() => replica.crm.records.admit(aCall()), { code: 'crm_unavailable' });
    assert.equal((await harness.org.counters()).metered, 0);
    assert.ok((await turnedAway('breaker')()) >= 3);
  });

  it('is asked by one call whether it is back, and then everybody gets through', async () => {
    await killed();
    await harness.org.heal();
    await harness.org.resetCounters();
    // The others are refused while one looks.
    let refusals = 0;
    await eventually(async () => {
      const outcomes = await Promise.allSettled([find(), find(), find()]);
      const refused = outcomes.filter(({ status }) => status === 'rejected').length;
      refusals += refused;
      assert.equal(refused, 0);
    });
    assert.ok(refusals > 0);
    assert.equal(await total(replica.metrics, 'handoff_crm_breaker_open'), 0);
    replica.crm.records.admit(aCall());
  });

  it('stays open for longer each time that a probe fails', async () => {
    await killed();
    await harness.org.resetCounters();
    const end = performance.now() + 3500;
    while (performance.now() < end) {
      await find().catch(() => undefined);
      await sleep(20);
    }
    // After 1 s and after 2 s more; a third look would be due after 4 s more.
    const { calls } = await harness.org.counters();
    assert.ok((calls['query'] ?? 0) <= 3, `${calls['query']} looks`);
  });

  it('is not one that refuses, is busy with too many long calls, or locks its rows', async () => {
    for (const effect of [
      { kind: 'error', status: 400, errorCode: 'INVALID_FIELD', message: 'x' },
      { kind: 'error', status: 403, errorCode: 'INSUFFICIENT_ACCESS_OR_READONLY', message: 'x' },
    ]) {
      await harness.org.fault(effect, { path: '/services/data/' });
      for (let times = 0; times < 8; times++) await assert.rejects(find(), { code: 'crm_error' });
      await harness.org.heal();
    }
    assert.equal(await find(), undefined);
    assert.equal(await total(replica.metrics, 'handoff_crm_breaker_open'), 0);
  });
});

describe('a daily quota that is used up', () => {
  it('stops calls, repeats and logins at once, and is looked at again', async () => {
    await find();
    await harness.org.fault({ kind: 'dailyLimit' }, { path: '/services/data/' });
    await assert.rejects(find(), hasCode('crm_quota_exhausted', { retryAfter: 600 }));
    await harness.org.heal();
    await harness.org.resetCounters();
    await assert.rejects(find(), hasCode('crm_quota_exhausted', { retryAfter: 60 }));
    assert.throws(() => replica.crm.records.admit(aCall()), { code: 'crm_quota_exhausted' });
    const { metered, tokensIssued } = await harness.org.counters();
    assert.deepEqual([metered, tokensIssued], [0, 0]);
    await eventually(async () =>
      assert.ok(
        !(await find().then(
          () => false,
          () => true,
        )),
      ),
    );
    replica.crm.records.admit(aCall());
  });

  it('is over when the CRM works on calls again, even if it refuses the first of them', async () => {
    await harness.org.fault({ kind: 'dailyLimit' }, { path: '/services/data/' });
    await assert.rejects(find(), { code: 'crm_quota_exhausted' });
    await harness.org.heal();
    const refuse = { kind: 'error', status: 400, errorCode: 'INVALID_FIELD', message: 'x' };
    const refusal = await harness.org.fault(refuse, { path: '/services/data/' }, 1);
    const looking = harness.org.struck(refusal);
    const looked = looking.then(() => true);
    while (!(await Promise.race([looked, sleep(20, false)]))) await find().catch(() => undefined);
    assert.deepEqual(await Promise.all([find(), find(), find()]), [undefined, undefined, undefined]);
  });

  it('keeps its reserve for writes, and for the reads that belong to them', async () => {
    replica = harness.addReplica({ quotaReserve: 100_000 });
    await find();
    await assert.rejects(find(), hasCode('crm_quota_exhausted', { retryAfter: 60 }));
    assert.equal(await find({ ...aCall(), isWrite: true }), undefined);
    await replica.crm.records.create(quote, randomUUID(), quoteFor(harness.memberId), aCall());
  });
});

describe('a queue', () => {
  beforeEach(async () => {
    replica = harness.addReplica({ maxConcurrency: 1 });
    await replica.crm.tokens.getToken(aCall());
  });
  /** Keeps the only slot busy until it is released. */
  async function blocked() {
    const fault = await harness.org.fault({ kind: 'hold' }, { object: 'Booking__c' }, 1);
    const first = replica.crm.records.find(booking, randomUUID(), aCall());
    await harness.org.struck(fault);
    return async () => {
      await harness.org.release(fault);
      await first;
    };
  }

  it('that is full for one consumer refuses it early, and admits others', async () => {
    const release = await blocked();
    const flood = Array.from({ length: 100 }, () => find(of('flood')));
    await assert.rejects(find(of('flood')), hasCode('crm_unavailable', { retryAfter: 1 }));
    assert.throws(() => replica.crm.records.admit(of('flood')), { code: 'crm_unavailable' });
    replica.crm.records.admit(of('other'));
    assert.equal((await replica.metrics.crmQueueDepth.get()).values[0]?.value, 100);
    const other = find(of('other'));
    await release();
    await Promise.all([...flood, other]);
    assert.equal(await turnedAway('queue')(), 2);
    assert.equal((await replica.metrics.crmQueueDepth.get()).values[0]?.value, 0);
  });

  it('alternates between consumers: a flood of lists does not hold up the read of another', async () => {
    const release = await blocked();
    const order: string[] = [];
    const list = (consumer: string) =>
      replica.crm.records.list(quote, aList({ limit: 1 }), of(consumer)).then(() => order.push(consumer));
    const all = [
      ...Array.from({ length: 20 }, () => list('flood')),
      list('single'),
      find(of('reader')).then(() => order.push('reader')),
    ];
    await release();
    await Promise.all(all);
    assert.ok(order.indexOf('single') <= 2, order.join());
    assert.ok(order.indexOf('reader') <= 3, order.join());
  });

  it('takes the requests of a batch from all consumers alternately', async () => {
    replica = harness.addReplica({ maxConcurrency: 3 });
    await replica.crm.tokens.getToken(aCall());
    const holds = await harness.org.fault({ kind: 'hold' }, { object: 'Booking__c' }, 3);
    const lists = [1, 2, 3].map(() => replica.crm.records.list(booking, aList({ limit: 1 }), aCall()));
    await harness.org.struck(holds, 3);
    const order: string[] = [];
    const read = (consumer: string) => find(of(consumer)).then(() => order.push(consumer));
    const all = [...Array.from({ length: 300 }, () => read('flood')), read('other')];
    await harness.org.release(holds);
    await Promise.all([...lists, ...all]);
    // In the first of the two calls that 301 reads take.
    assert.ok(order.indexOf('other') < 200);
  });
});

it('repeats are bounded by a budget, so that a CRM that fails is not asked four times as often', async () => {
  await harness.org.fault({ kind: 'concurrentLimit' }, { path: '/services/data/' });
  await harness.org.resetCounters();
  const lists = Array.from({ length: 50 }, () =>
    replica.crm.records.list(quote, aList({ limit: 1 }), aCall()),
  );
  const outcomes = await Promise.allSettled(lists);
  assert.ok(outcomes.every(({ status }) => status === 'rejected'));
  const { calls } = await harness.org.counters();
  assert.ok((calls['query'] ?? 0) < 150, `${calls['query']} calls for 50 requests`);
  assert.equal(await total(replica.metrics, 'handoff_crm_retries_total'), (calls['query'] ?? 0) - 50);
});
