import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createJobQueue, type Job } from '../../src/jobs/job-queue.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { databaseKinds, type TestDatabase } from '../support/databases.ts';
import { recordLog } from '../support/log.ts';

for (const [name, open] of Object.entries(databaseKinds)) {
  describe(`jobs on ${name}`, () => {
    let opened: TestDatabase | undefined;

    before(async () => {
      opened = await open(2);
    });
    after(() => opened?.stop());

    test('a job is done once over all replicas, and again after it failed', async (context) => {
      if (!opened) return context.skip('there is no PostgreSQL');
      const runs: string[] = [];
      const succeeded = Promise.withResolvers<void>();
      const job: Job = {
        name: 'count',
        cron: '0 0 1 1 *',
        run: async () => {
          runs.push('run');
          if (runs.length === 1) throw new Error('the first run fails');
          succeeded.resolve();
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
      await Promise.all(queues.map((queue) => queue.start()));
      await queues[0]?.runSoon('count');
      await succeeded.promise;
      await Promise.all(queues.map((queue) => queue.stop()));
      assert.equal(runs.length, 2);
      const depth = (await metrics.jobQueueDepth.get()).values.map(({ labels }) => labels);
      for (const state of ['ready', 'deferred', 'active', 'failed']) {
        assert.ok(depth.some((labels) => labels.queue === 'count' && labels.state === state));
      }
      const failures = logs.flatMap(({ lines }) => lines).filter(({ facts }) => facts['job'] === 'count');
      assert.ok(failures.some(({ level }) => level === 'warn'));
    });
  });
}
