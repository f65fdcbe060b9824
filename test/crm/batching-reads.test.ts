import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { it } from 'node:test';
import { quote } from '../../src/resources/quotes-and-bookings.ts';
import type { StoredRecord } from '../../src/resources/records.ts';
import { newIds, startBatchingBench } from './batching-bench.ts';
import { aCall, hasCode } from './bench.ts';

const bench = await startBatchingBench();
const { find, callsDuring } = bench;

/** Quotes with these External IDs, named after them. */
async function insert(ids: readonly string[], more: object = {}): Promise<void> {
  const rows = ids.map((id) => ({ External_Id__c: id, Name__c: nameOf(id), Source__c: 'x', ...more }));
  await bench.org.insert('Quote__c', rows);
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
  await bench.org.configure({ latencyMs: 50 });
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
  await bench.org.resetCounters();
  assertNamed(await find(id), id);
  const { calls } = await bench.org.counters();
  assert.deepEqual(calls, { query: 1 });
});

it('200 reads fit one call, whatever the length of a URL, and are read on where the CRM makes pages short', async () => {
  const ids = newIds(200);
  await insert(ids, { Details__c: `{"a":"${'x'.repeat(2000)}"}` });
  await bench.org.configure({ maxPageSize: 70 });
  const hold = await bench.org.fault({ kind: 'hold' }, { operation: 'query' }, 1);
  const first = find(randomUUID());
  await bench.org.struck(hold);
  await bench.org.resetCounters();
  const found = await Promise.all(ids.map(find));
  for (const [index, id] of ids.entries()) assertNamed(found[index], id);
  const { calls } = await bench.org.counters();
  assert.deepEqual(calls, { composite: 1, queryMore: 2 });
  await bench.org.release(hold);
  assert.equal(await first, undefined);
});

it('a read that begins after a change was answered sees it, though an earlier read of the record is in flight', async () => {
  const [id = ''] = newIds(1);
  await insert([id]);
  const record = (await find(id)) as StoredRecord;
  const hold = await bench.org.fault({ kind: 'hold', stage: 'after' }, { operation: 'query' }, 1);
  const early = find(id);
  await bench.org.struck(hold);
  await bench.crm.records.update(quote, record, { name: 'changed' }, aCall());
  assert.equal((await find(id))?.values['name'], 'changed');
  await bench.org.release(hold);
  assertNamed(await early, id);
});

it('a batch that takes too long is halved until only the read that takes too long is left', async () => {
  const ids = newIds(8);
  await insert(ids);
  const [slow = '', ...others] = ids;
  await bench.org.fault({ kind: 'hang' }, { recordKey: slow });
  const hold = await bench.org.fault({ kind: 'hold' }, { operation: 'query' }, 1);
  const first = find(randomUUID());
  await bench.org.struck(hold);
  const refused = assert.rejects(find(slow), hasCode('crm_timeout'));
  const found = await Promise.all(others.map(find));
  for (const [index, id] of others.entries()) assertNamed(found[index], id);
  await refused;
  await bench.org.release(hold);
  await first.catch(() => undefined);
});

it('reads whose answer is lost, refused for a moment or too long at once are asked again', async () => {
  const ids = newIds(30);
  await insert(ids);
  for (const kind of ['loseAnswer', 'reset', 'down', 'concurrentLimit']) {
    await bench.org.fault({ kind }, { path: '/services/data/' }, 1);
    const found = await Promise.all(ids.map(find));
    for (const [index, id] of ids.entries()) assertNamed(found[index], id);
    await bench.org.heal();
  }
});

it('counts what it batches', async () => {
  const ids = newIds(20);
  await bench.org.configure({ latencyMs: 30 });
  await Promise.all(ids.map(find));
  const { values } = await bench.metrics.crmBatchSize.get();
  const sum = values.find(({ metricName }) => metricName === 'handoff_crm_batch_size_sum');
  assert.deepEqual([sum?.labels, sum?.value], [{ operation: 'find' }, 20]);
  assert.equal((await bench.metrics.crmQueueDepth.get()).values[0]?.value, 0);
});
