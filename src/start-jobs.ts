import { createReconcile } from './api/pipeline/run-route.ts';
import type { Route } from './api/route.ts';
import type { Audit } from './audit/audit.ts';
import { waitUntilAvailable } from './base/wait-until-available.ts';
import { forgetDeletedRecords } from './changes/changes.ts';
import { EventFeed } from './changes/event-feed.ts';
import { clearCopy } from './copy/copy.ts';
import type { Crm } from './crm/crm.ts';
import type { Handoffs } from './handoff/handoffs.ts';
import { createHousekeeping } from './idempotency/housekeeping.ts';
import { createJobQueue } from './jobs/job-queue.ts';
import type { Log } from './observability/log.ts';
import type { Metrics } from './observability/metrics.ts';
import { PlansTable } from './reservations/plans-table.ts';
import type { Settings } from './settings/table.ts';
import type { Database } from './store/database.ts';
import type { WebhookEndpoints } from './webhook-endpoints/webhook-endpoints.ts';
import type { Webhooks } from './webhooks/webhooks.ts';

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
  webhooks: Webhooks;
  handoffs: Handoffs;
  webhookEndpoints: WebhookEndpoints;
  routes: readonly Route[];
}

/** Starts every job of the service, without making it wait. */
export function startJobs(parts: Parts): void {
  const { settings, log, metrics, opened, stopping, database, audit, crm } = parts;
  const { webhooks, webhookEndpoints, handoffs, routes } = parts;
  const {
    idempotencyRetentionHours: retentionHours,
    auditRetentionDays,
    reservationRetentionDays,
  } = settings;
  // Also without a dining partner: there may have been one.
  const plans = new PlansTable(database);
  const housekeeping = createHousekeeping({
    database,
    log,
    retentionHours,
    reconcile: createReconcile(routes),
  });
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
        run: () => plans.clearRefused(retentionHours),
      },
      {
        name: 'erase-old-reservations',
        cron: '27 * * * *',
        run: async () => void (await plans.eraseOlderThan(reservationRetentionDays)),
      },
      {
        name: 'clear-authentication-attempts',
        cron: '17 * * * *',
        run: async () => void (await audit.deleteOldAttempts(auditRetentionDays)),
      },
      { name: 'clear-handoffs', cron: '57 * * * *', run: () => handoffs.deleteOld() },
      {
        name: 'clear-events',
        cron: '7 * * * *',
        run: async () => {
          await new EventFeed(database).deleteOlderThan(settings.changes.retentionDays);
          await forgetDeletedRecords(database);
          await clearCopy(database);
        },
      },
      { name: 'clear-audit-events', cron: '12 * * * *', run: () => audit.deleteOldEvents() },
      { name: 'clear-webhooks', cron: '37 * * * *', run: webhooks.deleteOld },
      { name: 'clear-deliveries', cron: '7 * * * *', run: webhookEndpoints.deleteOld },
    ],
  });
  opened.defer(() => jobs.stop());
  const wait = { what: 'the job queue', isPassing: () => true, signal: stopping, log };
  waitUntilAvailable(() => jobs.start(), wait).catch(() =>
    log.debug({}, 'stopped before the jobs were started'),
  );
}
