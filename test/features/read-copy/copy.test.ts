import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { insertLargeQuotes } from '../../support/large-quotes.ts';
import { copyEnv, read, readPages, untilCopied } from './support.ts';

let gateway: TestGateway;
const tripId = randomUUID();

before(async () => {
  gateway = await startGateway(copyEnv);
  await untilCopied(gateway.request, '/v1/quotes?limit=1');
});
after(() => gateway.stop());

const fromCopy = (path: string) => read(gateway.request, path, 'max-age=60');
const fromCrm = (path: string) => read(gateway.request, path, 'no-cache');

async function write(method: string, path: string, body?: object | string): Promise<Response> {
  const response = await gateway.request(path, {
    method,
    ...(body !== undefined && { body }),
    headers: { 'idempotency-key': randomUUID() },
  });
  assert.ok(response.status < 300, `${response.status} ${await response.clone().text()}`);
  return response;
}

async function newQuote(change: object = {}): Promise<string> {
  const quote = { trip_id: tripId, member_id: gateway.org.memberId, name: 'a', source: 'b', ...change };
  const body = `${JSON.stringify(quote).slice(0, -1)},"details":{"net":612.40,"big":9007199254740993}}`;
  return ((await (await write('POST', '/v1/quotes', body)).json()) as { id: string }).id;
}

/** The copy answers the same as the CRM. */
async function assertSame(path: string): Promise<void> {
  const copied = await untilCopied(gateway.request, path, ({ age }) => age !== null);
  const { age, ...expected } = await fromCrm(path);
  assert.equal(age, null);
  assert.deepEqual({ ...copied, age: null }, { ...expected, age: null });
}

describe('the copy', () => {
  test('has what is written at once, digit for digit, without a call', async () => {
    const id = await newQuote();
    const queries = async () => ((await gateway.org.counters())['calls'] as Record<string, number>)['query'];
    const before = await queries();
    const { body, age, etag } = await fromCopy(`/v1/quotes/${id}`);
    assert.ok(age !== null);
    assert.match(body, /"details":\{"net":612\.40,"big":9007199254740993\}/);
    assert.ok(etag);
    assert.equal(await queries(), before);
    await assertSame(`/v1/quotes/${id}`);
    await write('PATCH', `/v1/quotes/${id}`, { name: 'other' });
    assert.match((await fromCopy(`/v1/quotes/${id}`)).body, /"name":"other"/);
    await assertSame(`/v1/quotes/${id}`);
    await write('DELETE', `/v1/quotes/${id}`);
    assert.equal((await fromCopy(`/v1/quotes/${id}`)).status, 404);
  });

  test('has a hand-off at once', async () => {
    const result = { name: 'n', source: 's', details: { n: 1 } };
    const body = { type: 'booking', trip_id: tripId, member_id: gateway.org.memberId, result };
    const answer = (await (await write('POST', '/api/v1/handoff', body)).json()) as { external_id: string };
    await assertSame(`/v1/bookings/${answer.external_id}`);
  });

  test('answers lists as the CRM does, and cursors are good for both', async () => {
    const trip = randomUUID();
    for (let n = 0; n < 7; n++) await newQuote({ trip_id: trip, name: `n${n}` });
    // A poll that began before the test before had deleted a record has ended.
    await untilCopied(gateway.request, '/v1/quotes?limit=1', ({ age }) => age !== null);
    for (const filter of [`trip_id=${trip}`, `member_id=${gateway.org.memberId}`, 'status=created', ''])
      for (const since of ['', '&updated_since=2020-01-01T00:00:00Z']) {
        const path = `/v1/quotes?limit=3&${filter}${since}`;
        const pages = await readPages(gateway.request, path, ['crm']);
        assert.deepEqual(await readPages(gateway.request, path, ['copy']), pages, path);
        assert.deepEqual(await readPages(gateway.request, path, ['copy', 'crm']), pages, path);
      }
    assert.equal(
      (await readPages(gateway.request, `/v1/quotes?limit=3&trip_id=${trip}`, ['copy'])).length,
      3,
    );
    const pages = await readPages(gateway.request, '/v1/members?limit=2', ['crm']);
    assert.deepEqual(await readPages(gateway.request, '/v1/members?limit=2', ['copy']), pages);
  });

  test('goes on where records have more bytes than a page of them shows', async () => {
    const trip = randomUUID();
    const rows = await insertLargeQuotes(gateway.org, trip);
    const permission = { resource: 'quotes', actions: ['read'], fields: ['name', 'trip_id'] } as const;
    const reader = await gateway.newConsumer(permission as never);
    const as = (path: string, options: object = {}) => gateway.request(path, { ...options, as: reader });
    const path = `/v1/quotes?limit=100&trip_id=${trip}`;
    const listed = async () =>
      (await readPages(as, path, ['copy'])).flatMap((page) => page.match(/(?<="name":")[^"]*/g) ?? []);
    await untilCopied(as, `/v1/quotes/${rows.at(-1)?.External_Id__c}`, ({ age }) => age !== null);
    assert.deepEqual(
      await listed(),
      rows.map(({ Name__c }) => Name__c),
    );
  });

  test('shows what others change and delete', async () => {
    const id = await newQuote();
    await gateway.org.edit(
      'Quote__c',
      { External_Id__c: id },
      { Name__c: 'by somebody', Status__c: 'confirmed' },
    );
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ body }) => body.includes('by somebody'));
    await assertSame(`/v1/quotes/${id}`);
    await assertSame(`/v1/quotes?status=confirmed&trip_id=${tripId}`);
    await gateway.org.bin('Quote__c', id);
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ status }) => status === 404);
    await gateway.org.bin('Quote__c', id, 'undelete');
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ status }) => status === 200);
    await assertSame(`/v1/quotes/${id}`);
  });

  test('goes on where people write texts that the database cannot hold', async () => {
    const id = await newQuote();
    const odd = { Consumer_Id__c: 'con_\0', Name__c: 'a\0b', Status__c: 'c\0d', Actor__c: '\0' };
    await gateway.org.edit('Quote__c', { External_Id__c: id }, odd);
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ body }) => body.includes('c\\u0000d'));
    await assertSame(`/v1/quotes/${id}`);
    const email = `\0${randomUUID()}@example.com`;
    const memberId = randomUUID();
    await gateway.org.insert('Contact', [{ LastName: 'a\0b', Email: email, External_Id__c: memberId }]);
    await untilCopied(gateway.request, `/v1/members/${memberId}`, ({ body }) => body.includes('a\\u0000b'));
    await assertSame(`/v1/members/${memberId}`);
  });

  test('follows a member that gets another External ID, or is deleted and restored', async () => {
    const [memberId, next] = [randomUUID(), randomUUID()];
    await gateway.org.insert('Contact', [{ LastName: 'Moved', External_Id__c: memberId }]);
    const id = await newQuote({ member_id: memberId });
    await untilCopied(gateway.request, `/v1/quotes/${id}`);
    // No poll reads it again by itself.
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { SystemModstamp: '2020-01-01T00:00:00Z' });
    await gateway.org.edit('Contact', { External_Id__c: memberId }, { External_Id__c: next });
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ body }) => body.includes(next));
    await untilCopied(gateway.request, `/v1/quotes?member_id=${memberId}`, ({ body }) =>
      body.startsWith('{"data":[]'),
    );
    await assertSame(`/v1/quotes?member_id=${next}`);
    await gateway.org.bin('Contact', next);
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ body }) => body.includes('"member_id":null'));
    await assertSame(`/v1/quotes/${id}`);
    assert.equal((await untilCopied(gateway.request, `/v1/members/${next}`)).status, 404);
    await gateway.org.bin('Contact', next, 'undelete');
    await untilCopied(gateway.request, `/v1/members/${next}`, ({ status }) => status === 200);
    assert.match((await fromCrm(`/v1/quotes/${id}`)).body, new RegExp(next));
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ age }) => age !== null);
    await assertSame(`/v1/quotes/${id}`);
    await assertSame(`/v1/quotes?member_id=${next}`);
  });

  test('is asked by requests that take an answer of some age alone', async () => {
    const id = await newQuote();
    for (const header of ['no-cache', 'max-age=0', 'max-age=60, no-cache', 'max-age=x', ''])
      assert.equal((await read(gateway.request, `/v1/quotes/${id}`, header)).age, null, header);
    const plain = await gateway.request(`/v1/quotes/${id}`);
    assert.equal(plain.headers.get('age'), null);
    const { etag } = await fromCopy(`/v1/quotes/${id}`);
    const notModified = await gateway.request(`/v1/quotes/${id}`, {
      headers: { 'cache-control': 'max-age=60', 'if-none-match': String(etag) },
    });
    assert.equal(notModified.status, 304);
    assert.notEqual(notModified.headers.get('age'), null);
  });

  test('answers where the CRM fails, if the request takes that, as of its last poll', async () => {
    const id = await newQuote();
    const uncertain = randomUUID();
    const gone = await newQuote({ name: 'gone' });
    for (const path of [`/v1/quotes/${id}`, `/v1/quotes?trip_id=${uncertain}`])
      await untilCopied(gateway.request, path, ({ age }) => age !== null);
    // Without a trace: no poll sees it, and the list no longer has it once somebody has asked for it.
    await gateway.org.remove('Quote__c', [gone]);
    assert.equal((await fromCrm(`/v1/quotes/${gone}`)).status, 404);
    await gateway.org.arm({ match: { operation: 'create' }, effect: { kind: 'loseAnswer' } });
    const error = { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'out of order' };
    await gateway.org.arm({ match: { path: 'query' }, effect: error });
    const quote = {
      trip_id: uncertain,
      member_id: gateway.org.memberId,
      name: 'a',
      source: 'b',
      details: {},
    };
    const written = await gateway.request('/v1/quotes', {
      body: quote,
      headers: { 'idempotency-key': randomUUID() },
    });
    assert.ok(written.status >= 500, String(written.status));
    const list = await read(gateway.request, `/v1/quotes?trip_id=${tripId}`, 'stale-if-error=3600');
    assert.equal(list.status, 200, list.body);
    assert.notEqual(list.age, null);
    assert.deepEqual([list.body.includes(id), list.body.includes(gone)], [true, false]);
    for (const path of [`/v1/quotes/${id}`, `/v1/members/${gateway.org.memberId}`]) {
      const answer = await read(gateway.request, path, 'no-cache, stale-if-error=3600');
      assert.equal(answer.status, 200, answer.body);
      assert.notEqual(answer.age, null);
      assert.ok((await read(gateway.request, path, 'no-cache')).status >= 500);
      assert.ok((await read(gateway.request, path, 'no-cache, stale-if-error=0')).status >= 500);
    }
    const trip = await read(gateway.request, `/v1/quotes?trip_id=${uncertain}`, 'stale-if-error=3600');
    assert.equal(trip.status, 200, trip.body);
    assert.ok(trip.age !== null && trip.body.startsWith('{"data":[]'));
    const never = await read(gateway.request, `/v1/quotes/${randomUUID()}`, 'stale-if-error=3600');
    assert.ok(never.status >= 500);
    await gateway.org.disarm();
    // Until the reader has read again what is uncertain.
    await untilCopied(gateway.request, '/v1/quotes?limit=1', ({ age }) => age !== null);
  });

  test('lacks no acknowledged write where the CRM fails: the list has it, or is an error', async () => {
    const id = await newQuote();
    const path = `/v1/quotes?trip_id=${tripId}`;
    await untilCopied(gateway.request, path, ({ age }) => age !== null);
    const error = { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'out of order' };
    const key = { 'idempotency-key': randomUUID() };
    const change = () =>
      gateway.request(`/v1/quotes/${id}`, { method: 'PATCH', body: { name: 'changed' }, headers: key });
    const listed = () => read(gateway.request, path, 'stale-if-error=3600');
    await gateway.org.arm({ match: { operation: 'update' }, effect: { kind: 'loseAnswer' }, times: 1 });
    // The look-up after the loss.
    await gateway.org.arm({ match: { path: 'WHERE Id IN' }, effect: error });
    const first = await change();
    assert.ok(first.status >= 500);
    await gateway.org.arm({ match: { path: 'query' }, effect: error });
    const during = await listed();
    // What nobody was told may be in it or not.
    assert.equal(during.status, 200, during.body);
    const alone = await read(gateway.request, `/v1/quotes/${id}`, 'stale-if-error=3600');
    assert.ok(alone.status === 200 && alone.age !== null, alone.body);
    await gateway.org.disarm();
    for (let status = first.status; status !== 200; ) ({ status } = await change());
    await gateway.org.arm({ match: { path: 'query' }, effect: error });
    for (let reads = 0; reads < 3; reads++) {
      const { status, body } = await listed();
      assert.ok(status >= 500 || body.includes('"name":"changed"'), body);
    }
    await gateway.org.disarm();
    await write('DELETE', `/v1/quotes/${id}`);
    await gateway.org.arm({ match: { path: 'query' }, effect: error });
    const { status, body } = await listed();
    assert.ok(status >= 500 || !body.includes(id), body);
    await gateway.org.disarm();
    await untilCopied(gateway.request, '/v1/quotes?limit=1', ({ age }) => age !== null);
  });

  test('answers where the CRM takes no more calls, if the request takes that', async () => {
    const id = await newQuote();
    await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ age }) => age !== null);
    const effect = { kind: 'error', status: 429, errorCode: 'TOO_MANY_REQUESTS', message: 'later' };
    await gateway.org.arm({ match: { path: 'query' }, effect });
    for (const path of [`/v1/quotes/${id}`, '/v1/quotes?limit=1']) {
      const answer = await read(gateway.request, path, 'no-cache, stale-if-error=3600');
      assert.equal(answer.status, 200, answer.body);
      assert.notEqual(answer.age, null);
      assert.equal((await read(gateway.request, path, 'no-cache')).status, 503);
    }
    await gateway.org.disarm();
  });

  test('shows a consumer its own records only', async () => {
    const permission = { resource: 'quotes', actions: ['read', 'write'], records: 'own' } as const;
    const own = await gateway.newConsumer(permission as never);
    const foreign = await newQuote();
    const as = (path: string, options: object = {}) => gateway.request(path, { ...options, as: own });
    const quote = {
      trip_id: tripId,
      member_id: gateway.org.memberId,
      name: 'mine',
      source: 'b',
      details: {},
    };
    const made = await as('/v1/quotes', { body: quote, headers: { 'idempotency-key': randomUUID() } });
    const { id } = (await made.json()) as { id: string };
    assert.equal((await read(as, `/v1/quotes/${id}`, 'max-age=60')).status, 200);
    // The CRM answers for both: a foreign record cannot be distinguished from one that does not exist, by Age or time either.
    const queries = async () =>
      ((await gateway.org.counters())['calls'] as Record<string, number>)['query'] ?? 0;
    for (const absent of [foreign, randomUUID()]) {
      const before = await queries();
      const { status, age } = await read(as, `/v1/quotes/${absent}`, 'max-age=60');
      assert.deepEqual([status, age], [404, null]);
      assert.equal(await queries(), before + 1);
    }
    const list = await read(as, '/v1/quotes', 'max-age=60');
    assert.notEqual(list.age, null);
    assert.deepEqual(
      (JSON.parse(list.body) as { data: { id: string }[] }).data.map((one) => one.id),
      [id],
    );
  });

  test('is in health and in the metrics', async () => {
    const { copy } = (await (await gateway.request('/v1/healthz')).json()) as {
      copy: Record<string, unknown>;
    };
    assert.equal(copy['connected'], true);
    assert.ok(Number(copy['records']) > 0);
    assert.ok(Number(copy['age_seconds']) >= 0);
    const metrics = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    assert.match(metrics, /handoff_copy_reads_total\{source="copy"\} \d/);
    assert.match(metrics, /handoff_copy_age_seconds \d/);
  });
});
