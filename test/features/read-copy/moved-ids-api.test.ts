import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { FeedReader } from '../../support/feed.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { copyEnv, read, untilCopied } from './support.ts';

let gateway: TestGateway;
let feed: FeedReader;

before(async () => {
  gateway = await startGateway(copyEnv);
  feed = new FeedReader(gateway.request);
  await untilCopied(gateway.request, '/v1/quotes?limit=1');
});
after(() => gateway.stop());

const columns = ['Details__c', ...[2, 3, 4, 5, 6, 7, 8].map((part) => `Details_${part}__c`)];

async function insert(change: object = {}): Promise<string> {
  const id = randomUUID();
  const row = { External_Id__c: id, Name__c: 'a', Source__c: 's', Trip_Id__c: randomUUID(), ...change };
  await gateway.org.insert('Quote__c', [row]);
  return id;
}

const edit = (name: string, change: object) => gateway.org.edit('Quote__c', { Name__c: name }, { ...change });

/** All that was changed before is in the feed. */
async function settle(): Promise<void> {
  const last = await insert({ Name__c: 'last' });
  await feed.until(({ resource }) => resource.id === last);
}

/** The copy and the last event show what the CRM has now. */
async function assertSame(path: string): Promise<string> {
  const { body, status } = await read(gateway.request, path, 'no-cache');
  const copied = await untilCopied(gateway.request, path, (answer) => answer.status === status);
  if (status === 200) assert.equal(copied.body, body);
  return body;
}

describe('an External ID', () => {
  test('that goes from one record to another is updated, in either order, also where both are swapped', async () => {
    const [from, to, other] = [randomUUID(), randomUUID(), randomUUID()];
    const id = await insert({ Name__c: from });
    await insert({ Name__c: to });
    const swapped = await insert({ Name__c: other });
    await settle();
    // The record that gets it was changed before the one that loses it, and becomes visible with it.
    const late = new Date(Date.now() - 60_000).toISOString().replace('Z', '+0000');
    await edit(from, { External_Id__c: randomUUID() });
    await edit(to, { External_Id__c: id, SystemModstamp: late });
    await settle();
    assert.equal(feed.typesOf(id).at(-1), feed.typesOf(id).length === 2 ? 'quote.updated' : 'quote.created');
    assert.match(await assertSame(`/v1/quotes/${id}`), new RegExp(to));
    await edit(to, { External_Id__c: null });
    await edit(other, { External_Id__c: id });
    await edit(to, { External_Id__c: swapped });
    await settle();
    assert.match(await assertSame(`/v1/quotes/${id}`), new RegExp(other));
    assert.match(await assertSame(`/v1/quotes/${swapped}`), new RegExp(to));
    for (const one of [id, swapped]) assert.notEqual(feed.typesOf(one).at(-1), 'quote.deleted');
    // The record that has lost it is deleted: that is nothing to the id.
    await gateway.org.remove('Quote__c', [swapped]);
    await edit(other, { Name__c: `${other} again` });
    await settle();
    assert.equal(feed.typesOf(id).at(-1), 'quote.updated');
  });

  test('of a record that is removed without a trace is deleted once the CRM answers 404, once', async () => {
    for (const ask of ['GET', 'PATCH', 'DELETE']) {
      const trip = randomUUID();
      const id = await insert({ Trip_Id__c: trip });
      const list = `/v1/quotes?trip_id=${trip}`;
      await untilCopied(gateway.request, list, ({ body }) => body.includes(id));
      await settle();
      await gateway.org.remove('Quote__c', [id]);
      const headers = { 'idempotency-key': randomUUID(), 'cache-control': 'no-cache' };
      const body = ask === 'PATCH' ? { body: { name: 'b' } } : {};
      const { status } = await gateway.request(`/v1/quotes/${id}`, { method: ask, headers, ...body });
      assert.equal(status, 404);
      const copied = await read(gateway.request, `/v1/quotes/${id}`, 'max-age=3600');
      assert.equal(copied.status, 404, ask);
      assert.doesNotMatch((await read(gateway.request, list, 'max-age=3600')).body, new RegExp(id));
      await feed.until(({ type, resource }) => resource.id === id && type === 'quote.deleted');
      await gateway.request(`/v1/quotes/${id}`, { headers: { 'cache-control': 'no-cache' } });
      await settle();
      assert.deepEqual(feed.typesOf(id), ['quote.created', 'quote.deleted']);
      await untilCopied(gateway.request, list);
    }
  });

  test('has the details that GET shows, whatever columns they are in', async () => {
    const cases = [
      ['{"text":"short",', '"more":1}'],
      ['{"a":1}', 'x'],
      ['{"a":1}', null, 'x'],
      ['{', '"a"', ':1', '}'],
      [null, '{}'],
      ['{"a":1}'],
    ];
    for (const texts of cases) {
      const id = await insert(
        Object.fromEntries(columns.map((column, index) => [column, texts[index] ?? null])),
      );
      const shown = await assertSame(`/v1/quotes/${id}`);
      const { data } = await feed.until(({ resource }) => resource.id === id);
      assert.deepEqual(data, JSON.parse(shown), JSON.stringify(texts));
      await gateway.org.edit('Quote__c', { External_Id__c: id }, { Details_2__c: '"edited":2}' });
      await settle();
      assert.deepEqual(
        feed.events.findLast(({ resource }) => resource.id === id)?.data['details'],
        (JSON.parse(await assertSame(`/v1/quotes/${id}`)) as { details: unknown }).details,
      );
    }
  });
});
