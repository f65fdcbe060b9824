import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { startOrg, type TestOrg } from './org.ts';

let org: TestOrg;
before(async () => {
  org = await startOrg();
});
after(() => org.close());
beforeEach(() => org.control('POST', '/reset'));

const QUOTE = { Name__c: 'A week in Lisbon', Source__c: 'flights' };
const PATH = '/sobjects/Quote__c/External_Id__c/k-1';

describe('upsert by external id', () => {
  it('creates with 201 and updates with 200 and a body from v46', async () => {
    const created = await org.data('PATCH', PATH, QUOTE);
    assert.equal(created.status, 201);
    assert.equal(created.body.created, true);
    const updated = await org.data('PATCH', PATH, { Name__c: 'Porto' });
    assert.equal(updated.status, 200);
    assert.deepEqual(updated.body, { id: created.body.id, success: true, errors: [], created: false });
    const read = await org.data('GET', `${PATH}?fields=Name__c,External_Id__c`);
    assert.equal(read.body.Name__c, 'Porto');
    assert.equal(read.body.External_Id__c, 'k-1');
  });

  it('answers without created, and an update with 204, up to v45', async () => {
    const created = await org.call('PATCH', `/services/data/v45.0${PATH}`, QUOTE);
    assert.equal(created.status, 201);
    assert.equal('created' in created.body, false);
    const updated = await org.call('PATCH', `/services/data/v45.0${PATH}`, QUOTE);
    assert.equal(updated.status, 204);
    assert.equal(updated.body, '');
  });

  it('refuses its key in the body', async () => {
    const answer = await org.data('PATCH', PATH, { ...QUOTE, External_Id__c: 'k-1' });
    assert.equal(answer.status, 400);
    assert.equal(answer.body[0].errorCode, 'INVALID_FIELD');
    assert.match(
      answer.body[0].message,
      /^The External_Id__c field should not be specified in the sobject data/,
    );
  });

  it('only updates when asked to', async () => {
    const missing = await org.data('PATCH', `${PATH}?updateOnly=true`, QUOTE);
    assert.equal(missing.status, 404);
    await org.data('PATCH', PATH, QUOTE);
    assert.equal((await org.data('PATCH', `${PATH}?updateOnly=true`, { Name__c: 'x' })).status, 200);
  });

  it('answers 300 with the candidates when several match, and writes nothing', async () => {
    await org.data('POST', '/sobjects/Sample__c', { Code__c: 'Same' });
    await org.data('POST', '/sobjects/Sample__c', { Code__c: 'same' });
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      const body = method === 'PATCH' ? { Amount__c: 1 } : undefined;
      const answer = await org.data(method, '/sobjects/Sample__c/Code__c/SAME', body);
      assert.equal(answer.status, 300, method);
      assert.equal(answer.body.length, 2);
      assert.match(answer.body[0], /^\/services\/data\/v62\.0\/sobjects\/Sample__c\/\w{18}$/);
    }
    const rows = await org.query('SELECT Id FROM Sample__c WHERE Amount__c = null');
    assert.equal(rows.body.totalSize, 2);
  });

  it('folds case unless the field is case-sensitive', async () => {
    await org.data('PATCH', '/sobjects/Sample__c/Folded__c/abc', { Amount__c: 1 });
    assert.equal(
      (await org.data('PATCH', '/sobjects/Sample__c/Folded__c/ABC', { Amount__c: 2 })).status,
      200,
    );
    await org.data('PATCH', PATH, QUOTE);
    assert.equal((await org.data('PATCH', '/sobjects/Quote__c/External_Id__c/K-1', QUOTE)).status, 201);
  });

  it('does not know other fields as keys', async () => {
    for (const field of ['Nothing__c', 'Name__c']) {
      const answer = await org.data('PATCH', `/sobjects/Quote__c/${field}/x`, QUOTE);
      assert.equal(answer.status, 404);
      assert.match(answer.body[0].message, /^Provided external ID field does not exist or is not accessible/);
    }
  });

  it('takes encoded keys, reads and deletes by them', async () => {
    const path = `/sobjects/Quote__c/External_Id__c/${encodeURIComponent("a/b'c %")}`;
    assert.equal((await org.data('PATCH', path, QUOTE)).status, 201);
    assert.equal((await org.data('GET', path)).body.External_Id__c, "a/b'c %");
    assert.equal((await org.data('DELETE', path)).status, 204);
    const gone = await org.data('GET', path);
    assert.equal(gone.status, 404);
    assert.deepEqual(gone.body, [
      { errorCode: 'NOT_FOUND', message: 'The requested resource does not exist' },
    ]);
  });

  it('links the parent by its own external id', async () => {
    await org.data('PATCH', '/sobjects/Contact/External_Id__c/m1', { LastName: 'Okafor' });
    const answer = await org.data('PATCH', PATH, { ...QUOTE, Member__r: { External_Id__c: 'm1' } });
    assert.equal(answer.status, 201);
    const rows = await org.query(
      "SELECT Member__r.LastName FROM Quote__c WHERE Member__r.External_Id__c = 'm1'",
    );
    assert.equal(rows.body.records[0].Member__r.LastName, 'Okafor');
  });

  it('is possible by Id, and POST to that resource creates', async () => {
    const created = await org.data('POST', '/sobjects/Quote__c/Id', QUOTE);
    assert.equal(created.status, 201);
    assert.equal(
      (await org.data('PATCH', `/sobjects/Quote__c/Id/${created.body.id}`, { Name__c: 'x' })).status,
      204,
    );
  });

  it('of one new key by two callers at once makes one record', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => org.data('PATCH', PATH, QUOTE)));
    assert.deepEqual(answers.map((answer) => answer.status).sort(), [...Array(9).fill(200), 201]);
  });
});
