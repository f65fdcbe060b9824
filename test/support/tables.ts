import { createJobQueue } from '../../src/platform/jobs/job-queue.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import type { Database } from '../../src/platform/store/database.ts';
import { migrate } from '../../src/platform/store/migrate.ts';
import { recordLog } from './log.ts';

/** Makes all that the service makes in a new database when it starts: its own tables and those of the job queue. */
export async function makeTables(database: Database): Promise<void> {
  await migrate(database);
  const queue = createJobQueue({ database, log: recordLog().log, metrics: createMetrics(), jobs: [] });
  await queue.start();
  await queue.stop();
}
