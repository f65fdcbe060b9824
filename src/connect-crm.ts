import { budgetName, type Crm, createCrm } from './crm/crm.ts';
import { type SimulatedOrg, startSimulatedOrg } from './embedded/simulators.ts';
import type { SharedCache } from './platform/cache/shared-cache.ts';
import type { Log } from './platform/observability/log.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { SecretsManager } from './platform/secrets/secrets-manager.ts';
import type { CrmSettings, Settings } from './platform/settings/table.ts';
import { createCallBudget } from './platform/store/call-budgets.ts';
import type { Database } from './platform/store/database.ts';
import { createDatabaseLocks } from './platform/store/database-locks.ts';

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  opened: AsyncDisposableStack;
  /** Aborted when a stop begins. */
  stopping: AbortSignal;
  secrets: SecretsManager;
  cache: SharedCache;
  database: Database;
}

/** The connection to the org, the simulated one where no other is configured. */
export async function connectCrm(parts: Parts): Promise<{ crm: Crm; org: SimulatedOrg | undefined }> {
  const { settings, opened, secrets, cache, database } = parts;
  const { environment } = settings;
  const org = await startSimulatedOrg(settings, secrets, opened);
  const crm = createCrm({
    ...({ ...settings.crm, ...org?.settings } as CrmSettings),
    ...parts,
    environment,
    spareLocks: createDatabaseLocks(database),
    // A process with a cache of its own must not forget with a restart what was spent.
    ...(cache.kind === 'memory' && { ownBudgetStore: createCallBudget(database, budgetName(environment)) }),
  });
  opened.defer(() => crm.stop());
  await crm.start();
  return { crm, org };
}
