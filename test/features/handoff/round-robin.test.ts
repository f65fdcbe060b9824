import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { HandoffsTable } from '../../../src/features/handoff/handoffs-table.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { useTestDatabase } from '../../support/databases.ts';

describe('hand-offs that failed', () => {
  const opened = useTestDatabase();
  let database: Database;
  before(async () => {
    [database] = opened.replicas;
  });

  async function addFailing(consumerId: string, count: number): Promise<void> {
    for (let added = 0; added < count; added++) {
      await sql`
        insert into handoffs (external_id, type, status, consumer_id, request_id, trip_id, member_id, name, source, details,
          troubles, may_exist, fence, lease_until, due_at, accepted_at)
        values (${randomUUID()}, 'quote', 'accepted', ${consumerId}, 'r', ${randomUUID()}, ${randomUUID()}, 'n', 's', '{}',
          1, true, 1, to_timestamp(0), now(), now())`.execute(database.sql);
    }
  }

  it('are tried round-robin by consumer', async () => {
    await addFailing('a', 4);
    await addFailing('b', 2);
    await addFailing('c', 1);
    const table = new HandoffsTable(database);
    const taken: string[] = [];
    for (let tries = 0; tries < 8; tries++)
      taken.push(...(await table.takeFailing('quote', 'once')).map(({ consumerId }) => consumerId));
    assert.deepEqual(taken, ['a', 'b', 'c', 'a', 'b', 'a', 'a']);
  });
});
