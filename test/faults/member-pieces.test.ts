import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { ClaimsTable } from '../../src/api/idempotency/claims-table.ts';
import { WebhooksTable } from '../../src/features/crm-webhooks/webhooks-table.ts';
import { PlansTable } from '../../src/features/reservations/plans-table.ts';
import { databaseKinds, openTestPglite, type TestDatabase } from '../support/databases.ts';

/** More rows than one statement looks at, so that the next must go on where the last one ended. */
describe('erasing in many rows', () => {
  const memberId = randomUUID();
  let opened: TestDatabase;

  before(async () => {
    opened = await openTestPglite();
  });
  after(() => opened.stop());

  const run = async (text: string) => (await opened.replicas[0].execute(text)).rows;

  test('finds every stored answer', async () => {
    await run(`
      insert into idempotency_claims (consumer_id, key, fingerprint, operation, external_id, fence, lease_until,
        created_at, last_attempt_at, completed_at, response_status, response_headers, response_body)
      select 'con_' || n % 3, gen_random_uuid(), '', 'createQuote', gen_random_uuid(), 1, now(), now(), now(), now(), 201,
        '{"location": "/v1/quotes/1", "etag": "x"}', case when n % 100 = 0 then '{"member_id":"${memberId}"}' else '{}' end
      from generate_series(1, 2500) as n`);
    const claims = new ClaimsTable(opened.replicas[0], 24);
    assert.equal(await claims.eraseMember(memberId), 25);
    assert.equal(await claims.eraseMember(memberId), 0);
    const erased = await run('select response_headers from idempotency_claims where response_body is null');
    assert.equal(erased.length, 25);
    assert.deepEqual(erased[0], { response_headers: { location: '/v1/quotes/1' } });
  });

  test('finds every webhook', async () => {
    await run(`
      insert into webhook_events (webhook_id, type, event_at, member_id, payload, state, due_at, received_at)
      select 'msg_' || n, 'member.updated', now(), case when n % 100 = 0 then '${memberId}' else gen_random_uuid() end,
        '{}', 'processed', now(), now()
      from generate_series(1, 2500) as n`);
    const events = new WebhooksTable(opened.replicas[0]);
    assert.equal(await events.eraseMember(memberId), 25);
    assert.equal(await events.eraseMember(memberId), 0);
  });

  test('finds every old reservation', async () => {
    await run(`
      insert into reservations (id, state, ordered, partner, table_token, fence, lease_until, next_attempt_at, created_at,
        updated_at)
      select gen_random_uuid(), 'confirmed',
        '{"name":"n","table":{"startAt":"2020-02-03T19:00:00.000Z","durationMinutes":90}}', 'dining', gen_random_uuid(), 1,
        now(), now(), now(), now()
      from generate_series(1, 1200)`);
    const [{ ends_at } = {}] = (await run('select ends_at from reservations limit 1')) as {
      ends_at?: Date;
    }[];
    assert.equal(ends_at?.toISOString(), '2020-02-03T20:30:00.000Z');
    const plans = new PlansTable(opened.replicas[0]);
    assert.equal(await plans.eraseOlderThan(90), 1200);
    assert.equal(await plans.eraseOlderThan(90), 0);
  });
});

test('erasing waits longer than a request may', async (t) => {
  const opened = await databaseKinds['PostgreSQL']?.();
  if (opened === undefined) return t.skip('no PostgreSQL');
  const [database] = opened.replicas;
  t.after(async () => {
    await opened.stop();
  });
  const { erasing } = await database.bulk.transaction().execute(async (transaction) => {
    await sql`lock table idempotency_claims, webhook_events in access exclusive mode`.execute(transaction);
    const memberId = randomUUID();
    const work = Promise.allSettled([
      new ClaimsTable(database, 24).eraseMember(memberId),
      new WebhooksTable(database).eraseMember(memberId),
    ]);
    await sleep(2500);
    return { erasing: work };
  });
  const done = { status: 'fulfilled', value: 0 };
  assert.deepEqual(await erasing, [done, done]);
});
