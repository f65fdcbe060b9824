import { createPublicKey, generateKeyPair, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type SecretsManager, VersionConflict } from '../platform/secrets/secrets-manager.ts';
import type { CrmSettings, DiningSettings, Settings } from '../platform/settings/table.ts';

/** A simulated Salesforce org on a loopback port of its own. */
export interface SimulatedOrg {
  /** The settings that lead to it. */
  settings: Pick<CrmSettings, 'loginUrl' | 'audience' | 'clientId' | 'username'>;
  url: string;
  /** External ID of a member to try things with. */
  memberId: string;
}

/** A simulated dining partner on a loopback port of its own. */
export interface SimulatedPartner {
  /** The settings that lead to it. */
  settings: Pick<DiningSettings, 'baseUrl' | 'username'>;
  url: string;
}

/**
 * Starts the simulated org, which trusts the gateway's own key as a real org trusts its certificate; undefined where the
 * settings name a real one. Closed with `opened`.
 */
export async function startSimulatedOrg(
  { crm, dataDir }: Settings,
  secrets: SecretsManager,
  opened: AsyncDisposableStack,
): Promise<SimulatedOrg | undefined> {
  if (crm.loginUrl !== undefined) return undefined;
  const privateKey = await readOrMakeSecret(secrets, crm.privateKeySecret, makeKey);
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }) as string;
  const clientId = 'handoff-gateway-local';
  const username = 'gateway@example.com';
  // Simulators are imported here and below only; production never comes here.
  const { startSalesforceSimulator } = await import('../../simulators/salesforce/simulator.ts');
  const org = await startSalesforceSimulator({
    clientId,
    username,
    userName: 'Handoff Gateway Integration',
    publicKey,
    dataFile: join(dataDir, 'simulated-org.jsonl'),
    seed: { members: 120 },
  });
  opened.defer(() => org.close());
  const { url } = org;
  const [memberId] = org.memberIds(1);
  return {
    settings: { loginUrl: url, audience: url, clientId, username },
    url,
    memberId: memberId as string,
  };
}

/**
 * Starts the simulated dining partner, which knows the gateway's password; undefined where the settings name a real one,
 * and in production, which takes no simulated one. Closed with `opened`.
 */
export async function startSimulatedPartner(
  { dining, dataDir, production }: Settings,
  secrets: SecretsManager,
  opened: AsyncDisposableStack,
): Promise<SimulatedPartner | undefined> {
  if (dining.baseUrl !== undefined || production) return undefined;
  const password = await readOrMakeSecret(secrets, dining.passwordSecret, () =>
    randomBytes(24).toString('base64url'),
  );
  const username = 'handoff-gateway';
  const { startDiningSimulator } = await import('../../simulators/dining/simulator.ts');
  const dataFile = join(dataDir, 'simulated-partner.jsonl');
  const partner = await startDiningSimulator({ username, password, dataFile });
  opened.defer(() => partner.close());
  return { settings: { baseUrl: partner.url, username }, url: partner.url };
}

async function makeKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

/** A secret that gateway and simulator share; made if there is none. */
async function readOrMakeSecret(
  secrets: SecretsManager,
  name: string,
  make: () => Promise<string> | string,
): Promise<string> {
  const existing = await secrets.read(name);
  if (existing) return existing.value;
  const value = await make();
  try {
    await secrets.write(name, value, null);
    return value;
  } catch (error) {
    // Another process made one first, and that one counts.
    if (error instanceof VersionConflict) return readOrMakeSecret(secrets, name, make);
    throw error;
  }
}
