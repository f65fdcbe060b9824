import { budgetName, type Crm, createCrm } from '../crm/crm.ts';
import { orgSimulator, type SimulatedOrg } from '../crm/simulated-org.ts';
import type { CrmSettings } from '../platform/settings/table.ts';
import { withSimulated } from '../platform/simulators/simulator.ts';
import { createCallBudget } from '../platform/store/call-budgets.ts';
import { createDatabaseLocks } from '../platform/store/database-locks.ts';
import type { Platform } from './open-platform.ts';

/** The connection to the org, the simulated one where no other is configured. */
export async function connectCrm(platform: Platform): Promise<{ crm: Crm; org: SimulatedOrg | undefined }> {
  const { settings, opened, secrets, cache, database } = platform;
  const { environment } = settings;
  const org = await orgSimulator.start(settings, secrets, opened);
  const crm = createCrm({
    ...(withSimulated(settings, org).crm as CrmSettings),
    ...platform,
    environment,
    spareLocks: createDatabaseLocks(database),
    // A process with a cache of its own must not forget with a restart what was spent.
    ...(cache.kind === 'memory' && { ownBudgetStore: createCallBudget(database, budgetName(environment)) }),
  });
  opened.defer(() => crm.stop());
  await crm.start();
  return { crm, org };
}
