import type { Command } from 'commander';
import { Type } from 'typebox';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { forgetPersonInAttempts } from '../../identity/audit/attempt-table.ts';
import { sessions as offer } from '../../identity/consumers/authentication.ts';
import { isLoopback } from '../../platform/base/networks.ts';
import {
  addGroup,
  CommandFailed,
  exitBadInput,
  type LoadSettings,
  print,
  runCommand,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { httpUrl, like, setting, text } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { Provider } from './provider.ts';
import { type SessionServices, sessionRoutes } from './routes/session.ts';
import { type SignInServices, signInRoutes } from './routes/sign-in.ts';
import { type Cookies, createCookies, PeopleSessions } from './sessions.ts';
import { forgetSessionsOf, SessionsTable } from './sessions-table.ts';

function registerPeopleCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'people',
    alias: 'person',
    heading: 'erasure',
    description: 'people who have signed in',
  });
  group
    .command('forget')
    .description("end a person's sessions, and erase the person from the access log")
    .argument('<email>', 'e-mail address, or the name that stands in records instead')
    .option('--json', 'print JSON')
    .action((email: string, options: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        if (!/\S/.test(email)) throw new CommandFailed("Enter the person's e-mail address.", exitBadInput);
        const forgotten = await withDatabase(load, 'handoff people', async (database) => ({
          sessions: await forgetSessionsOf(database, email),
          attempts: await forgetPersonInAttempts(database, email),
        }));
        print(options.json, forgotten, show);
      }),
    );
}

function show({ sessions, attempts }: { sessions: number; attempts: number }): string {
  return `Ended ${sessions} sessions, and erased the person from ${attempts} entries in the access log.`;
}

const moreThanZero = (maximum: number) =>
  Type.Number({ exclusiveMinimum: 0, maximum, description: `a number above 0, up to ${maximum}` });

const peopleSettings = {
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

type PeopleSettings = SettingsOf<typeof peopleSettings>;

const peoplePart: SettingsPart = {
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

type Parts = SignInServices & SessionServices;

export const people = defineFeature({
  name: 'people',
  settings: peoplePart,
  start,
  routes: (parts: Parts) => [...signInRoutes(parts), ...sessionRoutes(parts)],
  commands: registerPeopleCommands,
});

function start({
  settings,
  secrets,
  database,
  consumers,
  offers,
  publicUrl,
  log,
}: Core<PeopleSettings>): Started<Parts> {
  const { issuer, clientId, scopes, label, only, idleMinutes, sessionHours } = settings.people;
  if (issuer === undefined || clientId === undefined) return { routes: null };
  const { directory } = consumers;
  const secretName = `people/${settings.environment}/client-secret`;
  const provider = new Provider({ issuer, clientId, scopes, secretName, secrets });
  const table = new SessionsTable(database, { issuer, idleMinutes, sessionHours });
  const sessions = new PeopleSessions({ table, directory });
  let made: Cookies | undefined;
  const cookies = () => {
    const url = new URL(publicUrl());
    const isSecure = url.protocol === 'https:';
    if (isSecure || isLoopback(url)) made ??= createCookies(isSecure, sessionHours * 3600);
    return made;
  };
  offers.make(offer, {
    sessionIn: (header) => (header === undefined ? undefined : cookies()?.session.in(header)),
    authenticate: (session) => sessions.authenticate(session),
    label,
    isOnly: only,
  });
  return {
    routes: { provider, sessions, consumers: directory, publicUrl, cookies, log },
    jobs: [
      {
        name: 'clear-sessions',
        cron: '32 * * * *',
        steps: { sessions: (signal) => table.deleteEnded(signal) },
      },
    ],
  };
}
