import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createJobQueue } from '../../../../src/platform/jobs/job-queue.ts';
import { createMetrics } from '../../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../../src/platform/store/database.ts';
import { openPostgres } from '../../../../src/platform/store/postgres.ts';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { tripFor } from '../../../support/handoffs.ts';
import { recordLog } from '../../../support/log.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';

const postgres = await usePostgres();

describe('a trip that nobody has finished', { skip: !postgres && 'no PostgreSQL' }, () => {
  let database: Database;
  let gateway: TestGateway;
  let jobs: ReturnType<typeof createJobQueue>;

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    const { log } = recordLog();
    gateway = await startGateway({ DATABASE_URL: url });
    database = openPostgres({ url, log });
    jobs = createJobQueue({ database, log, metrics: createMetrics(), jobs: [] });
    await jobs.start();
    const isMade = "select 1 from pgboss.queue where name = 'clear-idempotency-claims'";
    await eventually(async () => assert.equal((await database.execute(isMade)).rows.length, 1));
  });
  after(async () => {
    await jobs.stop();
    await database.close();
    await gateway.stop();
  });

  const clear = async (key: string) => {
    await database.execute(`
      update idempotency_claims set lease_until = now() - interval '25 hours',
        last_attempt_at = now() - interval '25 hours' where key = '${key}' and completed_at is null`);
    await jobs.runSoon('clear-idempotency-claims');
    const isOpen = `select 1 from idempotency_claims where key = '${key}' and completed_at is null`;
    await eventually(async () => assert.equal((await database.execute(isOpen)).rows.length, 0));
  };
  const item = (name: string, type = 'quote') => ({
    type,
    result: { name, source: 'hotelbeds', details: {} },
  });
  const failBookings = () =>
    gateway.org.arm({
      match: { object: 'Booking__c' },
      effect: { kind: 'recordError', errorCode: 'UNKNOWN_EXCEPTION', message: 'x' },
    });
  const namesOf = async (tripId: string) =>
    (await gateway.org.records('Quote__c', { Trip_Id__c: tripId })).map((row) => row['Name__c']).toSorted();

  test('is answered by what it has made, and makes nothing twice', async () => {
    const fault = await failBookings();
    const body = tripFor(gateway.org.memberId, {
      atomic: false,
      items: [item('a'), item('b', 'booking'), item('c')],
    });
    const key = randomUUID();
    const send = () => gateway.request('/api/v1/handoffs', { body, headers: { 'idempotency-key': key } });
    assert.equal((await send()).status, 502);
    await fault.remove();
    await clear(key);
    const response = await send();
    assert.equal(response.status, 201);
    assert.equal(response.headers.get('idempotent-replayed'), 'true');
    const { trip_id, items } = (await response.json()) as {
      trip_id: string;
      items: { status: string; external_id: string | null; problem?: { code: string } }[];
    };
    assert.equal(trip_id, body.trip_id);
    assert.deepEqual(
      items.map(({ status, problem }) => [status, problem?.code]),
      [
        ['created', undefined],
        ['failed', 'crm_timeout'],
        ['created', undefined],
      ],
    );
    assert.deepEqual(await namesOf(body.trip_id), ['a', 'c']);
  });

  test('frees its key where it has made nothing', async () => {
    const fault = await failBookings();
    const body = tripFor(gateway.org.memberId, { items: [item('a'), item('b', 'booking')] });
    const key = randomUUID();
    const send = () => gateway.request('/api/v1/handoffs', { body, headers: { 'idempotency-key': key } });
    assert.ok((await send()).status >= 500);
    await fault.remove();
    await clear(key);
    const response = await send();
    assert.equal(response.headers.get('idempotent-replayed'), null);
    assert.equal(response.status, 201, await response.text());
    assert.deepEqual(await namesOf(body.trip_id), ['a']);
  });
});
