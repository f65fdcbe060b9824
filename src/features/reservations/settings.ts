import { Type } from 'typebox';
import { checkConnection, checkEncrypted } from '../../platform/settings/rules.ts';
import { httpUrl, secretName, setting, text, withoutLastSlash } from '../../platform/settings/setting.ts';
import type { Complete, Read, SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

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
  'dining.timeZones': setting(
    'DINING_TIME_ZONES',
    Type.Array(text, { maxItems: 1000 }),
    ({ production }) => (production ? [] : ['casa-olivo-7=Europe/Madrid']),
    'Time zones of restaurants, each as `<merchant_id>=<IANA name>` (comma separated), for people who look at a reservation; ' +
      'outside production that of the simulated restaurant when not set.',
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
export type DiningSettings = Omit<Complete<ReservationsSettings['dining']>, 'timeZones'>;

const diningKeys = {
  any: ['dining.baseUrl', 'dining.username', 'dining.passwordSecret'],
  needed: ['dining.baseUrl', 'dining.username'],
};

export const reservationsPart: SettingsPart = {
  table: reservationsSettings,
  check: (read) => [
    ...checkConnection(read, diningKeys),
    ...checkEncrypted(read, 'dining.baseUrl'),
    ...checkTimeZones(read),
  ],
};

/** Time zones by merchant id. */
export function readTimeZones(pairs: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    pairs.map((pair) => {
      const at = pair.lastIndexOf('=');
      return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    }),
  );
}

function checkTimeZones({ raw, named }: Read): string[] {
  const pairs = (raw['dining.timeZones'] ?? []) as string[];
  return pairs
    .filter((pair) => !/^.+=[^=]+$/.test(pair) || !isTimeZone(pair.slice(pair.lastIndexOf('=') + 1).trim()))
    .map(
      (pair) => `${named('dining.timeZones')}: ${JSON.stringify(pair)} is no merchant id, = and time zone`,
    );
}

function isTimeZone(name: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}
