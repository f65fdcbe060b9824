import { Type } from 'typebox';
import { checkConnection, checkEncrypted } from '../../platform/settings/rules.ts';
import { httpUrl, secretName, setting, text, withoutLastSlash } from '../../platform/settings/setting.ts';
import type { Complete, SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const reservationsSettings = {
  'dining.baseUrl': setting(
    'DINING_BASE_URL',
    httpUrl,
    undefined,
    'Booking server of the dining partner; `/v3/…` follows it. The simulator when not set, and in production no reservations.',
    { normalize: withoutLastSlash },
  ),
  'dining.username': setting('DINING_USERNAME', text, undefined, 'User name at the dining partner.'),
  'dining.passwordSecret': setting(
    'DINING_PASSWORD_SECRET',
    secretName,
    ({ environment }) => `dining/${environment}/password`,
    'Name of the secret that holds the password; `dining/<environment>/password` when not set.',
  ),
  reservationRetentionDays: setting(
    'RESERVATION_RETENTION_DAYS',
    Type.Number({ exclusiveMinimum: 0, maximum: 3650 }),
    90,
    "How long the guest's data in a reservation is kept, from the end of the reservation's time.",
  ),
};

export type ReservationsSettings = SettingsOf<typeof reservationsSettings>;

/** The settings `dining.*` with a partner, real or simulated. */
export type DiningSettings = Complete<ReservationsSettings['dining']>;

const diningKeys = {
  any: ['dining.baseUrl', 'dining.username', 'dining.passwordSecret'],
  needed: ['dining.baseUrl', 'dining.username'],
};

export const reservationsPart: SettingsPart = {
  table: reservationsSettings,
  check: (read) => [...checkConnection(read, diningKeys), ...checkEncrypted(read, 'dining.baseUrl')],
};
