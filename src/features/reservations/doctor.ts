import { type DoctorCheck, NothingToCheck, secretsOf, settingsOf } from '../../feature.ts';
import { createMetrics } from '../../platform/observability/metrics.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { checkDiningPartner } from './connectors/dining/dining-check.ts';
import { reservationMetrics } from './metrics.ts';
import type { DiningSettings, ReservationsSettings } from './settings.ts';

export const diningCheck: DoctorCheck = {
  name: 'dining partner',
  needs: ['secrets manager'],
  async run(context) {
    const { dining, production } = settingsOf(context) as Settings & ReservationsSettings;
    if (dining.baseUrl === undefined) {
      const instead = production
        ? 'there are no reservations'
        : 'a simulated partner runs inside the service';
      throw new NothingToCheck(`dining.* is not set: ${instead}`);
    }
    const metrics = createMetrics(reservationMetrics);
    return checkDiningPartner({ ...(dining as DiningSettings), secrets: secretsOf(context), metrics });
  },
};
