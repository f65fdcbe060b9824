import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { it } from 'node:test';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import type { StoredRecord } from '../../src/records/records.ts';
import { newIds, startBatchingHarness } from './batching-harness.ts';
import { aCall, hasCode } from './crm-harness.ts';

const harness = await startBatchingHarness();
const { find, callsDuring } = harness;

/** Quotes with these External IDs, named after them. */
async function insert(ids: readonly string[], more: object = {}): Promise<void> {
  const rows = ids.map((id) => ({ External_Id__c: id, Name__c: nameOf(id), Source__c: 'x', ...more }));
  await harness.org.insert('Quote__c', rows);
}
const nameOf = (id: string) => `Quote ${id.toLowerCase()}`;

function assertNamed(record: StoredRecord | undefined, id: string): void {
  assert.equal(record?.values['id'], id.toLowerCase());
  assert.equal(record?.values['name'], nameOf(id));
}

it('parallel reads share few calls, and each gets its own record or none', async () => {
  const known = newIds(60);
  const upper = newIds(10).map((id) => id.toUpperCase());
  const missing = newIds(20);
  await insert([...known, ...upper]);
  await harness.org.configure({ latencyMs: 50 });
  const asked = [...known, ...upper, ...missing, ...known.slice(0, 10)];
  const calls = await callsDuring(async () => {
    const found = await Promise.all(asked.map(find));
    for (const [index, id] of asked.entries()) {
      if (missing.includes(id)) assert.equal(found[index], undefined);
      else assertNamed(found[index], id);
    }
  });
  assert.ok(calls <= 3, `${calls} calls for ${asked.length} reads`);
});

it('a read with nothing in flight is sent at once and alone, as a plain query', async () => {
  const [id = ''] = newIds(1);
  await insert([id]);
  await harness.org.resetCounters();
  assertNamed(await find(id), id);
  const { calls } = await harness.org.counters();
  assert.deepEqual(calls, { query: 1 });
});

it('200 reads fit one call, whatever the length of a URL, and are read on where the CRM makes pages short', async () => {
  const ids = newIds(200);
  await insert(ids, { Details__c: `{"a":"${'x'.repeat(2000)}"}` });
  await harness.org.configure({ maxPageSize: 70 });
  const hold = await harness.org.fault({ kind: 'hold' }, { operation: 'query' }, 1);
  const first = find(randomUUID());
  await harness.org.struck(hold);
  await harness.org.resetCounters();
  const found = await Promise.all(ids.map(find));
  for (const [index, id] of ids.entries()) assertNamed(found[index], id);
  const { calls } = await harness.org.counters();
  assert.deepEqual(calls, { composite: 1, queryMore: 2 });
  await harness.org.release(hold);
  assert.equal(await first, undefined);
});

it('a read that begins after a change was answered sees it, though an earlier read of the record is in flight', async () => {
  const [id = ''] = newIds(1);
  await insert([id]);
  const record = (await find(id)) as StoredRecord;
  const hold = await harness.org.fault({ kind: 'hold', stage: 'after' }, { operation: 'query' }, 1);
  const early = find(id);
  await harness.org.struck(hold);
  await harness.crm.records.update(quote, record, { name: 'changed' }, aCall());
  assert.equal((await find(id))?.values['name'], 'changed');
  await harness.org.release(hold);
  assertNamed(await early, id);
});

it('a batch that takes too long is halved until only the read that takes too long is left', async () => {
  await harness.useShortTimeout();
  const ids = newIds(8);
  await insert(ids);
  const [slow = '', ...others] = ids;
  await harness.org.fault({ kind: 'hang' }, { recordKey: slow });
  const hold = await harness.org.fault({ kind: 'hold' }, { operation: 'query' }, 1);
  const first = find(randomUUID());
  await harness.org.struck(hold);
  const refused = assert.rejects(find(slow), hasCode('crm_timeout'));
  const found = await Promise.all(others.map(find));
  for (const [index, id] of others.entries()) assertNamed(found[index], id);
  await refused;
  await harness.org.release(hold);
  await first.catch(() => undefined);
});

it('reads whose answer is lost, refused for a moment or too long at once are asked again', async () => {
  const ids = newIds(30);
  await insert(ids);
  for (const kind of ['loseAnswer', 'reset', 'down', 'concurrentLimit']) {
    await harness.org.fault({ kind }, { path: '/services/data/' }, 1);
    const found = await Promise.all(ids.map(find));
    for (const [index, id] of ids.entries()) assertNamed(found[index], id);
    await harness.org.heal();
  }
});

it('counts what it batches', async () => {
  const ids = newIds(20);
  await harness.org.configure({ latencyMs: 30 });
  await Promise.all(ids.map(find));
  const { values } = await harness.metrics.crmBatchSize.get();
  const sum = values.find(({ metricName }) => metricName === 'handoff_crm_batch_size_sum');
  assert.deepEqual([sum?.labels, sum?.value], [{ operation: 'find' }, 20]);
  assert.equal((await harness.metrics.crmQueueDepth.get()).values[0]?.value, 0);
});
