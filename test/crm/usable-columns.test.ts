import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, describe, it } from 'node:test';
import { CrmFailure } from '../../src/crm/failure.ts';
import { sendUsable, UsableColumns, usedOf } from '../../src/crm/usable-columns.ts';
import { type Call, startCall } from '../../src/platform/base/call.ts';
import { resourcesOf } from '../../src/records/mapping.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { aCall, aList, type CrmHarness, hasCode, quoteFor, startCrmHarness } from './crm-harness.ts';

const columns = ['Quote__c.Consumer_Id__c', 'Quote__c.Consumer_Name__c', 'Quote__c.Actor__c'];

/** A call of a consumer that sees all quotes, or only its own. */
function callOf(consumerId: string, records: 'all' | 'own' = 'all'): Call {
  const visible = () => (records === 'all' ? records : { consumerId });
  return { ...startCall('test', consumerId), consumerName: 'Partner A', actor: 'marta@example.com', visible };
}

describe('an org that lacks columns', () => {
  let harness: CrmHarness;
  before(async () => {
    harness = await startCrmHarness();
  });
  after(() => harness.stop());
  afterEach(() => harness.org.configure({ missingFields: [] }));
  const create = (call = callOf('con_1'), { records } = harness.crm) =>
    records.createAndRead(quote, randomUUID(), quoteFor(harness.memberId), call);

  it('takes records without them, each once, also in a batch', async () => {
    await harness.org.configure({ missingFields: columns });
    const { crm, lines } = harness.addReplica();
    const made = await Promise.all(Array.from({ length: 12 }, () => create(callOf('con_1'), crm)));
    assert.equal(made.length, 12);
    assert.ok(
      made.every((record) => record?.values['name'] === 'Hotel Astoria' && record.values['actor'] === null),
    );
    assert.equal((await harness.org.records('Quote__c')).length, 12);
    const found = await crm.records.find(quote, made[0]?.values['id'] as string, aCall());
    assert.equal(found?.values['consumer_id'], null);
    const page = await crm.records.list(quote, aList(), aCall());
    assert.equal(page.records.length, 10);
    for (let looks = 0; looks < 2; looks++) crm.schema.apply(await crm.schema.describe(aCall()));
    const { lacks = [] } = await crm.health.check();
    assert.deepEqual(
      lacks.map(({ object, field }) => `${object}.${field}`),
      columns,
    );
    const reported = lines.filter((line) => line['message'] === 'Salesforce lacks what the gateway needs');
    assert.deepEqual(
      reported.map(({ facts }) => facts['field']),
      lacks.map(({ field }) => field),
    );
  });

  it('says nothing of one that it may do without for good, and knows no more than the org', async () => {
    await harness.org.configure({ missingFields: ['Quote__c.Actor_Verified__c'] });
    const { crm } = harness.addReplica();
    const made = await create({ ...callOf('con_1'), subject: 'marta-1' }, crm);
    assert.deepEqual([made?.values['actor'], made?.values['verified']], ['marta@example.com', null]);
    crm.schema.apply(await crm.schema.describe(aCall()));
    assert.deepEqual((await crm.health.check()).lacks ?? [], []);
    await harness.org.configure({ missingFields: [] });
    const known = await create({ ...callOf('con_1'), subject: 'marta-1' }, harness.addReplica().crm);
    assert.equal(known?.values['verified'], 'true');
    assert.equal((await create(callOf('con_1'), harness.addReplica().crm))?.values['verified'], 'false');
  });

  it('refuses what needs them, whatever shares the call', async () => {
    await harness.org.configure({ missingFields: columns.slice(0, 1) });
    const { crm } = harness.addReplica();
    const made = await create(callOf('con_1'), crm);
    const id = made?.values['id'] as string;
    const own = callOf('con_1', 'own');
    const missing = (error: unknown) => {
      assert.match((error as Error).message, /Consumer_Id__c, Consumer_Name__c, Actor__c.*salesforce\//);
      return hasCode('crm_error')(error);
    };
    const [foreign, mine] = await Promise.allSettled([
      crm.records.find(quote, id, aCall()),
      crm.records.find(quote, id, own),
    ]);
    assert.equal(foreign.status, 'fulfilled');
    assert.ok(mine.status === 'rejected' && missing(mine.reason));
    await assert.rejects(create(own, crm), missing);
    await assert.rejects(crm.records.list(quote, aList(), own), missing);
    await assert.rejects(crm.records.list(quote, aList({ filters: { consumer_id: 'x' } }), aCall()), missing);
  });

  it('keeps who made a record where it has them, and shows it to its owner alone', async () => {
    const made = await create();
    const id = made?.values['id'] as string;
    const { records } = harness.crm;
    const creator = { consumer_id: 'con_1', consumer_name: 'Partner A', actor: 'marta@example.com' };
    assert.deepEqual({ ...made?.values, ...creator }, made?.values);
    const asked = ['con_1', 'con_2'].map((consumer) => records.find(quote, id, callOf(consumer, 'own')));
    const [own, foreign, all] = await Promise.all([...asked, records.find(quote, id, callOf('con_2'))]);
    assert.deepEqual([own?.nativeId, foreign, all?.nativeId], [made?.nativeId, undefined, made?.nativeId]);
  });
});

describe('optional columns', () => {
  const lacks = (column: string) =>
    new CrmFailure('setup', 'x', {
      error: {
        code: 'INVALID_FIELD',
        message: `\nActor__c, x\n ^\nNo such column '${column}' on y`,
        fields: [],
      },
    });

  it('are tried again by one request a minute, and named by all once it has succeeded', async () => {
    let now = 0;
    const known = new UsableColumns({ resource: quote, now: () => now });
    let has = false;
    const tries: boolean[] = [];
    const send = (names: 'all' | string[] = 'all') =>
      sendUsable([{ columns: known, names }], async (uses) => {
        const { resource, leftOut } = usedOf(uses, quote);
        tries.push('actor' in resource.fields);
        assert.equal(leftOut.has('actor'), !('actor' in resource.fields));
        if ('actor' in resource.fields && !has) throw lacks('Actor__c');
      });
    await send();
    await send();
    assert.deepEqual(tries.splice(0), [true, false, false]);
    now = 60_000;
    await Promise.all([send(), send()]);
    assert.deepEqual(tries.splice(0), [true, false, false]);
    has = true;
    now = 120_000;
    // A request that does not name them shows nothing.
    await send(['name']);
    await Promise.all([send(['actor']), send()]);
    await send();
    assert.deepEqual(tries, [false, true, false, true]);
  });

  it('leave other failures alone', async () => {
    const known = new UsableColumns({ resource: resourcesOf().quote, now: () => 0 });
    await assert.rejects(
      sendUsable([{ columns: known, names: 'all' }], async () => Promise.reject(lacks('Name__c'))),
      CrmFailure,
    );
  });
});

describe('an org that lacks the columns in which details go on', () => {
  let harness: CrmHarness;
  before(async () => {
    harness = await startCrmHarness();
    await harness.org.configure({
      missingFields: [2, 3, 4, 5, 6, 7, 8].map((part) => `Quote__c.Details_${part}__c`),
    });
  });
  after(() => harness.stop());

  const short = JSON.stringify({ a: 'x'.repeat(131_064) });
  const long = JSON.stringify({ a: 'x'.repeat(131_065) });
  const tooLarge = (error: unknown) => {
    assert.match((error as Error).message, /131073 .*131072/);
    return hasCode('details_too_large')(error);
  };

  it('takes what one column holds, and refuses the rest, whatever shares the call', async () => {
    const { crm } = harness.addReplica();
    const create = (details: string) =>
      crm.records.createAndRead(quote, randomUUID(), quoteFor(harness.memberId, { details }), aCall());
    const made = await Promise.allSettled([short, long, short, long, short].map(create));
    for (const [index, outcome] of made.entries()) {
      if (outcome.status === 'fulfilled') assert.equal(outcome.value?.values['details'], short);
      else assert.ok(index % 2 === 1 && tooLarge(outcome.reason));
    }
    assert.equal((await harness.org.records('Quote__c')).length, 3);
    const [record] = made.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    assert.ok(record);
    const update = (details: string) => crm.records.updateAndRead(quote, record, { details }, aCall());
    await assert.rejects(update(long), tooLarge);
    assert.equal((await update('{}'))?.values['details'], '{}');
    const found = await crm.records.find(quote, record.values['id'] as string, aCall());
    assert.equal(found?.values['details'], '{}');
  });

  it('takes long ones as soon as they are deployed', async () => {
    await harness.org.configure({ missingFields: [] });
    const { crm } = harness.addReplica();
    const values = quoteFor(harness.memberId, { details: long });
    const made = await crm.records.createAndRead(quote, randomUUID(), values, aCall());
    assert.equal(made?.values['details'], long);
  });
});
