import { join } from 'node:path';
import type { Credentials } from './gateway.ts';
import { createInstallation, type GatewayProcess, type Installation } from './gateway-process.ts';
import type { Org } from './org.ts';
import type { OwnOrg } from './own-org.ts';
import { freePort } from './ports.ts';

/** Several gateways, each a process of its own, that share an org, a folder of secrets, and the stores in `env`. */
export interface Cluster {
  org: Org;
  credentials: { console: Credentials; admin: Credentials };
  /** What all of them read. */
  secretsDir: string;
  /** Those that were started last, each at its index. */
  gateways: GatewayProcess[];
  /** Starts the gateway with this index again, or a further one. */
  start(index: number, env?: NodeJS.ProcessEnv): Promise<GatewayProcess>;
  /** Kills all of them and deletes everything. */
  remove(): Promise<void>;
}

/** Starts so many gateways at once; with an operations port each. */
export async function startCluster(
  count: number,
  ownOrg: OwnOrg,
  common: NodeJS.ProcessEnv = {},
): Promise<Cluster> {
  const first = await createInstallation(common, ownOrg);
  const installations: Installation[] = [first];
  const secretsDir = join(first.dataDir, 'secrets');
  const gateways: GatewayProcess[] = [];
  const start = async (index: number, env: NodeJS.ProcessEnv = {}): Promise<GatewayProcess> => {
    installations[index] ??= await createInstallation(common, ownOrg);
    // Without the cache of members each read goes to the CRM.
    const own = {
      SECRETS_DIR: secretsDir,
      METRICS_PORT: String(await freePort()),
      MEMBER_CACHE_SECONDS: '0',
    };
    const gateway = await installations[index].start({ ...own, ...env });
    gateways[index] = gateway;
    return gateway;
  };
  const remove = async () => {
    for (const installation of installations) await installation.remove();
  };
  try {
    await Promise.all(Array.from({ length: count }, (_, index) => start(index)));
    // The first one has made the consumers.
    const credentials = await Promise.any(installations.map((installation) => installation.credentials()));
    return { org: ownOrg.org, credentials, secretsDir, gateways, start, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}
