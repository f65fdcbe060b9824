import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { clearCopy } from '../../../src/features/read-copy/copy.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { recordLog } from '../../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../../support/postgres.ts';
import { copyEnv, read, untilCopied } from './support.ts';

const postgres = await startPostgres();

describe('a quote whose member is deleted and restored', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  let database: Database;

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    gateway = await startGateway({ ...copyEnv, DATABASE_URL: url });
    database = openPostgres({ url, log: recordLog().log });
    await untilCopied(gateway.request, '/v1/quotes?limit=1');
  });
  after(async () => {
    await database?.close();
    await gateway?.stop();
    await postgres?.stop();
  });

  const newMember = async () => {
    const id = randomUUID();
    await gateway.org.insert('Contact', [{ LastName: 'Gone', External_Id__c: id }]);
    return id;
  };

  const newQuote = async (memberId: string): Promise<string> => {
    const response = await gateway.request('/v1/quotes', {
      method: 'POST',
      headers: { 'idempotency-key': randomUUID() },
      body: { trip_id: randomUUID(), member_id: memberId, name: 'a', source: 'b', details: {} },
    });
    assert.equal(response.status, 201, await response.clone().text());
    return ((await response.json()) as { id: string }).id;
  };

  const isShown = (id: string, memberId: string | null) =>
    untilCopied(gateway.request, `/v1/quotes/${id}`, ({ body }) =>
      body.includes(`"member_id":${JSON.stringify(memberId)}`),
    );

  /** As if so much time had passed since all that the copy has was noted. */
  async function clearAfterDays(days: number): Promise<void> {
    await database.execute(
      `update copied_records set written_at = written_at - make_interval(days => ${days}),
        seen_at = seen_at - make_interval(days => ${days})`,
    );
    await clearCopy(database);
  }

  async function restore(memberId: string, id: string): Promise<void> {
    // No poll reads it again by itself.
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { SystemModstamp: '2020-01-01T00:00:00Z' });
    await gateway.org.bin('Contact', memberId, 'undelete');
    await isShown(id, memberId);
    const { body } = await read(gateway.request, `/v1/quotes/${id}`, 'no-cache');
    assert.equal(
      (await untilCopied(gateway.request, `/v1/quotes/${id}`, ({ age }) => age !== null)).body,
      body,
    );
  }

  test('names it again, however many days the deletion took', async () => {
    const memberId = await newMember();
    const id = await newQuote(memberId);
    await isShown(id, memberId);
    await gateway.org.bin('Contact', memberId);
    await isShown(id, null);
    await clearAfterDays(14);
    await restore(memberId, id);
  });

  test('names it again, though it was changed when the deletion was not read yet', async () => {
    for (const how of ['the org', 'the API']) {
      const memberId = await newMember();
      const id = await newQuote(memberId);
      await isShown(id, memberId);
      await gateway.org.bin('Contact', memberId);
      if (how === 'the org')
        await gateway.org.edit('Quote__c', { External_Id__c: id }, { Name__c: 'changed' });
      else
        await gateway.request(`/v1/quotes/${id}`, {
          method: 'PATCH',
          headers: { 'idempotency-key': randomUUID() },
          body: { name: 'changed' },
        });
      await untilCopied(gateway.request, `/v1/members/${memberId}`, ({ status }) => status === 404);
      await isShown(id, null);
      await clearAfterDays(14);
      await restore(memberId, id);
    }
  });
});
