import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { Problem } from '../../src/platform/base/problem.ts';
import { member } from '../../src/records/members.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import type { ListQuery } from '../../src/records/records.ts';
import { aCall, aList, type CrmHarness, hasCode, quoteFor, startCrmHarness, total } from './crm-harness.ts';

/** The service's own work names nobody. */
const noCreator = { consumer_id: null, consumer_name: null, actor: null };

let harness: CrmHarness;
before(async () => {
  harness = await startCrmHarness();
});
after(() => harness.stop());

it('creates a record that carries its External ID, and finds it as it was written', async () => {
  const { crm, memberId, org } = harness;
  const id = randomUUID();
  const values = quoteFor(memberId, { details: '{"a":12345678901234567890,"ü":"🧭","e":{}}' });
  const call = aCall();
  const { nativeId } = await crm.records.create(quote, id, values, call);
  assert.match(nativeId, /^[A-Za-z0-9]{18}$/);
  assert.ok(call.crmMs > 0);
  const found = await crm.records.find(quote, id.toUpperCase(), aCall());
  assert.equal(found?.nativeId, nativeId);
  assert.deepEqual(
    { ...found?.values, created_at: 'some time', updated_at: 'some time' },
    { ...values, ...noCreator, id, status: 'created', created_at: 'some time', updated_at: 'some time' },
  );
  assert.match(String(found?.values['created_at']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/);
  assert.equal((await org.records('Quote__c')).length, 1);
});

it('refuses a quote for a member that the CRM does not know', async () => {
  const creation = harness.crm.records.create(quote, randomUUID(), quoteFor(randomUUID()), aCall());
  await assert.rejects(creation, (error: Problem) => {
    assert.equal(error.code, 'member_not_found');
    assert.deepEqual(error.facts.errors, [
      { pointer: '#/member_id', message: 'The CRM knows no such member.' },
    ]);
    return true;
  });
});

it('returns the record that is there already instead of making a second one or changing the first', async () => {
  const { crm, memberId } = harness;
  const id = randomUUID();
  const first = await crm.records.create(quote, id, quoteFor(memberId, { name: 'First' }), aCall());
  const again = await crm.records.create(quote, id, quoteFor(memberId, { name: 'Second' }), aCall());
  assert.equal(again.nativeId, first.nativeId);
  assert.equal((await crm.records.find(quote, id, aCall()))?.values['name'], 'First');
});

it('replaces the given fields and leaves the others', async () => {
  const { crm, memberId } = harness;
  const id = randomUUID();
  const ref = await crm.records.create(quote, id, quoteFor(memberId), aCall());
  await crm.records.update(
    quote,
    ref,
    { name: "O'Hara \\ \n x", status: 'confirmed', member_id: memberId },
    aCall(),
  );
  const values = (await crm.records.find(quote, id, aCall()))?.values;
  assert.equal(values?.['name'], "O'Hara \\ \n x");
  assert.equal(values?.['status'], 'confirmed');
  assert.equal(values?.['source'], 'hotels');
  assert.equal(values?.['member_id'], memberId);
});

it('says not_found when the record to change or to remove is gone, deleted or never there', async () => {
  const { crm, memberId } = harness;
  const ref = await crm.records.create(quote, randomUUID(), quoteFor(memberId), aCall());
  await crm.records.remove(quote, ref, aCall());
  const notThere = { nativeId: `${ref.nativeId.slice(0, 11)}zzzz` };
  for (const gone of [ref, notThere]) {
    await assert.rejects(crm.records.remove(quote, gone, aCall()), hasCode('not_found'));
    await assert.rejects(crm.records.update(quote, gone, { name: 'x' }, aCall()), hasCode('not_found'));
    const withMember = { name: 'x', member_id: memberId };
    await assert.rejects(crm.records.update(quote, gone, withMember, aCall()), hasCode('not_found'));
  }
});

it('finds nothing where the External ID is unknown or no UUID', async () => {
  const { crm, org } = harness;
  await org.insert('Contact', [{ LastName: 'Legacy', External_Id__c: 'LEGACY-1' }]);
  assert.equal(await crm.records.find(member, randomUUID(), aCall()), undefined);
  assert.equal(await crm.records.find(member, 'LEGACY-1', aCall()), undefined);
});

it('shows members, with null where the CRM has none, and External IDs in lower case', async () => {
  const { crm, org, memberId } = harness;
  const seeded = await crm.records.find(member, memberId, aCall());
  assert.match(String(seeded?.values['email']), /@example\.com$/);
  const upper = randomUUID().toUpperCase();
  await org.insert('Contact', [{ LastName: 'Upper', External_Id__c: upper }]);
  const found = await crm.records.find(member, upper.toLowerCase(), aCall());
  assert.equal(found?.values['id'], upper.toLowerCase());
  assert.equal(found?.values['email'], null);
});

it('shows null for content that is not of its type, and counts it', async () => {
  const { crm, org, metrics } = harness;
  const id = randomUUID();
  await org.insert('Quote__c', [
    { External_Id__c: id, Name__c: 'By hand', Source__c: 'x', Trip_Id__c: 'trip 7', Details__c: '[1,2' },
  ]);
  const before = await total(metrics, 'handoff_crm_unreadable_fields_total');
  const values = (await crm.records.find(quote, id, aCall()))?.values;
  assert.equal(values?.['trip_id'], null);
  assert.equal(values?.['details'], null);
  assert.equal(values?.['member_id'], null);
  assert.equal(values?.['name'], 'By hand');
  assert.equal(await total(metrics, 'handoff_crm_unreadable_fields_total'), before + 2);
});

describe('lists', () => {
  const trip = randomUUID();
  const moments = [
    '2026-03-01T10:00:00.000+0000',
    '2026-03-01T10:00:01.000+0000',
    '2026-03-01T10:00:02.000+0000',
  ];
  const row = (externalId: string | null, index: number) => ({
    External_Id__c: externalId,
    Name__c: `Row ${index}`,
    Source__c: 'x',
    Trip_Id__c: trip,
    CreatedDate: moments[index % moments.length],
  });
  const ids = Array.from({ length: 40 }, () => randomUUID());

  before(async () => {
    const strangers = Array.from({ length: 60 }, (_, index) => row(`LEGACY-'${index}\\`, index));
    const nameless = Array.from({ length: 5 }, (_, index) => row(null, index));
    await harness.org.insert('Booking__c', [...ids.map(row), ...strangers, ...nameless]);
  });

  /** Follows the pages to the end, as the API's cursor does. */
  async function pages(limit: number, maxBytes = 4 * 1024 * 1024): Promise<string[][]> {
    const found: string[][] = [];
    let after: ListQuery['after'];
    for (;;) {
      const query = aList({ filters: { trip_id: trip }, limit, maxBytes, ...(after && { after }) });
      const { records, hasMore } = await harness.crm.records.list(booking, query, aCall());
      found.push(records.map(({ id }) => id));
      after = records.at(-1);
      if (!hasMore || !after) return found;
    }
  }

  it('pages through all records once, newest first, ties by External ID; others shorten no page', async () => {
    const expected = ids
      .map((id, index) => ({ id, at: String(moments[index % moments.length]) }))
      .toSorted((a, b) => (a.at === b.at ? (a.id < b.id ? 1 : -1) : a.at < b.at ? 1 : -1))
      .map(({ id }) => id);
    for (const limit of [1, 7, 39, 40, 41, 200]) {
      const found = await pages(limit);
      assert.deepEqual(found.flat(), expected, `limit ${limit}`);
      assert.ok(found.slice(0, -1).every((page) => page.length === limit));
    }
  });

  it('ends a page by bytes too, and has a record that is larger alone', async () => {
    const all = (await pages(200)).flat();
    const [first] = (await harness.crm.records.list(booking, aList({ filters: { trip_id: trip } }), aCall()))
      .records;
    const bytes = first?.json.length ?? 0;
    for (const [maxBytes, most] of [
      [1, 1],
      [bytes * 3.5, 3],
      [bytes * 6.5, 6],
    ] as const) {
      const found = await pages(7, maxBytes);
      assert.deepEqual(found.flat(), all);
      assert.ok(found.slice(0, -1).every((page) => page.length === most || page.length === most - 1));
    }
  });

  it('reads on where the CRM gives fewer rows than it was asked for', async () => {
    await harness.org.configure({ maxPageSize: 3 });
    try {
      assert.deepEqual((await pages(40)).flat().toSorted(), ids.toSorted());
    } finally {
      await harness.org.configure({ maxPageSize: 2000 });
    }
  });

  it('filters by fields and by the member', async () => {
    const { crm, memberId } = harness;
    const id = randomUUID();
    await crm.records.create(booking, id, quoteFor(memberId, { trip_id: trip, status: 'pending' }), aCall());
    const filters = { trip_id: trip.toUpperCase(), member_id: memberId, status: 'pending' };
    const found = await crm.records.list(booking, aList({ filters }), aCall());
    assert.deepEqual(
      found.records.map((record) => record.id),
      [id],
    );
    const none = await crm.records.list(
      booking,
      aList({ filters: { ...filters, status: "pending' OR Id != '" } }),
      aCall(),
    );
    assert.deepEqual(none.records, []);
  });

  it('gives up in words, and with no wrong page, where nearly all records are strangers', async () => {
    const strangers = Array.from({ length: 100 }, (_, index) => row(`${randomUUID().slice(0, -1)}x`, index));
    await harness.org.insert(
      'Quote__c',
      strangers.map((fields) => ({ ...fields, CreatedDate: moments[0] })),
    );
    await harness.org.configure({ maxPageSize: 1 });
    try {
      const list = harness.crm.records.list(quote, aList({ filters: { trip_id: trip } }), aCall());
      await assert.rejects(list, hasCode('crm_error'));
    } finally {
      await harness.org.configure({ maxPageSize: 2000 });
    }
  });
});
