import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { startOrg, type TestOrg } from './org.ts';

let org: TestOrg;
before(async () => {
  org = await startOrg({ seed: { members: 25 } });
});
after(() => org.close());
beforeEach(() => org.control('POST', '/reset'));

const QUOTE = { Name__c: 'Lisbon', Source__c: 'flights' };

describe('counters', () => {
  it('count calls, rows and tokens, and keep the last requests without credentials', async () => {
    await org.data('POST', '/sobjects/Quote__c', QUOTE);
    await org.data('POST', '/sobjects/Quote__c', {});
    await org.login();
    await org.call('GET', `/id/x/y?oauth_token=${org.token}`);
    const { body } = await org.control('GET', '/counters');
    assert.partialDeepStrictEqual(body, {
      calls: { create: 2, token: 1, identity: 1 },
      metered: 2,
      rowsWritten: 1,
    });
    assert.deepEqual(
      body.requests.map((request: { status: number }) => request.status),
      [201, 400, 200, 404],
    );
    assert.equal(JSON.stringify(body).includes(org.token), false);
  });

  it('report when a call arrives', async () => {
    const waiting = org.control('GET', '/await?operation=create&count=2');
    await org.data('POST', '/sobjects/Quote__c', QUOTE);
    await org.data('POST', '/sobjects/Quote__c', QUOTE);
    assert.deepEqual((await waiting).body, { operation: 'create', count: 2 });
    assert.equal((await org.control('GET', '/await?operation=create&count=9&timeoutMs=20')).status, 408);
  });
});

describe('concurrency', () => {
  it('is measured, and limited by a queue in the order of arrival', async () => {
    await org.control('PATCH', '/settings', { maxConcurrent: 1 });
    const hold = await org.control('POST', '/faults', {
      match: { recordKey: 'first' },
      effect: { kind: 'hold' },
    });
    const { id } = hold.body;
    const first = org.data('POST', '/sobjects/Quote__c', { ...QUOTE, Trip_Id__c: 'first' });
    await org.control('GET', `/faults/${id}/await`);
    const second = org.data('GET', '/limits');
    const gone = new AbortController();
    const headers = { authorization: `Bearer ${org.token}` };
    const third = fetch(`${org.url}/services/data/v62.0/limits`, { headers, signal: gone.signal });
    await org.control('GET', '/await?operation=limits&count=2');
    gone.abort();
    await assert.rejects(third);
    const counters = (await org.control('GET', '/counters')).body;
    assert.equal(counters.highestConcurrency, 3);
    await org.control('DELETE', `/faults/${id}`);
    assert.deepEqual([(await first).status, (await second).status], [201, 200]);
    assert.equal((await org.data('GET', '/limits')).status, 200, 'a caller that left blocks nobody');
  });
});

describe('records', () => {
  it('are put in raw, ten thousand in a call', async () => {
    const rows = Array.from({ length: 10_000 }, (_, index) => ({
      ...QUOTE,
      External_Id__c: `k${index}`,
      CreatedDate: '2026-01-02T03:04:05Z',
      LastModifiedDate: '2026-02-02T03:04:05Z',
      Member__r: { External_Id__c: org.simulator.memberIds(1)[0] },
    }));
    const answer = await org.control('POST', '/records/Quote__c', rows);
    assert.equal(answer.status, 200, JSON.stringify(answer.body).slice(0, 200));
    const found = await org.control('GET', '/records/Quote__c?External_Id__c=k9999');
    assert.equal(found.body[0].CreatedDate, '2026-01-02T03:04:05.000+0000');
    assert.equal(found.body[0].SystemModstamp, '2026-02-02T03:04:05.000+0000');
    assert.deepEqual((await org.control('DELETE', '/records/Quote__c')).body, { deleted: 10_000 });
    assert.deepEqual((await org.control('GET', '/records/Quote__c')).body, []);
  });

  it('are put in all or none', async () => {
    const answer = await org.control('POST', '/records/Quote__c', [QUOTE, { Name__c: 'no source' }]);
    assert.equal(answer.status, 400);
    assert.equal((await org.control('GET', '/records/Quote__c')).body.length, 0);
  });

  it('of the seed are the same in every org', async (t) => {
    const ids = org.simulator.memberIds(25);
    assert.equal(new Set(ids).size, 25);
    for (const id of ids)
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const { body } = await org.data('GET', await org.pathOf('Contact', ids[7] ?? ''));
    assert.match(body.Email, /@example\.com$/);
    const other = await startOrg({ seed: { members: 3 } });
    t.after(async () => {
      await other.close();
    });
    assert.deepEqual(other.simulator.memberIds(9), ids.slice(0, 3));
  });
});

describe('reset and settings', () => {
  it('go back to the state of the start', async () => {
    await org.data('POST', '/sobjects/Quote__c', QUOTE);
    await org.control('POST', '/settings', { latencyMs: 1, dailyLimit: 5 });
    await org.control('POST', '/faults', { effect: { kind: 'down' } });
    await org.control('POST', '/reset');
    assert.equal((await org.query('SELECT COUNT() FROM Quote__c')).body.totalSize, 0);
    assert.equal((await org.query('SELECT COUNT() FROM Contact')).body.totalSize, 25);
    const settings = (await org.control('GET', '/settings')).body;
    assert.partialDeepStrictEqual(settings, { latencyMs: 0, maxConcurrent: null, dailyLimit: 100_000 });
  });

  it('can keep the records', async () => {
    await org.data('POST', '/sobjects/Quote__c', QUOTE);
    await org.control('POST', '/reset', { records: false });
    assert.equal((await org.query('SELECT COUNT() FROM Quote__c')).body.totalSize, 1);
  });

  it('refuse unknown settings and callers from a browser', async () => {
    assert.equal((await org.control('POST', '/settings', { latency: 1 })).status, 400);
    assert.equal((await org.control('POST', '/settings', { maxConcurrent: 0 })).status, 400);
    assert.equal((await org.control('GET', '/nothing')).status, 404);
    const page = await fetch(`${org.url}/simulator/reset`, {
      method: 'POST',
      headers: { origin: 'https://x.example' },
    });
    assert.equal(page.status, 403);
  });
});
