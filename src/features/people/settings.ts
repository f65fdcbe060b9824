import { Type } from 'typebox';
import { isLoopback } from '../../platform/base/networks.ts';
import { httpUrl, like, setting, text } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const moreThanZero = (maximum: number) =>
  Type.Number({ exclusiveMinimum: 0, maximum, description: `a number above 0, up to ${maximum}` });

export const peopleSettings = {
  'people.issuer': setting(
    'PEOPLE_ISSUER',
    httpUrl,
    undefined,
    'OpenID Connect issuer at which people sign in. See people.md.',
  ),
  'people.clientId': setting('PEOPLE_CLIENT_ID', text, undefined, "The gateway's client id there."),
  'people.scopes': setting(
    'PEOPLE_SCOPES',
    like(
      '^(?=.*\\bopenid\\b)[\\x21\\x23-\\x5b\\x5d-\\x7e]+( [\\x21\\x23-\\x5b\\x5d-\\x7e]+)*$',
      'scopes with spaces between them, openid among them',
      500,
    ),
    'openid email profile',
    'Scopes that the gateway asks for.',
  ),
  'people.label': setting(
    'PEOPLE_LABEL',
    like('^\\P{C}{1,60}$', 'up to 60 characters', 60),
    'your company account',
    'Text on the button after `Sign in with`.',
  ),
  'people.only': setting('PEOPLE_ONLY', Type.Boolean(), false, "Removes the console's form for API keys."),
  'people.idleMinutes': setting(
    'PEOPLE_IDLE_MINUTES',
    moreThanZero(10_080),
    60,
    'How long a session lasts without requests.',
  ),
  'people.sessionHours': setting(
    'PEOPLE_SESSION_HOURS',
    moreThanZero(720),
    12,
    'How long a session lasts at most.',
  ),
};

export type PeopleSettings = SettingsOf<typeof peopleSettings>;

export const peoplePart: SettingsPart = {
  table: peopleSettings,
  check: ({ raw, production, named }) => {
    const issuer = raw['people.issuer'] as string | undefined;
    if (issuer === undefined) return [];
    const faults: string[] = [];
    const url = URL.parse(issuer);
    const isOpen = url?.protocol === 'http:' && !(isLoopback(url) && !production);
    if (url === null || isOpen)
      faults.push(
        `${named('people.issuer')} must begin with https://${production ? '' : ', or name this machine'}`,
      );
    if (raw['people.clientId'] === undefined)
      faults.push(`${named('people.clientId')} is missing: people.issuer needs it`);
    return faults;
  },
};
