import { join } from 'node:path';
import { randomBytes } from '../../platform/base/chance.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { readOrMakeSecret, type Simulator } from '../../platform/simulators/simulator.ts';
import type { ReservationsSettings } from './settings.ts';

export const partnerSimulator: Simulator = {
  name: 'dining',
  async start(settings, secrets, opened) {
    const { dining, dataDir, production } = settings as Settings & ReservationsSettings;
    if (dining.baseUrl !== undefined || production) return undefined;
    const password = await readOrMakeSecret(secrets, dining.passwordSecret, () =>
      randomBytes(24).toString('base64url'),
    );
    const username = 'handoff-gateway';
    // Imported here only; production never comes here.
    const { startDiningSimulator } = await import('../../../simulators/dining/simulator.ts');
    const dataFile = join(dataDir, 'simulated-partner.jsonl');
    const partner = await startDiningSimulator({ username, password, dataFile });
    opened.defer(() => partner.close());
    return {
      settings: {
        'dining.baseUrl': partner.url,
        'dining.username': username,
        'dining.merchants': dining.merchants.length > 0 ? dining.merchants : partner.merchants,
      },
      url: partner.url,
    };
  },
};
