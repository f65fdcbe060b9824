import { createDatabaseBudgetStore } from '../crm/budget/budget-store.ts';
import { type Crm, createCrm } from '../crm/crm.ts';
import { orgSimulator, type SimulatedOrg } from '../crm/simulated-org.ts';
import type { CrmSettings } from '../platform/settings/table.ts';
import { withSimulated } from '../platform/simulators/simulator.ts';
import { createDatabaseLocks } from '../platform/store/database-locks.ts';
import type { Resources } from '../records/mapping.ts';
import { resourcesFor } from './mapping.ts';
import type { Platform } from './open-platform.ts';

interface Connected {
  crm: Crm;
  resources: Resources;
  org: SimulatedOrg | undefined;
}

export async function connectCrm(platform: Platform): Promise<Connected> {
  const { settings, opened, secrets, cache, database, consumers } = platform;
  const { environment } = settings;
  const org = await orgSimulator.start(settings, secrets, opened);
  const connected = withSimulated(settings, org);
  const resources = resourcesFor(connected);
  const crm = createCrm({
    ...(connected.crm as CrmSettings),
    ...platform,
    resources,
    environment,
    crmShareOf: (id) => consumers.directory.consumer(id)?.crmShare,
    spareLocks: createDatabaseLocks(database),
    // A process with a cache of its own must not forget with a restart what was spent.
    ...(cache.kind === 'memory' && { ownBudgetStore: createDatabaseBudgetStore(database, environment) }),
  });
  opened.defer(() => crm.stop());
  await crm.start();
  return { crm, resources, org };
}
