import { createSettle } from './api/pipeline/settle.ts';
import type { Route } from './api/route.ts';
import { waitUntilAvailable } from './base/wait-until-available.ts';
import type { Audit } from './consumers/audit.ts';
import type { Crm } from './crm/crm.ts';
import { createHousekeeping } from './idempotency/housekeeping.ts';
import { createJobQueue } from './jobs/job-queue.ts';
import type { Log } from './observability/log.ts';
import type { Metrics } from './observability/metrics.ts';
import type { Reservations } from './reservations/reservations.ts';
import type { Settings } from './settings/settings.ts';
import type { Database } from './store/database.ts';
import type { Webhooks } from './webhooks/create-webhooks.ts';

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  opened: AsyncDisposableStack;
  /** Aborted when a stop begins. */
  stopping: AbortSignal;
  database: Database;
  audit: Audit;
  crm: Crm;
  reservations: Reservations | null;
  webhooks: Webhooks;
  routes: readonly Route[];
}

/** Every job of the service. They start beside it: nobody who calls it waits for them. */
export function startJobs(parts: Parts): void {
  const { settings, log, metrics, opened, stopping, database, audit, crm, reservations, webhooks, routes } =
    parts;
  const { idempotencyRetentionHours: retentionHours, auditRetentionDays } = settings;
  const housekeeping = createHousekeeping({ database, log, retentionHours, settle: createSettle(routes) });
  const jobs = createJobQueue({
    database,
    log,
    metrics,
    jobs: [
      // Its repeats fill the minute until the next check.
      { name: 'refresh-crm-token', cron: '* * * * *', run: () => crm.tokens.refreshIfDue(), retries: 5 },
      { name: 'clear-idempotency-claims', cron: '*/10 * * * *', run: housekeeping.run },
      {
        name: 'clear-refused-reservations',
        cron: '47 * * * *',
        run: async () => reservations?.clear(),
      },
      {
        name: 'clear-authentication-attempts',
        cron: '17 * * * *',
        run: async () => void (await audit.deleteOldAttempts(auditRetentionDays)),
      },
      { name: 'process-webhooks', cron: '* * * * *', run: webhooks.processDue },
      { name: 'clear-webhooks', cron: '37 * * * *', run: webhooks.deleteOld },
    ],
  });
  opened.defer(() => jobs.stop());
  const wait = { what: 'the job queue', isPassing: () => true, signal: stopping, log };
  waitUntilAvailable(() => jobs.start(), wait).catch(() =>
    log.debug({}, 'stopped before the jobs were started'),
  );
}
