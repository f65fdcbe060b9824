import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { accept, offerFor, readHandoff, untilHandoff } from '../../../support/handoffs.ts';
import { usePostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';

const postgres = await usePostgres();

describe('a stored hand-off that updates the record of its item', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let gateway: TestGateway;
  let database: Client;
  before(async () => {
    const { url = '' } = postgres ?? {};
    gateway = await startGateway({ DATABASE_URL: url });
    database = new Client({ connectionString: url });
    await database.connect();
  });
  after(async () => {
    await gateway?.stop();
    await database?.end();
  });
  afterEach(() => gateway.org.disarm());

  /** An item that has a record; the same with another name, to be stored; and the record's change with If-Match. */
  const itemWithRecord = async () => {
    const item = offerFor(gateway.org.memberId, { reference: 'HB-1', on_repeat: 'update' });
    const made = await gateway.request('/api/v1/handoff', { body: item });
    const { external_id: id } = (await made.json()) as { external_id: string };
    const path = `/v1/quotes/${id}`;
    const etag = (await gateway.request(path)).headers.get('etag') ?? '';
    const result = { ...item.result, name: 'handed off' };
    return {
      id,
      update: () => accept(gateway, { ...item, result }),
      change: () => {
        const headers = { 'if-match': etag, 'idempotency-key': randomUUID() };
        return gateway.request(path, { method: 'PATCH', body: { name: 'changed' }, headers });
      },
      name: async () => (await gateway.org.records('Quote__c', { External_Id__c: id }))[0]?.['Name__c'],
    };
  };
  const arm = (operation: string, stage: 'before' | 'after') =>
    gateway.org.arm({ match: { operation }, effect: { kind: 'hold', stage }, times: 1 });

  test('is alone with it while it writes', async () => {
    const { id, update, change } = await itemWithRecord();
    const write = await arm('update', 'before');
    await update();
    await write.hit();
    await assertProblem(await change(), 409, 'idempotency_in_progress');
    await write.release();
    await untilHandoff(gateway, id);
    await assertProblem(await change(), 412, 'precondition_failed');
  });

  test('waits while a change with If-Match is between its check and its write', async () => {
    const { id, update, change, name } = await itemWithRecord();
    const read = await arm('query', 'after');
    const changing = change();
    await read.hit();
    await update();
    await untilHandoff(gateway, id, ({ latest_attempts }) => (latest_attempts?.length ?? 0) > 0);
    assert.equal(await name(), 'Hotel Miramar');
    await read.release();
    assert.equal((await changing).status, 200);
    await eventually(async () => {
      await database.query('update handoffs set due_at = now()');
      assert.equal((await readHandoff(gateway, id)).status, 'created');
    });
    assert.equal(await name(), 'handed off');
  });

  test('fails where others have changed it since an attempt whose outcome nobody knows', async () => {
    const { id, update, name } = await itemWithRecord();
    const write = await arm('update', 'after');
    await update();
    await write.hit();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Name__c: 'theirs' });
    await untilHandoff(gateway, id, ({ latest_attempts }) => (latest_attempts?.length ?? 0) > 0);
    await gateway.org.disarm();
    const { problem } = await untilHandoff(gateway, id, ({ status }) => status !== 'accepted');
    assert.deepEqual([problem?.code, await name()], ['conflict', 'theirs']);
    // Whoever tries it again decides so.
    await gateway.request(`/v1/handoffs/${id}/retry`, { method: 'POST' });
    await untilHandoff(gateway, id);
    assert.equal(await name(), 'handed off');
  });
});
