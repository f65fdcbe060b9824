import { createHousekeeping } from './api/idempotency/housekeeping.ts';
import { createReconcile } from './api/pipeline/run-route.ts';
import type { Route } from './api/route.ts';
import type { Crm } from './crm/crm.ts';
import type { Webhooks } from './features/crm-webhooks/webhooks.ts';
import { forgetDeletedRecords } from './features/events/changes.ts';
import { EventFeed } from './features/events/event-feed.ts';
import type { Handoffs } from './features/handoff/handoffs.ts';
import type { WebhookEndpoints } from './features/partner-webhooks/webhook-endpoints.ts';
import { clearCopy } from './features/read-copy/copy.ts';
import { PlansTable } from './features/reservations/plans-table.ts';
import type { Audit } from './identity/audit/audit.ts';
import { waitUntilAvailable } from './platform/base/wait-until-available.ts';
import { createJobQueue, type Job } from './platform/jobs/job-queue.ts';
import type { Log } from './platform/observability/log.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { Settings } from './platform/settings/table.ts';
import type { Database } from './platform/store/database.ts';

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
