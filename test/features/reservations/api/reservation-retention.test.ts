import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { createJobQueue } from '../../../../src/platform/jobs/job-queue.ts';
import { createMetrics } from '../../../../src/platform/observability/metrics.ts';
import { openPostgres } from '../../../../src/platform/store/postgres.ts';
import { eventually } from '../../../support/eventually.ts';
import { startGateway } from '../../../support/gateway.ts';
import { recordLog } from '../../../support/log.ts';
import { usePostgres } from '../../../support/postgres.ts';
import { newReservation } from '../../../support/reservations.ts';

const postgres = await usePostgres();

test('the job erases the personal data of reservations after the retention, and reads still answer', async (context) => {
  if (!postgres) return context.skip('no PostgreSQL');
  const gateway = await startGateway({ DATABASE_URL: postgres.url, RESERVATION_RETENTION_DAYS: '0.5' });
  const { log } = recordLog();
  const database = openPostgres({ url: postgres.url, log });
  const jobs = createJobQueue({ database, log, metrics: createMetrics(), jobs: [] });
  context.after(async () => {
    await jobs.stop();
    await database.close();
    await gateway.stop();
  });
  const make = async () => {
    const body = newReservation(gateway.org.memberId);
    const headers = { 'idempotency-key': randomUUID() };
    const response = await gateway.request('/v1/reservations', { body, headers });
    return (await response.json()) as { id: string; name: string; dining: object };
  };
  const read = async (id: string) =>
    (await (await gateway.request(`/v1/reservations/${id}`)).json()) as { erased_at?: string };
  const [old, recent] = [await make(), await make()];
  // The partner books no table in the past.
  const yesterday = new Date(Math.floor(Date.now() / 1000 - 86_400) * 1000).toISOString();
  await database.execute(
    `update reservations set ordered = jsonb_set(ordered, '{table,startAt}', '"${yesterday}"') where id = '${old.id}'`,
  );
  await jobs.start();
  // The gateway makes its queues beside its start.
  const queue = "select 1 from pgboss.queue where name = 'erase-old-reservations'";
  await eventually(async () => assert.notEqual((await database.execute(queue)).rows.length, 0));
  await jobs.runSoon('erase-old-reservations');
  await eventually(async () => assert.notEqual((await read(old.id)).erased_at, undefined), {
    everyMs: 100,
  });
  const { erased_at: _, ...rest } = await read(old.id);
  assert.deepEqual(rest, {
    ...old,
    name: '(erased)',
    dining: { ...old.dining, start_at: yesterday },
  });
  assert.deepEqual(await read(recent.id), recent);
});
