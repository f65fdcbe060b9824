import type { Command } from 'commander';
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
import { type Cookies, createCookies } from './cookies.ts';
import { Provider } from './provider.ts';
import { type SessionServices, sessionRoutes } from './routes/session.ts';
import { type SignInServices, signInRoutes } from './routes/sign-in.ts';
import { PeopleSessions } from './sessions.ts';
import { forgetSessionsOf, SessionsTable } from './sessions-table.ts';
import { type PeopleSettings, peoplePart } from './settings.ts';

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
