import { createPublicKey, generateKeyPair } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { readOrMakeSecret, type Simulated, type Simulator } from '../platform/simulators/simulator.ts';

/** A simulated Salesforce org. */
export interface SimulatedOrg extends Simulated {
  /** External ID of a member to try things with. */
  memberId: string;
}

/** Trusts the gateway's own key as a real org trusts its certificate. */
export const orgSimulator = {
  name: 'crm',
  async start({ crm, dataDir }, secrets, opened): Promise<SimulatedOrg | undefined> {
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
      dataFile: join(dataDir, 'simulated-org.jsonl'),
      seed: { members: 120 },
    });
    opened.defer(() => org.close());
    const { url } = org;
    const [memberId] = org.memberIds(1);
    return {
      settings: {
        'crm.loginUrl': url,
        'crm.audience': url,
        'crm.clientId': clientId,
        'crm.username': username,
      },
      url,
      memberId: memberId as string,
    };
  },
} satisfies Simulator;

async function makeKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}
