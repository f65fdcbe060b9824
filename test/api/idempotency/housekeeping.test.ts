import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { createHousekeeping, type Reconcile } from '../../../src/api/idempotency/housekeeping.ts';
import { claimant, type StoredAnswer } from '../../../src/api/idempotency/keyed-request.ts';
import { createLedger, type Ledger } from '../../../src/api/idempotency/ledger.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { useTestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';
import { runClaimed } from '../../support/run-claimed.ts';
import { newRequest } from './keyed-requests.ts';

describe('the job that clears the ledger', () => {
  const found: StoredAnswer = {
    status: 201,
    headers: { location: '/v1/quotes/1' },
    body: '{"found":true}',
  };
  const opened = useTestDatabase();
  let database: Database;
  let ledger: Ledger;

  before(async () => {
    [database] = opened.replicas;
    ledger = createLedger({ database, metrics: createMetrics(), retentionHours: 24, statementsAtOnce: 2 });
  });

  const housekeeping = (reconcile: Reconcile) =>
    createHousekeeping({ database, log: recordLog().log, retentionHours: 24, reconcile });
  const clear = async (reconcile: Reconcile) => {
    for (const step of Object.values(housekeeping(reconcile))) await step(new AbortController().signal);
  };
  const neverAsked: Reconcile = async () => assert.fail('must not be asked');
  const age = (key: string, hours: number) =>
    sql`update idempotency_claims set
      completed_at = completed_at - make_interval(hours => ${hours}),
      last_attempt_at = last_attempt_at - make_interval(hours => ${hours}),
      lease_until = lease_until - make_interval(hours => ${hours})
      where key = ${key}`.execute(database.sql);
  const exists = async (key: string) =>
    (await sql`select 1 from idempotency_claims where key = ${key}`.execute(database.sql)).rows.length === 1;

  /** A request whose outcome is not known, and that nobody repeats for so long. */
  async function abandoned(hours: number) {
    const request = newRequest();
    const failed = runClaimed(ledger, request, () => Promise.reject(new Problem('crm_timeout', 'late')));
    await assert.rejects(failed);
    await age(request.key, hours);
    return request;
  }
  const replay = (request: ReturnType<typeof newRequest>) =>
    runClaimed(ledger, request, async () => assert.fail('must not run again'));

  test('deletes answers when their retention is over, and no earlier', async () => {
    const [old, young] = [newRequest(), newRequest()];
    for (const request of [old, young]) await runClaimed(ledger, request, async () => found);
    await age(old.key, 25);
    await age(young.key, 23);
    await clear(neverAsked);
    assert.equal(await exists(old.key), false);
    assert.equal(await exists(young.key), true);
  });

  test('deletes leases on records when they have run out, and no earlier', async () => {
    const leased = async () =>
      (await sql<{ record: string }>`select record from record_leases order by record`.execute(database.sql))
        .rows;
    for (const record of ['quote old', 'quote young']) {
      await runClaimed(ledger, newRequest(), async (claim) => {
        await claim.leaseRecord(record);
        return found;
      });
    }
    await sql`update record_leases set leased_until = now() where record = 'quote old'`.execute(database.sql);
    await clear(neverAsked);
    assert.deepEqual(await leased(), [{ record: 'quote young' }]);
  });

  test('completes an abandoned claim whose record exists: a repeat gets its answer', async () => {
    const request = await abandoned(25);
    const asked: string[] = [];
    await clear(async (operation, externalId) => {
      asked.push(`${operation} ${externalId}`);
      await assert.rejects(replay(request), { code: 'idempotency_in_progress' });
      return found;
    });
    assert.deepEqual(asked, [`createQuote ${request.externalId}`]);
    assert.deepEqual(await replay(request), { answer: found, replayed: true });
  });

  test('asks in the name of the consumer, also for a request without a key', async () => {
    const request = { ...newRequest(), repeatWindowSeconds: 600, consumerId: `${claimant}con_without_key` };
    await assert.rejects(
      runClaimed(ledger, request, () => Promise.reject(new Problem('crm_timeout', 'late'))),
    );
    await age(request.key, 25);
    const asked: string[] = [];
    await clear(async (_, __, consumerId) => void asked.push(consumerId));
    assert.deepEqual(asked, ['con_without_key']);
  });

  test('reconciles more abandoned claims than one statement takes', async () => {
    await sql`
      insert into idempotency_claims (consumer_id, key, fingerprint, operation, external_id, fence, lease_until,
        created_at, last_attempt_at)
      select 'con_many', gen_random_uuid(), '', 'createQuote', gen_random_uuid(), 1, now() - interval '2 days',
        now() - interval '2 days', now() - interval '2 days'
      from generate_series(1, 130)`.execute(database.sql);
    const asked: string[] = [];
    await clear(async (_, externalId) => void asked.push(externalId));
    assert.deepEqual([asked.length, new Set(asked).size], [130, 130]);
    const left = await sql`select from idempotency_claims where consumer_id = 'con_many'`.execute(
      database.sql,
    );
    assert.equal(left.rows.length, 0);
  });

  test('asks the CRM first for claims that it was not asked for last time', async () => {
    const requests = [];
    for (let made = 0; made < 60; made++) requests.push(await abandoned(25));
    const asked: string[] = [];
    const down = async (_: string, externalId: string) => {
      asked.push(externalId);
      throw new Problem('crm_unavailable', 'down');
    };
    // While every one fails, a run ends with its first chunk.
    await assert.rejects(clear(down));
    await assert.rejects(clear(down));
    assert.ok(asked.length < 120, `${asked.length} calls`);
    assert.equal(new Set(asked).size, 60);
    await sql`delete from idempotency_claims where completed_at is null`.execute(database.sql);
  });

  test('deletes an abandoned claim without a record', async () => {
    const request = await abandoned(25);
    await clear(async () => undefined);
    assert.equal(await exists(request.key), false);
  });

  test('leaves a claim alone that a repeat has taken over meanwhile', async () => {
    const request = await abandoned(25);
    const [begun, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let repeat: ReturnType<typeof runClaimed> | undefined;
    await clear(async () => {
      await sql`update idempotency_claims set lease_until = now() where key = ${request.key}`.execute(
        database.sql,
      );
      repeat = runClaimed(ledger, request, async () => {
        begun.resolve();
        await goOn.promise;
        return found;
      });
      await begun.promise;
      return undefined;
    });
    goOn.resolve();
    assert.deepEqual(await repeat, { answer: found, replayed: false });
  });

  test('leaves a claim alone that somebody came back for within the retention, or is working on', async () => {
    const recent = await abandoned(23);
    const active = newRequest();
    await runClaimed(ledger, active, async () => {
      await sql`update idempotency_claims set last_attempt_at = now() - interval '2 days' where key = ${active.key}`.execute(
        database.sql,
      );
      await clear(neverAsked);
      return found;
    });
    assert.equal(await exists(recent.key), true);
    assert.equal((await replay(active)).replayed, true);
  });

  test('keeps a claim whose outcome the CRM does not know, for a later run and for a repeat', async () => {
    const request = await abandoned(25);
    const down = new Problem('crm_unavailable', 'down');
    await assert.rejects(
      clear(() => Promise.reject(down)),
      (error: Error) => error.cause === down,
    );
    assert.equal(await exists(request.key), true);
    await age(request.key, 1);
    const repeat = await runClaimed(ledger, request, async ({ externalId, continued }) => {
      assert.equal(externalId, request.externalId);
      assert.equal(continued, true);
      return found;
    });
    assert.equal(repeat.replayed, false);
  });
});
