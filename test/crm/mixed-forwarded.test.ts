import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { limitsOf } from '../../src/crm/budget/bucket.ts';
import { startCall } from '../../src/platform/base/call.ts';
import { createRedisCache } from '../../src/platform/cache/redis.ts';
import type { SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import type { Resource } from '../../src/records/resource.ts';
import { joinBudget } from '../support/call-budget.ts';
import { eventually } from '../support/eventually.ts';
import { recordLog } from '../support/log.ts';
import { startRedis } from '../support/redis.ts';
import { aCall, type CrmHarness, hasCode, quoteFor, type Replica, startCrmHarness } from './crm-harness.ts';

/*
 * Two replicas that share a call for requests of several kinds: what the one forwards goes into the other's.
 */

/** A call a second, once the burst is used up. */
const dailyCallBudget = 86_400;
const maxWaitMs = 10_000;
const redis = await startRedis();
after(() => redis?.stop());

describe('a call for requests of several kinds, of two replicas', {
  skip: !redis && 'no redis-server',
}, () => {
  let caches: SharedCache[];
  let harness: CrmHarness;
  let replicas: Replica[];
  /** Consumers of the requests in each metered call. */
  let charged: (readonly (string | undefined)[])[];

  before(async () => {
    caches = Array.from({ length: 2 }, () =>
      createRedisCache({ url: redis?.url ?? '', log: recordLog().log }),
    );
    for (const cache of caches)
      await eventually(async () => assert.ok(!(await cache.checkHealth().catch(() => true))), { everyMs: 5 });
    harness = await startCrmHarness({ cache: caches[0] as SharedCache });
    // The simulated org takes its time for the first query.
    await harness.crm.records.find(quote, randomUUID(), aCall());
    await useUpCalls();
    replicas = caches.map((cache) => harness.addReplica({ cache, dailyCallBudget, maxWaitMs }));
    // Twice, so that the first one learns of the second.
    for (const { crm } of [...replicas, ...replicas]) await crm.start();
    for (const { crm } of replicas) {
      await crm.tokens.getToken(aCall());
      crm.metered.add(async (_, sharers) => void charged.push(sharers));
    }
  });
  beforeEach(useUpCalls);
  afterEach(() => harness.org.heal());
  after(async () => {
    await harness.stop();
    for (const cache of caches) await cache.close();
  });

  /** All calls that the budget has by now: those that come back make a request go out by itself. */
  async function useUpCalls(): Promise<void> {
    await joinBudget(caches[0] as SharedCache, limitsOf(dailyCallBudget, maxWaitMs)).drain();
  }

  const recordsOf = (replica: number) => (replicas[replica] ?? assert.fail()).crm.records;
  const callOf = (replica: number) => startCall('test', `consumer ${replica}`);
  const create = (replica: number, resource: Resource, name: string) => {
    const values = quoteFor(harness.memberId, { name });
    return recordsOf(replica).createAndRead(resource, randomUUID(), values, callOf(replica));
  };
  const mixture = (replica: number, name: string) => [
    create(replica, quote, name),
    create(replica, booking, name),
    recordsOf(replica).find(quote, randomUUID(), callOf(replica)),
  ];
  const namesOf = async (object: string) =>
    (await harness.org.records(object)).map(({ Name__c: name }) => name as string);

  /** Whether both replicas are charged for one call: on a machine that is busy the other may answer too late to share it. */
  async function writesOnce(kind: 'none' | 'loseAnswer', round: number): Promise<boolean> {
    charged = [];
    if (kind !== 'none') await harness.org.fault({ kind }, { operation: 'composite' }, 1);
    const names = [`${kind} ${round} 0`, `${kind} ${round} 1`];
    const found = await Promise.all(names.flatMap((name, replica) => mixture(replica, name)));
    assert.deepEqual(
      found.map((record) => record?.values['name']),
      names.flatMap((name) => [name, name, undefined]),
    );
    for (const object of ['Quote__c', 'Booking__c']) {
      const written = (await namesOf(object)).filter((name) => name.startsWith(`${kind} ${round} `));
      assert.deepEqual(written.sort(), names);
    }
    return charged.some((consumers) => new Set(consumers).size === 2);
  }

  for (const kind of ['none', 'loseAnswer'] as const) {
    it(`gives each request its own answer, and does no write twice, with this fault: ${kind}`, async () => {
      for (let round = 0; !(await writesOnce(kind, round)); round++) {
        assert.ok(round < 10, 'no call was shared');
        await harness.org.heal();
        await useUpCalls();
      }
    });
  }

  it('refuses a record of the other replica alone', async () => {
    const when = { field: 'Name__c', equals: 'bad' };
    const trigger = { name: 'T', object: 'Quote__c', on: ['beforeInsert'], when, action: { kind: 'throw' } };
    await harness.org.automate({ triggers: [trigger] });
    const bad = [0, 1].map((replica) =>
      assert.rejects(create(replica, quote, 'bad'), hasCode('crm_rejected')),
    );
    const good = await Promise.all([0, 1].flatMap((replica) => mixture(replica, 'good')));
    assert.deepEqual(
      good.map((record) => record?.values['name']),
      ['good', 'good', undefined, 'good', 'good', undefined],
    );
    await Promise.all(bad);
    assert.equal((await namesOf('Quote__c')).filter((name) => name === 'good').length, 2);
  });
});
