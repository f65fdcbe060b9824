import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import type { DiningAddress } from '../settings/settings.ts';
import { readOrMakeSecret } from './read-or-make-secret.ts';

const username = 'handoff-gateway';

/** A simulated dining partner on a loopback port of its own. */
export interface SimulatedPartner {
  address: DiningAddress;
  url: string;
  close(): Promise<void>;
}

export interface SimulatedPartnerOptions {
  secrets: SecretsManager;
  /** Name of the secret with the password; made if there is none. */
  passwordSecret: string;
  /** Its bookings are kept here. */
  dataDir: string;
}

/** Starts the simulated dining partner, which knows the gateway's password. */
export async function startSimulatedPartner(options: SimulatedPartnerOptions): Promise<SimulatedPartner> {
  const { secrets, passwordSecret, dataDir } = options;
  const password = await readOrMakeSecret(secrets, passwordSecret, () =>
    randomBytes(24).toString('base64url'),
  );
  const { startDiningSimulator } = await import('../../simulators/dining/simulator.ts');
  const partner = await startDiningSimulator({
    username,
    password,
    dataFile: join(dataDir, 'simulated-partner.jsonl'),
  });
  return {
    address: { baseUrl: partner.url, username },
    url: partner.url,
    close: () => partner.close(),
  };
}
