import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { type Answer, DATA, useOrg } from './org.ts';

const org = useOrg();
beforeEach(() => org.control('POST', '/reset'));

const QUOTE = { Name__c: 'Lisbon', Source__c: 'flights' };
const arm = async (fault: object): Promise<string> => {
  const answer = await org.control('POST', '/faults', fault);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.id;
};
const create = (key: string): Promise<Answer> =>
  org.data('POST', '/sobjects/Quote__c', { ...QUOTE, External_Id__c: key });
const exists = async (key: string): Promise<boolean> =>
  (await org.control('GET', `/records/Quote__c?External_Id__c=${key}`)).body.length === 1;
const code = (answer: Answer): string => answer.body[0].errorCode;

describe('faults instead of the call', () => {
  it('answer with any error, as often as they are armed for', async () => {
    const effect = {
      kind: 'error',
      status: 500,
      errorCode: 'UNKNOWN_EXCEPTION',
      message: 'An unexpected error occurred',
    };
    await arm({ match: { operation: 'create' }, effect, times: 2 });
    for (const status of [500, 500, 201]) assert.equal((await create('a')).status, status);
    await arm({ effect: { ...effect, contentType: 'text/html', message: '<h1>Oops</h1>' }, times: 1 });
    const html = await org.data('GET', '/limits');
    assert.equal(html.headers.get('content-type'), 'text/html');
    assert.equal(html.body, '<h1>Oops</h1>');
  });

  it('end by themselves where they have a time, and are listed with it', async () => {
    const effect = { kind: 'down' };
    await arm({ effect, name: 'outage', seconds: 60 });
    const [{ name, endsAt }] = (await org.control('GET', '/faults')).body;
    assert.equal(name, 'outage');
    assert.ok(Date.parse(endsAt) > Date.now(), endsAt);
    await org.control('DELETE', '/faults');
    await arm({ effect, seconds: 0 });
    await eventually(async () => assert.deepEqual((await org.control('GET', '/faults')).body, []));
    assert.equal((await create('ended')).status, 201);
  });

  it('play the limits and the outage of an org', async () => {
    await arm({ effect: { kind: 'dailyLimit' }, times: 1 });
    await arm({ effect: { kind: 'concurrentLimit' }, times: 1 });
    await arm({ match: { operation: 'query' }, effect: { kind: 'down' }, times: 1 });
    assert.equal((await org.data('GET', '/limits')).body[0].message, 'TotalRequests Limit exceeded.');
    assert.match((await org.data('GET', '/limits')).body[0].message, /^ConcurrentRequests/);
    const down = await org.query('SELECT Id FROM Quote__c');
    assert.equal(down.status, 503);
    assert.equal(typeof down.body, 'string');
  });

  it('break the connection before anything is written', async () => {
    await arm({ effect: { kind: 'reset' }, times: 1 });
    await assert.rejects(create('a'));
    assert.equal(await exists('a'), false);
  });

  it('never answer', async () => {
    await arm({ effect: { kind: 'hang' }, times: 1 });
    const call = fetch(`${org.url}/services/data`, { signal: AbortSignal.timeout(100) });
    await assert.rejects(call, { name: 'TimeoutError' });
  });
});

describe('faults around the call', () => {
  it('lose the answer of a record that was written', async () => {
    await arm({ match: { operation: 'create' }, effect: { kind: 'loseAnswer' }, times: 1 });
    await assert.rejects(create('a'));
    assert.equal(await exists('a'), true);
    assert.equal(code(await create('a')), 'DUPLICATE_VALUE');
  });

  it('answer late, and wait before they begin', async () => {
    await arm({ match: { recordKey: 'late' }, effect: { kind: 'lateAnswer', ms: 30 }, times: 1 });
    await arm({ match: { recordKey: 'slow' }, effect: { kind: 'latency', ms: 30 }, times: 1 });
    assert.deepEqual(
      (await Promise.all([create('late'), create('slow')])).map((each) => each.status),
      [201, 201],
    );
    const hits = (await org.control('GET', '/faults')).body.map((fault: { hits: number }) => fault.hits);
    assert.deepEqual(hits, [1, 1]);
  });

  it('tell of calls that have yet to take effect, though their caller has given up', async () => {
    const id = await arm({ match: { recordKey: 'given-up' }, effect: { kind: 'latency', ms: 600_000 } });
    const caller = new AbortController();
    const call = fetch(`${org.url}${DATA}/sobjects/Quote__c`, {
      method: 'POST',
      headers: { authorization: `Bearer ${org.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...QUOTE, External_Id__c: 'given-up' }),
      signal: caller.signal,
    });
    await Promise.all([
      assert.rejects(call, { name: 'AbortError' }),
      org.control('GET', `/faults/${id}/await`).then(() => caller.abort()),
    ]);
    assert.equal(org.simulator.isDelaying('given-up'), true);
    assert.equal((await create('in time')).status, 201);
    assert.equal(org.simulator.isDelaying('in time'), false);
  });

  for (const stage of ['before', 'after'] as const) {
    it(`hold a call ${stage} it is written until they are released`, async () => {
      const id = await arm({ match: { recordKey: 'a' }, effect: { kind: 'hold', stage } });
      const call = create('a');
      const held = await org.control('GET', `/faults/${id}/await?count=1`);
      assert.equal(held.body.held, 1);
      assert.equal(await exists('a'), stage === 'after');
      assert.equal((await create('other')).status, 201, 'other calls go on');
      assert.deepEqual((await org.control('POST', `/faults/${id}/release`)).body, { released: 1 });
      assert.equal((await call).status, 201);
      assert.equal(await exists('a'), true);
    });
  }

  it('let go of held calls when they are removed', async () => {
    const id = await arm({ effect: { kind: 'hold' } });
    const call = create('a');
    await org.control('GET', `/faults/${id}/await`);
    await org.control('DELETE', `/faults/${id}`);
    assert.equal((await call).status, 201);
    assert.equal((await org.control('GET', '/faults')).body.length, 0);
  });

  it('write a held record although its caller is gone', async () => {
    const id = await arm({ effect: { kind: 'hold', stage: 'before' } });
    const caller = new AbortController();
    const body = JSON.stringify({ ...QUOTE, External_Id__c: 'a' });
    const headers = { authorization: `Bearer ${org.token}`, 'content-type': 'application/json' };
    const url = `${org.url}/services/data/v62.0/sobjects/Quote__c`;
    const call = fetch(url, { method: 'POST', headers, body, signal: caller.signal });
    await org.control('GET', `/faults/${id}/await`);
    caller.abort();
    await assert.rejects(call);
    await org.control('POST', `/faults/${id}/release`);
    assert.equal(await exists('a'), true);
  });
});

describe('faults of single records', () => {
  const item = (key: string): object => ({ attributes: { type: 'Quote__c' }, ...QUOTE, External_Id__c: key });

  it('lock one row of many', async () => {
    await arm({ match: { object: 'Quote__c', recordKey: 'b' }, effect: { kind: 'lockRow' }, times: 1 });
    const { body } = await org.data('POST', '/composite/sobjects', { records: ['a', 'b', 'c'].map(item) });
    const codes = body.map(
      (each: { errors: { statusCode: string }[] }) => each.errors[0]?.statusCode ?? 'ok',
    );
    assert.deepEqual(codes, ['ok', 'UNABLE_TO_LOCK_ROW', 'ok']);
    assert.match(
      body[1].errors[0].message,
      /^unable to obtain exclusive access to this record or 1 records: /,
    );
    assert.equal((await create('b')).status, 201);
    await arm({ match: { operation: 'createMany' }, effect: { kind: 'lockRow' }, times: 1 });
    assert.equal((await create('d')).status, 201, 'another operation than the one asked for');
    const struck = await org.data('POST', '/composite/sobjects', { records: [item('e')] });
    assert.equal(struck.body[0].success, false);
  });

  it('lock a row against update and delete, and refuse one with any code', async () => {
    await create('a');
    const path = await org.pathOf('Quote__c', 'a');
    await arm({ match: { recordKey: 'a' }, effect: { kind: 'lockRow' }, times: 2 });
    assert.equal(code(await org.data('PATCH', path, { Name__c: 'x' })), 'UNABLE_TO_LOCK_ROW');
    assert.equal(code(await org.data('DELETE', path)), 'UNABLE_TO_LOCK_ROW');
    const effect = {
      kind: 'recordError',
      errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION',
      message: 'No trips on Mondays',
    };
    await arm({ match: { recordKey: 'a' }, effect, times: 1 });
    const refused = await org.data('PATCH', path, { Name__c: 'x' });
    assert.deepEqual([refused.status, code(refused)], [400, 'FIELD_CUSTOM_VALIDATION_EXCEPTION']);
  });
});

describe('matching', () => {
  it('looks at method, path, object and operation', async () => {
    const effect = { kind: 'error', status: 500, errorCode: 'X', message: 'x' };
    await arm({ match: { object: 'Quote__c', method: 'post' }, effect });
    await arm({ match: { path: '/limits' }, effect });
    await arm({ match: { operation: 'query', object: 'Contact' }, effect });
    const collection = { records: [{ attributes: { type: 'Quote__c' }, ...QUOTE }] };
    assert.equal((await create('a')).status, 500);
    assert.equal((await org.data('POST', '/composite/sobjects', collection)).status, 500);
    assert.equal((await org.data('GET', '/limits')).status, 500);
    assert.equal((await org.query('SELECT Id FROM Contact')).status, 500);
    assert.equal((await org.query('SELECT Id FROM Quote__c')).status, 200);
    assert.equal((await org.data('POST', '/sobjects/Contact', { LastName: 'x' })).status, 201);
  });

  it('looks for whole keys, also in the queries of a composite call', async () => {
    await arm({ match: { object: 'Quote__c', recordKey: 'k1' }, effect: { kind: 'down' } });
    const viaComposite = (key: string) => {
      const soql = `SELECT Id FROM Quote__c WHERE External_Id__c IN ('${key}','x')`;
      const url = `/services/data/v62.0/query?q=${encodeURIComponent(soql)}`;
      return org.data('POST', '/composite', { compositeRequest: [{ method: 'GET', url, referenceId: 'q' }] });
    };
    assert.equal((await viaComposite('k1')).status, 503);
    assert.equal((await viaComposite('k10')).status, 200);
    assert.equal((await create('k10')).status, 201);
    assert.equal((await create('k1')).status, 503);
  });

  it('strikes by chance when asked to', async () => {
    await arm({ effect: { kind: 'down' }, probability: 0 });
    assert.equal((await org.data('GET', '/limits')).status, 200);
    await arm({ effect: { kind: 'down' }, probability: 1 });
    assert.equal((await org.data('GET', '/limits')).status, 503);
  });

  it('strikes the same calls for the same seed', async () => {
    const struck = async (seed: number): Promise<number[]> => {
      const id = await arm({ effect: { kind: 'down' }, probability: 0.3, seed });
      const statuses: number[] = [];
      for (let call = 0; call < 40; call++) statuses.push((await org.data('GET', '/limits')).status);
      await org.control('DELETE', `/faults/${id}`);
      return statuses;
    };
    const first = await struck(7);
    assert.deepEqual(new Set(first), new Set([200, 503]));
    assert.deepEqual(await struck(7), first);
    assert.notDeepEqual(await struck(8), first);
  });

  it('refuses what it does not know', async () => {
    const wrong = [
      {},
      { effect: { kind: 'explode' } },
      { effect: { kind: 'latency' } },
      { effect: { kind: 'latency', ms: -1 } },
      { effect: { kind: 'hold', stage: 'later' } },
      { match: { opreation: 'create' }, effect: { kind: 'down' } },
      { effect: { kind: 'down' }, tmies: 1 },
      [],
    ];
    for (const fault of wrong)
      assert.equal((await org.control('POST', '/faults', fault)).status, 400, JSON.stringify(fault));
    assert.equal((await org.control('DELETE', '/faults/none')).status, 404);
  });
});
