import { randomUUID } from 'node:crypto';
import { handoffEventData } from './api/v1/handoffs/schemas.ts';
import type { Crm } from './crm/crm.ts';
import { createHandoffs, type Handoffs } from './handoff/handoffs.ts';
import type { Log } from './observability/log.ts';
import type { Metrics } from './observability/metrics.ts';
import type { Settings } from './settings/table.ts';
import type { Database } from './store/database.ts';
import { holdTurn } from './store/database-locks.ts';

/** How long a process that was killed keeps others from delivering. */
const turnSeconds = 10;

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  opened: AsyncDisposableStack;
  database: Database;
  crm: Crm;
}

/** Hand-offs, and the delivery of those that were accepted, also by processes before this one. */
export function startHandoffs({ settings, log, metrics, opened, database, crm }: Parts): Handoffs {
  const owner = randomUUID();
  const handoffs = createHandoffs({
    ...settings.handoff,
    database,
    records: crm.records,
    log,
    metrics,
    holdTurn: () => holdTurn(database, 'handoff-delivery', owner, turnSeconds),
    eventData: handoffEventData,
  });
  opened.defer(() => handoffs.stop());
  handoffs.start();
  return handoffs;
}
