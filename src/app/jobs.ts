import { createHousekeeping } from '../api/idempotency/housekeeping.ts';
import { createReconcile } from '../api/pipeline/run-route.ts';
import type { Route } from '../api/route.ts';
import type { Core, Started } from '../feature.ts';
import { waitUntilAvailable } from '../platform/base/waiting.ts';
import { createJobQueue, type Job } from '../platform/jobs/job-queue.ts';

export function startJobs(
  core: Core,
  routes: readonly Route[],
  features: readonly Started[],
  create: typeof createJobQueue = createJobQueue,
): void {
  const { log, opened, stopping } = core;
  const ofFeatures = features.flatMap((feature) => feature.jobs ?? []);
  const jobs = create({ ...core, jobs: [...platformJobs(core, routes), ...ofFeatures] });
  opened.defer(() => jobs.stop());
  const wait = { what: 'the job queue', isPassing: () => true, signal: stopping, log };
  waitUntilAvailable(() => jobs.start(), wait).catch(() =>
    log.debug({}, 'the service stopped before the jobs were started'),
  );
}

function platformJobs(
  { settings, log, database, audit, crm, allowances, consumers: { directory } }: Core,
  routes: readonly Route[],
): Job[] {
  const { idempotencyRetentionHours: retentionHours, auditRetentionDays } = settings;
  const reconcile = createReconcile(routes);
  return [
    {
      name: 'refresh-crm-token',
      cron: '* * * * *',
      steps: { token: () => crm.tokens.refreshIfDue() },
      // They fill the minute until the next check.
      retries: 5,
    },
    {
      name: 'clear-idempotency-claims',
      cron: '*/10 * * * *',
      steps: createHousekeeping({ database, log, retentionHours, reconcile }),
    },
    {
      name: 'compact-allowances',
      cron: '27 * * * *',
      steps: { allowances: () => allowances.compact() },
    },
    {
      name: 'clear-authentication-attempts',
      cron: '17 * * * *',
      steps: { attempts: (signal) => audit.deleteOldAttempts(auditRetentionDays, signal) },
    },
    {
      name: 'clear-audit-events',
      cron: '12 * * * *',
      steps: {
        events: audit.deleteOldEvents,
        networks: audit.deleteOldNetworks,
        uses: async (signal) => {
          // All keys of consumers that couldn't be read would seem to be gone.
          if (directory.status().connected) await audit.deleteOldUses(directory.newestFirst(), signal);
        },
      },
    },
  ];
}
