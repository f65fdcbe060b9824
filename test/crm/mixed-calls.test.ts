import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { limitsOf } from '../../src/crm/budget/bucket.ts';
import { startCall } from '../../src/platform/base/call.ts';
import { member } from '../../src/records/members.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import type { StoredRecord } from '../../src/records/records.ts';
import type { Resource } from '../../src/records/resource.ts';
import { joinBudget } from '../support/call-budget.ts';
import {
  aCall,
  type CrmHarness,
  hasCode,
  quoteFor,
  type Replica,
  startCrmHarness,
  total,
} from './crm-harness.ts';

/** Four calls a second, once the burst is used up. */
const dailyCallBudget = 4 * 86_400;
const maxWaitMs = 10_000;

let harness: CrmHarness;
/** Its burst is used up. */
let replica: Replica;
/** Of each metered call of the replica: what it did, and for whom. */
let charged: [operation: string, sharers: readonly (string | undefined)[]][];
let quotes: StoredRecord[];
let bookings: StoredRecord[];

before(async () => {
  harness = await startCrmHarness({ timeoutMs: 1500 });
  // The simulated org takes its time for the first query.
  await harness.addReplica({ timeoutMs: 10_000 }).crm.records.find(quote, randomUUID(), aCall());
});
beforeEach(async () => {
  [quotes, bookings] = [await makeRecords(quote), await makeRecords(booking)];
  replica = harness.addReplica({ dailyCallBudget, maxWaitMs });
  await replica.crm.start();
  await replica.crm.tokens.getToken(aCall());
  charged = [];
  replica.crm.metered.add(async (...call) => void charged.push(call));
  await harness.org.resetCounters();
  await useUpCalls();
});
afterEach(async () => {
  await harness.org.heal();
  await harness.org.automate({});
});
after(() => harness.stop());

/** All calls that the budget has by now: those that come back make a read go out by itself. */
async function useUpCalls(): Promise<void> {
  await joinBudget(harness.cache, limitsOf(dailyCallBudget, maxWaitMs)).drain();
}

/** Two records, made without a budget. */
async function makeRecords(resource: Resource): Promise<StoredRecord[]> {
  const make = () =>
    harness.crm.records.createAndRead(resource, randomUUID(), quoteFor(harness.memberId), aCall());
  return (await Promise.all([make(), make()])).map((record) => record ?? assert.fail());
}

const find = (resource: Resource, { values }: Pick<StoredRecord, 'values'>, who = 'reader') =>
  replica.crm.records.find(resource, values['id'] ?? '', startCall('test', who));
const create = (resource: Resource, name: string, id: string = randomUUID()) =>
  replica.crm.records.createAndRead(
    resource,
    id,
    quoteFor(harness.memberId, { name }),
    startCall('test', 'maker'),
  );
const update = (resource: Resource, record: StoredRecord | undefined, name: string) =>
  replica.crm.records.updateAndRead(
    resource,
    record ?? assert.fail(),
    { name },
    startCall('test', 'changer'),
  );
const metered = async () => (await harness.org.counters()).metered;
const nameOf = (record: StoredRecord | undefined) => record?.values['name'];
const names = async (object: string, wanted: string) =>
  (await harness.org.records(object))
    .map(({ Name__c: name }) => String(name))
    .filter((name) => name === wanted);

/** Reads of two objects, creations of both, and a change, each of which gets its own answer. */
async function mixture(name: string) {
  const ids = [randomUUID(), randomUUID(), randomUUID()];
  await useUpCalls();
  const ends = await Promise.allSettled([
    create(quote, name, ids[0]),
    create(quote, name, ids[1]),
    create(booking, name, ids[2]),
    update(quote, quotes[0], name),
    find(booking, bookings[0] ?? assert.fail()),
    find(quote, quotes[1] ?? assert.fail()),
    find(quote, { values: { id: randomUUID() } }),
  ]);
  return { ids, ends };
}

/** What all of them must have come to. */
async function assertDone(name: string, { ids, ends }: Awaited<ReturnType<typeof mixture>>): Promise<void> {
  const found = ends.map((end) => {
    const record = end.status === 'fulfilled' ? end.value : assert.fail(end.reason as Error);
    return record && [record.values['id'], nameOf(record)];
  });
  const idOf = (record: StoredRecord | undefined) => record?.values['id'];
  assert.deepEqual(found, [
    ...ids.map((id) => [id, name]),
    [idOf(quotes[0]), name],
    [idOf(bookings[0]), 'Hotel Astoria'],
    [idOf(quotes[1]), 'Hotel Astoria'],
    undefined,
  ]);
  assert.deepEqual((await names('Quote__c', name)).length, 3);
  assert.deepEqual((await names('Booking__c', name)).length, 1);
}

describe('a call for requests of several kinds', () => {
  it('serves reads and writes of several objects, and is charged to all whose requests it has', async () => {
    await assertDone('together', await mixture('together'));
    assert.equal(await metered(), 1);
    assert.equal(charged.length, 1);
    const [operation, sharers = []] = charged[0] ?? [];
    assert.equal(operation, 'mixed');
    const of = (consumer: string) => sharers.filter((sharer) => sharer === consumer).length;
    assert.deepEqual([of('maker'), of('changer'), of('reader'), sharers.length], [3, 1, 3, 7]);
  });

  it('keeps to what the CRM takes in a call: the rest goes in the next one', async () => {
    const ends = await Promise.all([
      find(member, { values: { id: harness.memberId } }),
      create(quote, 'much'),
      create(booking, 'much'),
      update(quote, quotes[0], 'much'),
      update(booking, bookings[0], 'much'),
      replica.crm.records.remove(quote, quotes[1] ?? assert.fail(), startCall('test', 'remover')),
      replica.crm.records.remove(booking, bookings[1] ?? assert.fail(), startCall('test', 'remover')),
    ]);
    assert.deepEqual(
      ends.slice(1).map((record) => nameOf(record ?? undefined)),
      [...['much', 'much', 'much', 'much'], ...[undefined, undefined]],
    );
    assert.equal(ends[0]?.values['id'], harness.memberId);
    assert.ok((await metered()) <= 3);
  });

  it('puts no more than 200 records of one object into it', async () => {
    const finds = Array.from({ length: 250 }, (_, n) => find(quote, quotes[n % 2] ?? assert.fail(), `${n}`));
    const found = await Promise.all([...finds, create(booking, 'beside'), create(quote, 'beside')]);
    assert.deepEqual(
      new Set(found.slice(0, 250).map((record) => record?.values['id'])),
      new Set(quotes.map(({ values }) => values['id'])),
    );
    assert.ok((await metered()) <= 3);
  });

  it('shows each reader only what it may see', async () => {
    const id = randomUUID();
    const maker = startCall('test', 'owner');
    await harness.crm.records.create(quote, id, quoteFor(harness.memberId), maker);
    const asks = (consumerId: string) =>
      replica.crm.records.find(quote, id, {
        ...startCall('test', consumerId),
        visible: () => ({ consumerId }),
      });
    const [own, others, made] = await Promise.all([asks('owner'), asks('other'), create(booking, 'x')]);
    assert.deepEqual([own?.values['id'], others, nameOf(made)], [id, undefined, 'x']);
    assert.equal(charged.length, 1);
  });

  it('is not made while calls are plenty', async () => {
    const plenty = harness.addReplica({ dailyCallBudget: 10_000_000, environment: 'dev2' });
    await plenty.crm.start();
    const seen: string[] = [];
    plenty.crm.metered.add(async (operation) => void seen.push(operation));
    await Promise.all([
      plenty.crm.records.find(quote, randomUUID(), aCall()),
      plenty.crm.records.find(booking, randomUUID(), aCall()),
    ]);
    assert.deepEqual(seen, ['query', 'query']);
  });
});

describe('in a call for requests of several kinds', () => {
  it('a refused record is the failure of its request alone', async () => {
    const when = { field: 'Name__c', equals: 'bad' };
    const trigger = { name: 'T', object: 'Quote__c', on: ['beforeInsert'], when, action: { kind: 'throw' } };
    await harness.org.automate({ triggers: [trigger] });
    const bad = create(quote, 'bad');
    const others = mixture('beside the bad');
    await assert.rejects(bad, hasCode('crm_rejected'));
    await assertDone('beside the bad', await others);
    assert.ok((await total(replica.metrics, 'handoff_crm_batch_splits_total')) >= 1);
  });

  it('a refused part fails only the batch that it is', async () => {
    const fault = { kind: 'partError', errorCode: 'INSUFFICIENT_ACCESS_OR_READONLY', message: 'x' };
    await harness.org.fault(fault, { operation: 'create', object: 'Booking__c' }, 1);
    const { ends } = await mixture('refused part');
    assert.deepEqual(
      ends.map(({ status }) => status),
      ['fulfilled', 'fulfilled', 'rejected', ...Array(4).fill('fulfilled')],
    );
    assert.equal((await names('Quote__c', 'refused part')).length, 3);
  });

  it('a refusal of the whole call is asked about with each kind by itself', async () => {
    const fault = {
      kind: 'error',
      status: 400,
      errorCode: 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY',
      message: 'T: x',
    };
    await harness.org.fault(fault, { operation: 'composite' }, 1);
    await assertDone('refused whole', await mixture('refused whole'));
  });

  for (const kind of ['loseAnswer', 'reset', 'hang', 'lateAnswer', 'down'] as const) {
    it(`no write is done twice or lost, and every request answered, after: ${kind}`, async () => {
      const effect = { kind, ...(kind === 'lateAnswer' && { ms: 2500 }) };
      await harness.org.fault(effect, { operation: 'composite' }, 1);
      await assertDone(kind, await mixture(kind));
    });
  }

  it('an exception of the CRM is asked about, and nothing done twice', async () => {
    const fault = { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'x' };
    await harness.org.fault(fault, { operation: 'composite' }, 1);
    await assertDone('exception', await mixture('exception'));
  });

  it('a token that the CRM no longer takes is replaced, for all at once', async () => {
    await harness.org.revokeTokens();
    await assertDone('new token', await mixture('new token'));
    assert.deepEqual(
      charged.map(([operation]) => operation),
      ['mixed', 'mixed'],
    );
  });

  it('an answer that is too large as a whole is no failure of a read that is small', async () => {
    const details = JSON.stringify({ text: 'word '.repeat(200_000) });
    const slow = harness.addReplica({ timeoutMs: 10_000 });
    const large = Array.from({ length: 12 }, () => randomUUID());
    for (const id of large)
      await slow.crm.records.create(quote, id, quoteFor(harness.memberId, { details }), aCall());
    await useUpCalls();
    const [small, ...found] = await Promise.all([
      find(booking, bookings[0] ?? assert.fail()),
      ...large.map((id) => find(quote, { values: { id } })),
    ]);
    assert.equal(nameOf(small), 'Hotel Astoria');
    for (const record of found) assert.equal(record?.values['details'], details);
    assert.equal(charged[0]?.[0], 'mixed');
  });

  it('a creation whose offer ends before it is sent leaves the others alone', async () => {
    const late = replica.crm.records.createAndRead(
      quote,
      randomUUID(),
      quoteFor(harness.memberId),
      startCall('test', 'late'),
      { validUntil: Date.now() + 1 },
    );
    const others = mixture('in time');
    await assert.rejects(late, hasCode('offer_expired'));
    await assertDone('in time', await others);
  });
});
