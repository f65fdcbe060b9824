import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createJobQueue, type Job } from '../../../src/platform/jobs/job-queue.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { databaseKinds, type TestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';

for (const [name, open] of Object.entries(databaseKinds)) {
  describe(`jobs on ${name}`, () => {
    let opened: TestDatabase | undefined;

    before(async () => {
      opened = await open(2);
      // The queue is to make all that it needs.
      await opened?.replicas[0].execute('drop schema if exists pgboss cascade');
    });
    after(() => opened?.stop());

    test('a job is done once over all replicas, and again after it failed', async (context) => {
      if (!opened) return context.skip('there is no PostgreSQL');
      const runs: string[] = [];
      const succeeded = Promise.withResolvers<void>();
      const job: Job = {
        name: 'count',
        cron: '0 0 1 1 *',
        steps: {
          first: async () => {
            runs.push('first');
            if (runs.length === 1) throw new Error('the first run fails');
          },
          second: async () => {
            runs.push('second');
            if (runs.length === 4) succeeded.resolve();
          },
        },
      };
      const metrics = createMetrics();
      const logs = opened.replicas.map(() => recordLog());
      const queues = opened.replicas.map((database, i) => {
        return createJobQueue({
          database,
          log: logs[i]?.log ?? recordLog().log,
          metrics,
          jobs: [job],
        });
      });
      // Of two that make their schema at the same moment one may fail; the service starts it again.
      await Promise.all(queues.map((queue) => queue.start().catch(() => queue.start())));
      await queues[0]?.runSoon('count');
      await succeeded.promise;
      await Promise.all(queues.map((queue) => queue.stop()));
      // The second step does not suffer from the first.
      assert.deepEqual(runs, ['first', 'second', 'first', 'second']);
      const depth = (await metrics.jobQueueDepth.get()).values.map(({ labels }) => labels);
      for (const state of ['ready', 'deferred', 'active', 'failed']) {
        assert.ok(depth.some((labels) => labels.queue === 'count' && labels.state === state));
      }
      const failures = logs.flatMap(({ lines }) => lines).filter(({ facts }) => facts['job'] === 'count');
      assert.ok(failures.some(({ level, facts }) => level === 'warn' && facts['step'] === 'first'));
      assert.match(
        await metrics.registry.metrics(),
        /^handoff_job_failures_total\{queue="count",step="first"\} 1$/m,
      );
    });

    test('a start that fails halfway and is repeated leaves no timers after the stop', async (context) => {
      const [database] = opened?.replicas ?? [];
      if (database?.kind !== 'pglite') return context.skip('the pool of connections has timers of its own');
      const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
      const before = timers();
      for (let failing = 1; failing <= 12; failing++) {
        let calls = 0;
        const execute: typeof database.execute = async (...statement) => {
          if (++calls === failing) throw new Error('the database is unavailable');
          return database.execute(...statement);
        };
        const failingDatabase = Object.create(database, { execute: { value: execute } });
        const options = { log: recordLog().log, metrics: createMetrics(), jobs: [] };
        const queue = createJobQueue({ ...options, database: failingDatabase });
        await queue.start().catch(() => undefined);
        await queue.start();
        await queue.stop();
        assert.ok(timers() <= before, `failed at statement ${failing}`);
      }
    });
  });
}
