import { randomUUID } from 'node:crypto';
import type { Crm } from './crm/crm.ts';
import { leaseSeconds } from './features/handoff/delivery.ts';
import { createHandoffs, type Handoffs } from './features/handoff/handoffs.ts';
import { handoffEventData } from './features/handoff/routes/schemas.ts';
import type { Consumers } from './identity/consumers/consumers.ts';
import { visibleRecords } from './identity/consumers/visible-records.ts';
import type { Log } from './platform/observability/log.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { Settings } from './platform/settings/table.ts';
import type { Database } from './platform/store/database.ts';
import { leaseLock } from './platform/store/database-locks.ts';

/** Time limit of a batch, in milliseconds: short, to notice soon what hangs. With a budget a batch waits for its call too. */
const batchMs = { usual: 5000, withBudget: 25_000 };

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  opened: AsyncDisposableStack;
  database: Database;
  crm: Crm;
  consumers: Pick<Consumers, 'directory'>;
}

/** Hand-offs, and the delivery of those that were accepted, also by processes before this one. */
export function startHandoffs(parts: Parts): Handoffs {
  const { settings, log, metrics, opened, database, crm, consumers } = parts;
  const owner = randomUUID();
  const handoffs = createHandoffs({
    ...settings.handoff,
    batchMs: settings.crm.dailyCallBudget === undefined ? batchMs.usual : batchMs.withBudget,
    database,
    records: crm.records,
    log,
    metrics,
    lease: async () => (await leaseLock(database, 'handoff-delivery', owner, leaseSeconds)) !== undefined,
    eventData: handoffEventData,
    visibleTo: (consumerId, resource) => {
      const consumer = consumers.directory.consumer(consumerId);
      return consumer ? visibleRecords(consumer, resource) : 'all';
    },
  });
  opened.defer(() => handoffs.stop());
  handoffs.start();
  return handoffs;
}
