import { generateKeyPairSync } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  type SalesforceSimulatorOptions,
  startSalesforceSimulator,
} from '../../simulators/salesforce/simulator.ts';
import { Org } from './org.ts';
import { useStarted } from './use-started.ts';

const clientId = 'handoff-gateway-test';
const username = 'gateway-test@example.com';

/** A simulated org of the test's own: it outlives the gateways that use it. */
export interface OwnOrg {
  org: Org;
  /** Settings with which a gateway finds it. */
  env: NodeJS.ProcessEnv;
  /** The private key that it trusts, as PEM. */
  privateKey: string;
  /** Puts that key into a folder of secrets. */
  trust(secretsDir: string): Promise<void>;
  close(): Promise<void>;
}

export async function startOwnOrg(options: Partial<SalesforceSimulatorOptions> = {}): Promise<OwnOrg> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const seed = { members: 1 };
  const simulator = await startSalesforceSimulator({ clientId, username, publicKey, seed, ...options });
  const [memberId = ''] = simulator.memberIds(1);
  return {
    org: new Org(simulator.url, memberId),
    env: { CRM_LOGIN_URL: simulator.url, CRM_CLIENT_ID: clientId, CRM_USERNAME: username },
    privateKey,
    trust: async (secretsDir) => {
      const path = join(secretsDir, 'crm/dev/private-key');
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(path, privateKey, { mode: 0o600 });
    },
    close: () => simulator.close(),
  };
}

export function useOwnOrg(options?: Partial<SalesforceSimulatorOptions>): OwnOrg {
  return useStarted(
    () => startOwnOrg(options),
    (ownOrg) => ownOrg.close(),
  );
}
