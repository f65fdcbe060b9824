import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { HandoffDelivery } from '../../../src/features/handoff/handoff-delivery.ts';
import { HandoffsTable } from '../../../src/features/handoff/handoffs-table.ts';
import { makeConsumerId } from '../../../src/identity/consumers/credentials.ts';
import type { Call } from '../../../src/platform/base/call.ts';
import { now } from '../../../src/platform/base/chance.ts';
import type { Mode } from '../../../src/platform/base/mode.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { resourcesOf } from '../../../src/records/mapping.ts';
import type { Records } from '../../../src/records/records.ts';
import { openTestDatabase, type TestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';

describe('the record of a cancelled hand-off', () => {
  let opened: TestDatabase;
  let database: Database;
  before(async () => {
    opened = await openTestDatabase();
    [database] = opened.replicas;
  });
  after(() => opened.stop());

  async function addCancelled(consumerId: string): Promise<string> {
    const externalId = randomUUID();
    await sql`
      insert into handoffs (external_id, type, status, consumer_id, request_id, trip_id, may_exist, fence, lease_until,
        due_at, accepted_at, completed_at)
      values (${externalId}, 'quote', 'cancelled', ${consumerId}, 'r', ${randomUUID()}, true, 1, to_timestamp(0),
        now(), now(), now())`.execute(database.sql);
    return externalId;
  }

  /** What the delivery of a mode looks for first. */
  async function firstLookUp(mode: Mode): Promise<{ externalId: string; consumerId: string | undefined }> {
    const stop = new AbortController();
    return new Promise((resolve, reject) => {
      const find = (_: unknown, externalId: string, { consumerId }: Call) => {
        stop.abort();
        resolve({ externalId, consumerId });
        return Promise.resolve(undefined);
      };
      const delivery = new HandoffDelivery({
        records: { find } as unknown as Records,
        resources: resourcesOf(),
        table: new HandoffsTable(database, mode),
        batchMs: 1000,
        lease: async () => ({ deadline: now() + 10_000 }),
        settle: async () => {},
        visibleTo: () => 'all',
        log: recordLog().log,
      });
      delivery.run(stop.signal).catch(reject);
    });
  }

  it('is looked for by the delivery of its mode, and that of a test consumer in its world', async () => {
    const [live, test] = [makeConsumerId(), makeConsumerId('test')];
    const [ofLive, ofTest] = [await addCancelled(live), await addCancelled(test)];
    assert.deepEqual(await firstLookUp('test'), { externalId: ofTest, consumerId: test });
    assert.deepEqual(await firstLookUp('live'), { externalId: ofLive, consumerId: undefined });
  });
});
