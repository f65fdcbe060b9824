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
import { createJobQueue, type Job } from './jobs/job-queue.ts';
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
  const { log, metrics, opened, stopping, database } = parts;
  const jobs = createJobQueue({ database, log, metrics, jobs: [refreshing(parts), ...clearing(parts)] });
  opened.defer(() => jobs.stop());
  const wait = { what: 'the job queue', isPassing: () => true, signal: stopping, log };
  waitUntilAvailable(() => jobs.start(), wait).catch(() =>
    log.debug({}, 'stopped before the jobs were started'),
  );
}

function refreshing({ crm }: Parts): Job {
  // Its repeats fill the minute until the next check.
  return {
    name: 'refresh-crm-token',
    cron: '* * * * *',
    steps: { token: () => crm.tokens.refreshIfDue() },
    retries: 5,
  };
}

/** What deletes or erases data whose time is over. */
function clearing(parts: Parts): Job[] {
  const { settings, log, database, audit, webhooks, webhookEndpoints, handoffs, routes } = parts;
  const { idempotencyRetentionHours: retentionHours, auditRetentionDays, changes } = settings;
  // Also without a dining partner: there may have been one.
  const plans = new PlansTable(database);
  const reconcile = createReconcile(routes);
  return [
    {
      name: 'clear-idempotency-claims',
      cron: '*/10 * * * *',
      steps: createHousekeeping({ database, log, retentionHours, reconcile }),
    },
    {
      name: 'clear-refused-reservations',
      cron: '47 * * * *',
      steps: { reservations: (signal) => plans.clearRefused(retentionHours, signal) },
    },
    {
      name: 'erase-old-reservations',
      cron: '27 * * * *',
      steps: { reservations: (signal) => plans.eraseOlderThan(settings.reservationRetentionDays, signal) },
    },
    {
      name: 'clear-authentication-attempts',
      cron: '17 * * * *',
      steps: { attempts: (signal) => audit.deleteOldAttempts(auditRetentionDays, signal) },
    },
    {
      name: 'clear-handoffs',
      cron: '57 * * * *',
      steps: { handoffs: (signal) => handoffs.deleteOld(signal) },
    },
    {
      name: 'clear-events',
      cron: '7 * * * *',
      steps: {
        events: (signal) => new EventFeed(database).deleteOlderThan(changes.retentionDays, signal),
        records: (signal) => forgetDeletedRecords(database, signal),
        copy: (signal) => clearCopy(database, signal),
      },
    },
    {
      name: 'clear-audit-events',
      cron: '12 * * * *',
      steps: { events: audit.deleteOldEvents, networks: audit.deleteOldNetworks },
    },
    { name: 'clear-webhooks', cron: '37 * * * *', steps: { webhooks: webhooks.deleteOld } },
    {
      name: 'clear-deliveries',
      cron: '7 * * * *',
      steps: { deliveries: webhookEndpoints.deleteOld, orphans: webhookEndpoints.deleteOrphans },
    },
  ];
}
