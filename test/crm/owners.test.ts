import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { Call } from '../../src/platform/base/call.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import type { Resource } from '../../src/records/resource.ts';
import { aCall, type CrmHarness, hasCode, quoteFor, type Replica, startCrmHarness } from './crm-harness.ts';

const owned: Resource = { ...quote, owner: { match: 'Email', else: { queue: 'Travel_Desk' } } };

let harness: CrmHarness;
/** Replica for each test, which knows no owner yet. */
let replica: Replica;
before(async () => {
  harness = await startCrmHarness();
});
beforeEach(async () => {
  replica = harness.addReplica();
  await replica.crm.tokens.getToken(aCall());
  await harness.org.resetCounters();
});
afterEach(() => harness.org.heal());
after(() => harness.stop());

const create = (call: Call) =>
  replica.crm.records.create(owned, randomUUID(), quoteFor(harness.memberId), call);

describe("a look-up of owners that was another's", () => {
  it('is made once more for all where that one had too little time', async () => {
    const slow = await harness.org.fault({ kind: 'latency', ms: 3000 }, { operation: 'composite' }, 1);
    const hurried = assert.rejects(create(aCall(1500)), hasCode('crm_timeout'));
    await harness.org.struck(slow);
    await Promise.all([hurried, create(aCall()), create(aCall()), create(aCall())]);
    assert.equal(await harness.org.calls('composite'), 2);
  });

  it('is waited for half of the time that one has oneself', async () => {
    const slow = await harness.org.fault({ kind: 'latency', ms: 3500 }, { operation: 'composite' }, 1);
    const patient = create(aCall());
    await harness.org.struck(slow);
    await Promise.all([create(aCall(3000)), create(aCall(3000))]);
    assert.equal(await harness.org.calls('composite'), 2);
    await patient;
  });

  it('is not joined where that one has calls to itself', async () => {
    const down = await harness.org.fault({ kind: 'down' }, { operation: 'composite' }, 1);
    const alone = assert.rejects(create({ ...aCall(), background: 'alone' }), hasCode('crm_unavailable'));
    await Promise.all([alone, harness.org.struck(down), create(aCall())]);
  });
});
