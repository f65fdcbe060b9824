import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { FeedReader } from '../../support/feed.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { assertProblem } from '../../support/problems.ts';

let gateway: TestGateway;
let feed: FeedReader;

before(async () => {
  gateway = await startGateway({ CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' });
  feed = new FeedReader(gateway.request);
});
after(() => gateway.stop());

async function newQuote(details = '{"net":612.40,"big":9007199254740993}'): Promise<string> {
  const quote = { trip_id: randomUUID(), member_id: gateway.org.memberId, name: 'a', source: 'b' };
  const response = await gateway.request('/v1/quotes', {
    body: `${JSON.stringify(quote).slice(0, -1)},"details":${details}}`,
    headers: { 'idempotency-key': randomUUID() },
    method: 'POST',
  });
  assert.equal(response.status, 201, await response.clone().text());
  return ((await response.json()) as { id: string }).id;
}

const textOf = async (path: string) =>
  (await gateway.request(path, { headers: { 'cache-control': 'no-cache' } })).text();

describe('the feed', () => {
  test('has each change once and in order, with the data that GET answers', async () => {
    const id = await newQuote();
    const created = await feed.until(({ resource }) => resource.id === id);
    assert.equal(created.type, 'quote.created');
    assert.match(created.id, /^evt_[a-z0-9]+$/);
    assert.deepEqual(created.resource, { type: 'quote', id });
    // As text: every digit counts.
    const page = await textOf(`/v1/events?resource_id=${id.toUpperCase()}`);
    assert.ok(page.includes(`"data":${await textOf(`/v1/quotes/${id}`)}`), page);
    assert.ok(page.includes('"big":9007199254740993'));

    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Status__c: 'confirmed' });
    const updated = await feed.until(
      ({ data, resource }) => resource.id === id && data['status'] === 'confirmed',
    );
    assert.equal(updated.type, 'quote.updated');
    // Nothing that the API shows.
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { OwnerId: null });
    await gateway.org.bin('Quote__c', id);
    const deleted = await feed.until(({ type, resource }) => resource.id === id && type === 'quote.deleted');
    assert.deepEqual(deleted.data, { id });
    await gateway.org.bin('Quote__c', id, 'undelete');
    await feed.until(
      ({ type, resource }) => resource.id === id && type === 'quote.created' && feed.typesOf(id).length > 3,
    );
    assert.deepEqual(feed.typesOf(id), ['quote.created', 'quote.updated', 'quote.deleted', 'quote.created']);
  });

  test('knows what was there before, and has its changes only', async () => {
    const id = gateway.org.memberId;
    await gateway.request(`/v1/members/${id}`);
    await gateway.org.edit('Contact', { External_Id__c: id }, { Title: 'Dr.' });
    await gateway.org.edit('Contact', { External_Id__c: id }, { LastName: 'Changed' });
    const event = await feed.until(({ resource }) => resource.id === id);
    assert.deepEqual([event.type, event.data['last_name']], ['member.updated', 'Changed']);
    // The cached member was dropped with it.
    const { last_name } = (await (await gateway.request(`/v1/members/${id}`)).json()) as {
      last_name: string;
    };
    assert.equal(last_name, 'Changed');
    assert.deepEqual(feed.typesOf(id), ['member.updated']);
  });

  test('finds a record that becomes visible behind what was read', async () => {
    const [early, late] = [randomUUID(), randomUUID()];
    const row = (id: string, secondsAgo: number) => {
      const stamp = new Date(Date.now() - secondsAgo * 1000).toISOString().replace('Z', '+0000');
      return {
        ...{ External_Id__c: id, Name__c: 'late', Source__c: 's', Trip_Id__c: randomUUID() },
        ...{ CreatedDate: stamp, LastModifiedDate: stamp, SystemModstamp: stamp },
      };
    };
    await feed.until(({ type }) => type === 'quote.created');
    await gateway.org.insert('Quote__c', [row(early, 110)]);
    await feed.until(({ resource }) => resource.id === early);
    // Within ten polls.
    await gateway.org.insert('Quote__c', [row(late, 880)]);
    await feed.until(({ resource }) => resource.id === late);
  });

  test('shows each consumer what it may read, by its permissions of the moment', async () => {
    const quotes = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const own = await gateway.newConsumer({ resource: 'quotes', actions: ['read'], records: 'own' });
    const id = await newQuote();
    await feed.until(({ resource }) => resource.id === id);
    const ofQuotes = await new FeedReader(gateway.request, { as: quotes }).next();
    assert.ok(ofQuotes.some(({ resource }) => resource.id === id));
    assert.ok(ofQuotes.every(({ type }) => type.startsWith('quote.')));
    assert.deepEqual(await new FeedReader(gateway.request, { as: own }).next(), []);
    const none = await gateway.newConsumer({ resource: 'consumers', actions: ['read'] });
    assert.deepEqual(await new FeedReader(gateway.request, { as: none }).next(), []);
  });

  test('filters by type and moment, and goes on from the last page', async () => {
    const types = new FeedReader(gateway.request, { query: 'type=quote.deleted&type=member.updated' });
    assert.deepEqual((await types.next()).map(({ type }) => type).toSorted(), [
      'member.updated',
      'quote.deleted',
    ]);
    assert.deepEqual(await types.next(), []);
    const id = await newQuote();
    await gateway.request(`/v1/quotes/${id}`, {
      method: 'DELETE',
      headers: { 'idempotency-key': randomUUID() },
    });
    assert.equal((await types.until(({ resource }) => resource.id === id)).type, 'quote.deleted');
    const later = new Date(Date.now() + 3_600_000).toISOString();
    assert.deepEqual(await new FeedReader(gateway.request, { query: `since=${later}` }).next(), []);
    const one = (await (await gateway.request('/v1/events?limit=1')).json()) as {
      has_more: boolean;
      next_cursor: string;
    };
    assert.equal(one.has_more, true);
    const other = await gateway.request(`/v1/events?type=quote.created&cursor=${one.next_cursor}`);
    await assertProblem(other, 400, 'invalid_cursor', 'cursor');
    await assertProblem(await gateway.request('/v1/events?type=quote.eaten'), 400, 'invalid_request', 'type');
  });

  test('is read from the newest event back, to its beginning', async () => {
    const ids = [await newQuote(), await newQuote(), await newQuote()];
    for (const id of ids) await feed.until(({ resource }) => resource.id === id);
    interface Page {
      data: { id: string; resource: { id: string } }[];
      has_more: boolean;
      next_cursor: string | null;
    }
    const read = async (query: string) =>
      (await (await gateway.request(`/v1/events?type=quote.created${query}`)).json()) as Page;
    const forward = await read('&limit=200');
    const back: Page['data'] = [];
    let page: Page | undefined;
    do {
      const cursor = page?.next_cursor ? `&cursor=${page.next_cursor}` : '';
      page = await read(`&order=newest_first&limit=2${cursor}`);
      back.push(...page.data);
    } while (page.has_more);
    assert.equal(page.next_cursor, null);
    assert.deepEqual(back.toReversed(), forward.data);
    assert.deepEqual(
      back.slice(0, 3).map(({ resource }) => resource.id),
      ids.toReversed(),
    );
    const { next_cursor } = await read('&order=newest_first&limit=1');
    const other = await gateway.request(`/v1/events?type=quote.created&cursor=${next_cursor}`);
    await assertProblem(other, 400, 'invalid_cursor', 'cursor');
  });

  test('costs one call a poll, also where 2,000 records have changed', async () => {
    // Long details, as below, are read by themselves as long as polls look back at them.
    const metered = async () => ((await gateway.org.counters()) as { metered: number }).metered;
    const polls = async () => {
      const metrics = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
      return Number(/^handoff_change_polls_total\{result="ok"\} (\d+)$/m.exec(metrics)?.[1]);
    };
    // In such an order that a poll which ends between the two is never a call too many.
    const before = { polls: await polls(), metered: await metered() };
    const rows = Array.from({ length: 1999 }, () => ({
      ...{ External_Id__c: randomUUID(), Name__c: 'many', Source__c: 's', Trip_Id__c: randomUUID() },
    }));
    const missing = new Set<string>(rows.map((row) => row.External_Id__c));
    await gateway.org.insert('Booking__c', rows);
    await eventually(async () => {
      for (const { resource } of await feed.next()) missing.delete(resource.id);
      assert.equal(missing.size, 0);
    });
    const after = { metered: await metered(), polls: await polls() };
    // One may be under way in the end, and once an hour the objects are described.
    assert.ok(
      after.metered - before.metered <= after.polls - before.polls + 2,
      JSON.stringify({ before, after }),
    );
  });

  test('has the whole of details that take several columns of the CRM', async () => {
    const id = await newQuote(`{"text":"${'x'.repeat(200_000)}","net":1.10}`);
    const event = await feed.until(({ resource }) => resource.id === id);
    assert.deepEqual([event.type, event.data_omitted], ['quote.created', undefined]);
    const page = await textOf(`/v1/events?resource_id=${id}`);
    assert.ok(page.includes(`"data":${await textOf(`/v1/quotes/${id}`)}`));
  });

  test('leaves out data that is too long', async () => {
    const id = await newQuote(`{"text":"${'é'.repeat(131_000)}"}`);
    const event = await feed.until(({ resource }) => resource.id === id);
    assert.deepEqual([event.data, event.data_omitted], [{ id }, true]);
  });

  test('follows the owner of a record: whose it is no longer sees no more of it', async () => {
    const all = ['read', 'write', 'delete'] as const;
    const own = await gateway.newConsumer({ resource: 'quotes', actions: [...all], records: 'own' });
    const reader = new FeedReader(gateway.request, { as: own });
    const body = {
      trip_id: randomUUID(),
      member_id: gateway.org.memberId,
      name: 'a',
      source: 'b',
      details: {},
    };
    const headers = { 'idempotency-key': randomUUID() };
    const made = await gateway.request('/v1/quotes', { as: own, body, headers });
    const { id } = (await made.json()) as { id: string };
    await reader.until(({ resource }) => resource.id === id);
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Consumer_Id__c: null, Name__c: 'secret' });
    await feed.until(({ resource, data }) => resource.id === id && data['name'] === 'secret');
    assert.deepEqual(await reader.next(), []);
    const fromTheBeginning = () => new FeedReader(gateway.request, { as: own, query: `resource_id=${id}` });
    assert.deepEqual(await fromTheBeginning().next(), []);
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Consumer_Id__c: own.id, Name__c: 'mine' });
    await reader.until(({ resource, data }) => resource.id === id && data['name'] === 'mine');
    await gateway.org.bin('Quote__c', id);
    await reader.until(({ type }) => type === 'quote.deleted');
    assert.deepEqual(reader.typesOf(id), ['quote.created', 'quote.updated', 'quote.deleted']);
    // What it was like meanwhile is its own again, too.
    assert.equal((await fromTheBeginning().next()).length, 4);
  });

  test('goes on where people write texts that the database cannot hold', async () => {
    const id = await newQuote();
    await feed.until(({ resource }) => resource.id === id);
    const odd = { Consumer_Id__c: 'con_\0', Name__c: 'a\0b', Status__c: 'c\0d', Actor__c: '\0' };
    await gateway.org.edit('Quote__c', { External_Id__c: id }, odd);
    const { data } = await feed.until(({ type, resource }) => type === 'quote.updated' && resource.id === id);
    assert.partialDeepStrictEqual(data, {
      name: 'a\0b',
      status: 'c\0d',
      created_by: { consumer_id: 'con_\0' },
    });
  });

  test('is in the health report', async () => {
    const health = (await (await gateway.request('/v1/healthz')).json()) as { changes: object };
    assert.partialDeepStrictEqual(health.changes, { connected: true });
  });

  test('misses no event where hidden fields are long', async () => {
    const details = `{"text":"${'x'.repeat(200_000)}"}`;
    const ids = await Promise.all(Array.from({ length: 24 }, () => newQuote(details)));
    for (const id of ids) await feed.until(({ resource }) => resource.id === id);
    const as = await gateway.newConsumer({ resource: 'quotes', actions: ['read'], fields: ['name'] });
    for (const order of ['oldest_first', 'newest_first']) {
      const found = await new FeedReader(gateway.request, { as, query: `order=${order}` }).next();
      const seen = found.map(({ resource }) => resource.id).filter((id) => ids.includes(id));
      assert.deepEqual(seen.toSorted(), ids.toSorted(), order);
    }
  });
});

test('without the reader there is no feed', async () => {
  const off = await startGateway();
  await assertProblem(await off.request('/v1/events'), 404, 'not_found');
  await off.stop();
});
