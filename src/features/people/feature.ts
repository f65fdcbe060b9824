import { type Core, defineFeature, type Started } from '../../feature.ts';
import { sessions as offer } from '../../identity/consumers/authentication.ts';
import { isLoopback } from '../../platform/base/loopback.ts';
import { registerPeopleCommands } from './cli.ts';
import { type Cookies, createCookies } from './cookies.ts';
import { Provider } from './provider.ts';
import { type SessionServices, sessionRoutes } from './routes/session.ts';
import { type SignInServices, signInRoutes } from './routes/sign-in.ts';
import { PeopleSessions } from './sessions.ts';
import { SessionsTable } from './sessions-table.ts';
import { type PeopleSettings, peoplePart } from './settings.ts';

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
