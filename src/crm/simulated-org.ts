import { createPublicKey, generateKeyPair } from 'node:crypto';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import type { SecretsManager } from '../platform/secrets/secrets-manager.ts';
import type { Settings } from '../platform/settings/table.ts';
import { readOrMakeSecret, type Simulated, type Simulator } from '../platform/simulators/simulator.ts';

export interface SimulatedOrg extends Simulated {
  memberId: string;
}

export const orgSimulator = {
  name: 'crm',
  start(settings, secrets, opened): Promise<SimulatedOrg | undefined> {
    const { crm, dataDir } = settings;
    return startOrg(settings, secrets, opened, {
      dataFile: join(dataDir, `simulated-org${suffixOf(crm.simulatedOrg)}.jsonl`),
      seed: { members: 120 },
    });
  },
} satisfies Simulator;

export function startEmptyOrg(settings: Settings, secrets: SecretsManager, opened: AsyncDisposableStack) {
  return startOrg(settings, secrets, opened, {});
}

async function startOrg(
  { crm }: Settings,
  secrets: SecretsManager,
  opened: AsyncDisposableStack,
  records: { dataFile?: string; seed?: { members: number } },
): Promise<SimulatedOrg | undefined> {
  if (crm.loginUrl !== undefined) return undefined;
  const privateKey = await readOrMakeSecret(secrets, crm.privateKeySecret, makeKey);
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }) as string;
  const clientId = 'handoff-gateway-local';
  const username = 'gateway@example.com';
  // Imported here only; production never comes here.
  const { startSalesforceSimulator } = await import('../../simulators/salesforce/simulator.ts');
  const org = await startSalesforceSimulator({
    clientId,
    username,
    userName: 'Handoff Gateway Integration',
    publicKey,
    org: crm.simulatedOrg,
    ...records,
  });
  opened.defer(() => org.close());
  const { url } = org;
  const mappingFile = crm.mappingFile ?? org.mappingFile;
  const [memberId] = org.memberIds(1);
  return {
    settings: {
      'crm.loginUrl': url,
      'crm.audience': url,
      'crm.clientId': clientId,
      'crm.username': username,
      ...(mappingFile !== undefined && { 'crm.mappingFile': mappingFile }),
    },
    url,
    memberId: memberId as string,
  };
}

function suffixOf(org: string): string {
  return org === 'default' ? '' : `-${basename(org).replace(/\.ya?ml$/, '')}`;
}

async function makeKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}
