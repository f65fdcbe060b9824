import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Answer, type Parsed, useOrg } from './org.ts';

const org = useOrg();

const create = (name: string): Promise<Answer> =>
  org.data('POST', '/sobjects/Quote__c', { Name__c: name, Source__c: 'flights', External_Id__c: 'k' });

describe('deleted records', () => {
  const KEY = "External_Id__c = 'k'";
  const found = async (resource: string): Promise<boolean[]> => {
    const soql = `SELECT Id, IsDeleted FROM Quote__c WHERE ${KEY}`;
    const { body } = await org.data('GET', `/${resource}?q=${encodeURIComponent(soql)}`);
    return body.records.map((row: Parsed) => row.IsDeleted);
  };

  it('free their unique values, are found by queryAll, and can be restored or purged', async () => {
    const { body } = await create('a');
    await org.data('DELETE', `/sobjects/Quote__c/${body.id}`);
    assert.deepEqual([await found('query'), await found('queryAll')], [[], [true]]);

    const second = await create('b');
    assert.equal(second.status, 201);
    assert.deepEqual((await found('queryAll')).sort(), [false, true]);
    const taken = await org.control('POST', '/records/Quote__c/undelete?External_Id__c=k');
    assert.equal(taken.body.errorCode, 'DUPLICATE_VALUE');

    await org.control('DELETE', '/records/Quote__c?External_Id__c=k');
    assert.deepEqual(await found('queryAll'), [true]);
    await org.control('POST', '/records/Quote__c/undelete?External_Id__c=k');
    assert.deepEqual(await found('query'), [false]);

    await org.control('POST', '/records/Quote__c/delete?External_Id__c=k');
    assert.deepEqual((await org.control('POST', '/records/Quote__c/purge?External_Id__c=k')).body, {
      purged: 1,
    });
    assert.deepEqual(await found('queryAll'), []);
  });
});
