import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import { quote } from '../../src/resources/quotes-and-bookings.ts';
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
