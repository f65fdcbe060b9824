import { Type } from 'typebox';
import { checkConnection, checkEncrypted } from '../../platform/settings/rules.ts';
import { httpUrl, secretName, setting, text, withoutLastSlash } from '../../platform/settings/setting.ts';
import type { Complete, Read, SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { type Merchant, merchantSchema } from './merchants.ts';

const merchants = Type.Array(merchantSchema, {
  maxItems: 1000,
  description: 'a list of restaurants, in the variable as JSON: see dining-partner.md',
});

export const reservationsSettings = {
  'dining.baseUrl': setting(
    'DINING_BASE_URL',
    httpUrl,
    undefined,
    "The dining partner's booking server; defaults to the simulated partner, in production to no reservations.",
    { normalize: withoutLastSlash },
  ),
  'dining.username': setting('DINING_USERNAME', text, undefined, 'User name there.'),
  'dining.passwordSecret': setting(
    'DINING_PASSWORD_SECRET',
    secretName,
    ({ environment }) => `dining/${environment}/password`,
    'Secret with the password; defaults to `dining/<environment>/password`.',
  ),
  'dining.timeZones': setting(
    'DINING_TIME_ZONES',
    Type.Array(text, { maxItems: 1000 }),
    ({ production }) => (production ? [] : ['casa-olivo-7=Europe/Madrid']),
    "Restaurants' time zones, each `<merchant_id>=<IANA name>`.",
  ),
  'dining.merchants': setting(
    'DINING_MERCHANTS',
    merchants,
    [] as Merchant[],
    'The restaurants that can be booked. See dining-partner.md.',
  ),
  reservationRetentionDays: setting(
    'RESERVATION_RETENTION_DAYS',
    Type.Number({ exclusiveMinimum: 0, maximum: 3650 }),
    90,
    "How long the gateway keeps a guest's data after the reservation ends.",
  ),
};

export type ReservationsSettings = SettingsOf<typeof reservationsSettings>;

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
    ...checkMerchants(read),
  ],
};

export function readTimeZones({
  timeZones,
  merchants: known,
}: Pick<ReservationsSettings['dining'], 'timeZones' | 'merchants'>): ReadonlyMap<string, string> {
  const set = timeZones.map((pair): [string, string] => {
    const at = pair.lastIndexOf('=');
    return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
  });
  const usual = known.map(({ merchant_id, time_zone }): [string, string] => [merchant_id, time_zone]);
  return new Map([...usual, ...set]);
}

function checkTimeZones({ raw, named }: Read): string[] {
  const pairs = (raw['dining.timeZones'] ?? []) as string[];
  return pairs
    .filter((pair) => !/^.+=[^=]+$/.test(pair) || !isTimeZone(pair.slice(pair.lastIndexOf('=') + 1).trim()))
    .map(
      (pair) => `${named('dining.timeZones')}: ${JSON.stringify(pair)} is no merchant id, = and time zone`,
    );
}

function checkMerchants({ raw, named }: Read): string[] {
  const given = (raw['dining.merchants'] ?? []) as Merchant[];
  const where = named('dining.merchants');
  const zones = given
    .filter(({ time_zone }) => !isTimeZone(time_zone))
    .map(({ time_zone }) => `${where}: ${JSON.stringify(time_zone)} is no time zone`);
  const ids = given.map(({ merchant_id }) => merchant_id);
  const twice = ids
    .filter((id, index) => ids.indexOf(id) !== index)
    .map((id) => `${where}: ${JSON.stringify(id)} is there twice`);
  return [...zones, ...twice];
}

function isTimeZone(name: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}
