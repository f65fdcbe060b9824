import { resourcesFor } from '../../app/mapping.ts';
import { createCrmCheck } from '../../crm/crm-check.ts';
import type { Described, DescribedObject, ListedObject } from '../../crm/describe.ts';
import { startEmptyOrg } from '../../crm/simulated-org.ts';
import { createLog } from '../../platform/observability/log.ts';
import { createMetrics } from '../../platform/observability/metrics.ts';
import { openSecretsManager } from '../../platform/secrets/secrets.ts';
import type { CrmSettings, Settings } from '../../platform/settings/table.ts';
import { withSimulated } from '../../platform/simulators/simulator.ts';
import type { Resources } from '../../records/mapping.ts';

/** Objects that one call describes (REST Developer Guide, Composite: 25 subrequests). */
const describedAtOnce = 25;

/** The org of the settings, as the commands `handoff org` ask it. Methods throw `CrmFailure`, `Problem`. */
export interface OrgConnection {
  /** The mapping that the settings name, laid over the declarations. Throws `SettingsError`. */
  resources(mappingFile?: string): Resources;
  apiVersion: string;
  listObjects(): Promise<ListedObject[]>;
  describe(names: readonly string[]): Promise<Described>;
  checkOwners(resources: Resources): Promise<string[]>;
  objectsNotSeen(resources: Resources): Promise<string[]>;
}

/**
 * Signs in to the org of the settings, or to a simulated one that has no records, so that a running service is not
 * disturbed. Closed with `opened`. Throws `TokenFailure`, `SecretsUnavailable`.
 */
export async function connectOrg(settings: Settings, opened: AsyncDisposableStack): Promise<OrgConnection> {
  const secrets = await openSecretsManager(settings, createLog('silent'));
  opened.defer(() => secrets.close());
  const org = await startEmptyOrg(settings, secrets, opened);
  const connected = withSimulated(settings, org);
  const { environment } = settings;
  const crm = createCrmCheck({
    ...(connected.crm as CrmSettings),
    environment,
    secrets,
    metrics: createMetrics(),
  });
  opened.defer(() => crm.close());
  const token = await crm.signIn(await crm.sign());
  return {
    resources: (mappingFile) =>
      resourcesFor(mappingFile === undefined ? connected : { crm: { ...connected.crm, mappingFile } }),
    apiVersion: connected.crm.apiVersion,
    listObjects: () => crm.listObjects(token),
    checkOwners: (resources) => crm.checkOwners(resources, token),
    objectsNotSeen: (resources) => crm.objectsNotSeen(resources, token),
    async describe(names) {
      const described: [string, DescribedObject | null][] = [];
      for (let start = 0; start < names.length; start += describedAtOnce)
        described.push(...(await crm.describe(names.slice(start, start + describedAtOnce), token)));
      return new Map(described);
    },
  };
}
