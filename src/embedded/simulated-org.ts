import { createPublicKey, generateKeyPair } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import type { CrmAddress } from '../settings/settings.ts';
import { readOrMakeSecret } from './read-or-make-secret.ts';

const clientId = 'handoff-gateway-local';
const username = 'gateway@example.com';
const members = 120;

/** A simulated Salesforce org on a loopback port of its own. */
export interface SimulatedOrg {
  address: CrmAddress;
  url: string;
  /** External ID of a member to try things with. */
  memberId: string;
  close(): Promise<void>;
}

export interface SimulatedOrgOptions {
  secrets: SecretsManager;
  /** Name of the secret with the private key; made if there is none. */
  privateKeySecret: string;
  /** Its records are kept here. */
  dataDir: string;
}

/** Starts the simulated org, which trusts the gateway's own key as a real org trusts its certificate. */
export async function startSimulatedOrg(options: SimulatedOrgOptions): Promise<SimulatedOrg> {
  const privateKey = await readOrMakeSecret(options.secrets, options.privateKeySecret, makeKey);
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }) as string;
  // The one place where the service knows its simulators; production never comes here.
  const { startSalesforceSimulator } = await import('../../simulators/salesforce/simulator.ts');
  const org = await startSalesforceSimulator({
    clientId,
    username,
    userName: 'Handoff Gateway Integration',
    publicKey,
    dataFile: join(options.dataDir, 'simulated-org.jsonl'),
    seed: { members },
  });
  const [memberId] = org.memberIds(1);
  return {
    address: { loginUrl: org.url, audience: org.url, clientId, username },
    url: org.url,
    memberId: memberId as string,
    close: () => org.close(),
  };
}

async function makeKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}
