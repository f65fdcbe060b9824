import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createJobQueue } from '../../src/platform/jobs/job-queue.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import type { Database } from '../../src/platform/store/database.ts';
import { openPostgres } from '../../src/platform/store/postgres.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { recordLog } from '../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../support/postgres.ts';

const postgres = await startPostgres();
const expired = 30_000;

describe('the job that clears the ledger', { skip: !postgres && 'no PostgreSQL' }, () => {
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
    // The gateway makes its queues beside its start.
    await until("select 1 from pgboss.queue where name = 'clear-idempotency-claims'");
  });
  after(async () => {
    await jobs.stop();
    await database.close();
    await gateway.stop();
    await postgres?.stop();
  });

  async function until(query: string): Promise<void> {
    await eventually(async () => assert.notEqual((await database.execute(query)).rows.length, 0), {
      everyMs: 50,
    });
  }

  const addClaims = (completedAt: string, count: number) =>
    database.execute(`
      insert into idempotency_claims (consumer_id, key, fingerprint, operation, external_id, fence, lease_until,
        created_at, last_attempt_at, completed_at, response_status, response_headers, response_body)
      select 'con_old', gen_random_uuid(), '', 'createQuote', gen_random_uuid(), 1, now() - interval '25 hours',
        now() - interval '25 hours', now() - interval '25 hours', ${completedAt}, 201, '{}', '{}'
      from generate_series(1, ${count})`);

  test('deletes what has expired in chunks, oldest first', async () => {
    await database.execute(`
      create table chunks (rows bigint);
      create function note_chunk() returns trigger language plpgsql as $$ begin
        insert into chunks select count(*) from gone; return null;
      end $$;
      create trigger note_chunk after delete on idempotency_claims referencing old table as gone
        for each statement execute function note_chunk()`);
    await addClaims("now() - interval '25 hours'", expired);
    await jobs.runSoon('clear-idempotency-claims');
    await until("select 1 where not exists (select from idempotency_claims where consumer_id = 'con_old')");
    const { rows } = await database.execute(
      'select max(rows)::integer as most, sum(rows)::integer as all from chunks',
    );
    assert.deepEqual(rows, [{ most: 2000, all: expired }]);
  });

  test('goes on with its other steps where one fails, and counts the failure', async () => {
    await database.execute(`
      create function refuse() returns trigger language plpgsql as $$ begin
        if old.completed_at is not null then raise 'refused'; end if; return old;
      end $$;
      create trigger refuse before delete on idempotency_claims for each row execute function refuse()`);
    await addClaims("now() - interval '25 hours'", 1);
    await addClaims('null', 70);
    await database.execute(
      `insert into record_leases values ('quote old', 'con_old', gen_random_uuid(), 1, now() - interval '1 hour')`,
    );
    await jobs.runSoon('clear-idempotency-claims');
    await until(`
      select 1 where not exists (select from record_leases)
        and not exists (select from idempotency_claims where completed_at is null)`);
    const metrics = await gateway.metrics();
    assert.match(
      metrics,
      /^handoff_job_failures_total\{queue="clear-idempotency-claims",step="answers"\} [1-9]/m,
    );
    const failed = gateway.logLines.find(({ message }) => message === 'a job failed; will try again later');
    assert.equal(failed?.facts['step'], 'answers');
  });
});
