import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { useOrg } from './org.ts';

const org = useOrg();
beforeEach(() => org.control('POST', '/reset'));

const quote = (more: object = {}): object => ({
  attributes: { type: 'Quote__c' },
  Name__c: 'Lisbon',
  Source__c: 'flights',
  ...more,
});
const many = (count: number): object[] =>
  Array.from({ length: count }, (_, index) => quote({ External_Id__c: `k${index}` }));
const count = async (object = 'Quote__c'): Promise<number> =>
  (await org.query(`SELECT COUNT() FROM ${object}`)).body.totalSize;

describe('collections', () => {
  it('create up to 200 records, each with its own outcome, in order', async () => {
    await org.data('POST', '/sobjects/Contact', { External_Id__c: 'm1', LastName: 'Okafor' });
    const answer = await org.data('POST', '/composite/sobjects', {
      records: [
        quote({ External_Id__c: 'a', Member__r: { External_Id__c: 'm1' } }),
        quote({ External_Id__c: 'a' }),
        quote({ Member__r: { External_Id__c: 'gone' } }),
        quote({ Name__c: null }),
        quote({ External_Id__c: 'b' }),
      ],
    });
    assert.equal(answer.status, 200);
    const codes = answer.body.map(
      (item: { errors: { statusCode: string }[] }) => item.errors[0]?.statusCode ?? 'ok',
    );
    assert.deepEqual(codes, ['ok', 'DUPLICATE_VALUE', 'INVALID_FIELD', 'REQUIRED_FIELD_MISSING', 'ok']);
    assert.equal('created' in answer.body[0], false);
    assert.equal('id' in answer.body[1], false);
    assert.equal(await count(), 2);
  });

  it('refuse more than 200 as a whole', async () => {
    assert.equal((await org.data('POST', '/composite/sobjects', { records: many(200) })).body.length, 200);
    const answer = await org.data('POST', '/composite/sobjects', { records: many(201) });
    assert.equal(answer.status, 400);
    assert.equal(answer.body[0].errorCode, 'EXCEEDED_ID_LIMIT');
    assert.equal(await count(), 200);
  });

  it('write nothing with allOrNone and one failure', async () => {
    const records = [
      quote({ External_Id__c: 'a' }),
      quote({ Source__c: null }),
      quote({ External_Id__c: 'b' }),
    ];
    const { body } = await org.data('POST', '/composite/sobjects', { allOrNone: true, records });
    const codes = body.map((item: { errors: { statusCode: string }[] }) => item.errors[0]?.statusCode);
    const rolledBack = 'ALL_OR_NONE_OPERATION_ROLLED_BACK';
    assert.deepEqual(codes, [rolledBack, 'REQUIRED_FIELD_MISSING', rolledBack]);
    assert.ok(body.every((item: { success: boolean }) => !item.success));
    assert.equal(await count(), 0);
    assert.equal(
      (await org.data('POST', '/sobjects/Quote__c', { External_Id__c: 'a', Name__c: 'x', Source__c: 'y' }))
        .status,
      201,
    );
  });

  it('mix types in at most ten runs', async () => {
    const contact = (index: number): object => ({ attributes: { type: 'Contact' }, LastName: `L${index}` });
    const mixed = (runs: number): object[] =>
      Array.from({ length: runs }, (_, index) => (index % 2 ? quote() : contact(index)));
    assert.equal((await org.data('POST', '/composite/sobjects', { records: mixed(10) })).status, 200);
    assert.equal((await org.data('POST', '/composite/sobjects', { records: mixed(11) })).status, 400);
    assert.equal(await count('Contact'), 5);
  });

  it('refuse a request that is malformed as a whole', async () => {
    for (const records of [
      undefined,
      {},
      [5],
      [{ Name__c: 'no type' }],
      [{ attributes: { type: 'Nope' } }],
    ]) {
      assert.equal((await org.data('POST', '/composite/sobjects', { records })).status, 400);
    }
  });

  it('update by id', async () => {
    const { body: made } = await org.data('POST', '/composite/sobjects', { records: many(2) });
    const unknown = `${made[0].id.slice(0, 9)}zzzzzz`;
    const attributes = { type: 'Quote__c' };
    const { body } = await org.data('PATCH', '/composite/sobjects', {
      records: [
        { attributes, id: made[0].id, Name__c: 'Porto' },
        { attributes, id: unknown, Name__c: 'Porto' },
        { attributes, Name__c: 'Porto' },
        { attributes, id: '12', Name__c: 'Porto' },
        { attributes, id: made[1].id, Name__c: 'x'.repeat(256) },
      ],
    });
    const codes = body.map(
      (item: { errors: { statusCode: string }[] }) => item.errors[0]?.statusCode ?? 'ok',
    );
    assert.deepEqual(codes, [
      'ok',
      'INVALID_CROSS_REFERENCE_KEY',
      'MISSING_ARGUMENT',
      'MALFORMED_ID',
      'STRING_TOO_LONG',
    ]);
    assert.equal((await org.data('GET', `/sobjects/Quote__c/${made[0].id}`)).body.Name__c, 'Porto');
  });

  it('delete by id, all or one by one', async () => {
    const { body: made } = await org.data('POST', '/composite/sobjects', { records: many(3) });
    const ids = made.map((item: { id: string }) => item.id);
    const bad = [ids[0], 'nonsense', ids[1]].join(',');
    const all = await org.data('DELETE', `/composite/sobjects?ids=${bad}&allOrNone=true`);
    assert.ok(all.body.every((item: { success: boolean }) => !item.success));
    assert.equal(await count(), 3);
    const some = await org.data('DELETE', `/composite/sobjects?ids=${bad}`);
    assert.deepEqual(
      some.body.map((item: { success: boolean }) => item.success),
      [true, false, true],
    );
    const again = await org.data('DELETE', `/composite/sobjects?ids=${ids[0]}`);
    assert.equal(again.body[0].errors[0].statusCode, 'ENTITY_IS_DELETED');
    assert.equal(await count(), 1);
  });

  it('count as one metered call', async () => {
    const before = (await org.control('GET', '/counters')).body;
    await org.data('POST', '/composite/sobjects', { records: many(50) });
    const after = (await org.control('GET', '/counters')).body;
    assert.equal(after.metered - before.metered, 1);
    assert.equal(after.rowsWritten - before.rowsWritten, 50);
  });
});
