import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { it } from 'node:test';
import fc from 'fast-check';
import type { ChangePosition } from '../../src/records/changes.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import type { Resource } from '../../src/records/resource.ts';
import { aCall, useCrmHarness } from './crm-harness.ts';

const harness = useCrmHarness();

/** Somebody in the org may leave anything in the columns of details. */
const parts = fc.array(
  fc.constantFrom(null, '{"a":1}', '{"a":', '1}', '{}', 'x', ' ', `{"text":"${'y'.repeat(70_000)}`, '"}'),
  { minLength: 2, maxLength: 8 },
);

it('details in any of their columns are what a look-up of the record gives', async () => {
  const { crm, org } = harness;
  const [id, added] = [randomUUID(), { Name__c: 'edited', Source__c: 's' }];
  const positions = new Map([[quote, { stamp: '2020-01-01T00:00:00.000Z' }]]);
  const columns = ['Details__c', ...(quote.fields.details.crm.continuations ?? [])];
  const examples = [[['{"a":1}', 'x']], [['{"a":', '1}']], [['{"a":1}']], [['{', '"a":1', '}']]] as [
    (string | null)[],
  ][];
  await fc.assert(
    fc.asyncProperty(parts, async (texts) => {
      await org.clear('Quote__c');
      const details = Object.fromEntries(columns.map((column, index) => [column, texts[index] ?? null]));
      await org.insert('Quote__c', [{ External_Id__c: id, ...added, ...details }]);
      const [read] = (await crm.changes.readChanges(positions, aCall())).records;
      assert.deepEqual(read?.values, (await crm.records.find(quote, id, aCall()))?.values);
    }),
    { examples, numRuns: 40 },
  );
});

it('much that has changed takes one call for several pages', async () => {
  const { crm, org } = harness;
  const began = Math.floor(Date.now() / 1000) * 1000 - 86_400_000;
  const rows = Array.from({ length: 9000 }, (_, index) => ({
    External_Id__c: randomUUID(),
    Name__c: `quote ${index}`,
    Source__c: 'hotelbeds',
    SystemModstamp: new Date(began + Math.floor(index / 10) * 1000).toISOString(),
  }));
  await org.insert('Quote__c', rows);
  const positions = new Map<Resource, ChangePosition>([[quote, { stamp: new Date(began).toISOString() }]]);
  const ids = new Set<string>();
  let calls = 0;
  for (; positions.size > 0; calls++) {
    const { records, complete } = await crm.changes.readChanges(positions, aCall());
    for (const { resource, stamp, nativeId, externalId } of records) {
      positions.set(resource, { stamp, nativeId });
      ids.add(externalId ?? '');
    }
    for (const resource of complete) positions.delete(resource);
  }
  assert.ok(rows.every((row) => ids.has(row.External_Id__c)));
  assert.equal(calls, 3);
});

it('records with long texts are read behind a time in which nothing changed', async () => {
  const { crm, org } = harness;
  const began = Math.floor(Date.now() / 1000) * 1000 - 10 * 86_400_000;
  // A page ends at eight megabytes.
  const rows = [0, 86_400].flatMap((seconds) =>
    Array.from({ length: 12 }, (_, index) => ({
      External_Id__c: randomUUID(),
      Name__c: 'long',
      Source__c: 'hotelbeds',
      Details__c: 'x'.repeat(130_000),
      ...Object.fromEntries(
        ['2', '3', '4', '5', '6', '7'].map((part) => [`Details_${part}__c`, 'x'.repeat(130_000)]),
      ),
      SystemModstamp: new Date(began + (seconds + index) * 1000).toISOString(),
    })),
  );
  await org.insert('Quote__c', rows);
  const ids = new Set<string>();
  let position: ChangePosition = { stamp: new Date(began).toISOString() };
  for (let calls = 0; calls < 8 && !rows.every((row) => ids.has(row.External_Id__c)); calls++) {
    const { records } = await crm.changes.readChanges(new Map([[quote, position]]), aCall());
    for (const { stamp, nativeId, externalId } of records) {
      position = { stamp, nativeId };
      ids.add(externalId ?? '');
    }
  }
  assert.ok(rows.every((row) => ids.has(row.External_Id__c)));
});
