import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import type { ChangePlace } from '../../src/resources/changes.ts';
import { quote } from '../../src/resources/quotes-and-bookings.ts';
import type { Resource } from '../../src/resources/resource.ts';
import { aCall, type CrmHarness, quoteFor, startCrmHarness } from './crm-harness.ts';

let harness: CrmHarness;
before(async () => {
  harness = await startCrmHarness();
});
after(() => harness.stop());

it('a record that is deleted before its long text is read is deleted, and never shown without it', async () => {
  const { crm, org, memberId } = harness;
  const details = JSON.stringify({ text: 'x'.repeat(200_000) });
  const record = await crm.records.create(quote, randomUUID(), quoteFor(memberId, { details }), aCall());
  const places = new Map([[quote, { stamp: '2020-01-01T00:00:00.000Z' }]]);
  const read = async () => (await crm.changes.readChanges(places, aCall())).records;
  const [whole] = await read();
  assert.deepEqual([whole?.isDeleted, whole?.values['details']], [false, details]);
  const hold = await org.fault({ kind: 'hold', stage: 'before' }, { operation: 'query' }, 1);
  const reading = read();
  await org.struck(hold);
  await crm.records.remove(quote, record, aCall());
  await org.release(hold);
  const found = await reading;
  assert.deepEqual(
    found.map(({ nativeId, isDeleted }) => ({ nativeId, isDeleted })),
    [{ nativeId: record.nativeId, isDeleted: true }],
  );
});

it('much that has changed takes one call for several pages', async () => {
  const { crm, org } = harness;
  const began = Math.floor(Date.now() / 1000) * 1000 - 86_400_000;
  const rows = Array.from({ length: 9000 }, (_, index) => ({
    External_Id__c: randomUUID(),
    Name__c: `quote ${index}`,
    Source__c: 'hotelbeds',
    SystemModstamp: new Date(began + Math.floor(index / 50) * 1000).toISOString(),
  }));
  await org.insert('Quote__c', rows);
  const places = new Map<Resource, ChangePlace>([[quote, { stamp: new Date(began).toISOString() }]]);
  const ids = new Set<string>();
  let calls = 0;
  for (; places.size > 0; calls++) {
    const { records, complete } = await crm.changes.readChanges(places, aCall());
    for (const { resource, stamp, nativeId, externalId } of records) {
      places.set(resource, { stamp, nativeId });
      ids.add(externalId ?? '');
    }
    for (const resource of complete) places.delete(resource);
  }
  assert.ok(rows.every((row) => ids.has(row.External_Id__c)));
  assert.equal(calls, 2);
});

it('records with long texts are read behind a time in which nothing changed', async () => {
  const { crm, org } = harness;
  const began = Math.floor(Date.now() / 1000) * 1000 - 10 * 86_400_000;
  // Each may have a megabyte in its further columns, and a page holds eight.
  const rows = [0, 86_400].flatMap((seconds) =>
    Array.from({ length: 12 }, (_, index) => ({
      External_Id__c: randomUUID(),
      Name__c: 'long',
      Source__c: 'hotelbeds',
      Details__c: 'x'.repeat(100_000),
      SystemModstamp: new Date(began + (seconds + index) * 1000).toISOString(),
    })),
  );
  await org.insert('Quote__c', rows);
  const ids = new Set<string>();
  let place: ChangePlace = { stamp: new Date(began).toISOString() };
  for (let calls = 0; calls < 8 && !rows.every((row) => ids.has(row.External_Id__c)); calls++) {
    const { records } = await crm.changes.readChanges(new Map([[quote, place]]), aCall());
    for (const { stamp, nativeId, externalId } of records) {
      place = { stamp, nativeId };
      ids.add(externalId ?? '');
    }
  }
  assert.ok(rows.every((row) => ids.has(row.External_Id__c)));
});
