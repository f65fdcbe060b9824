import { Type } from 'typebox';
import { requireSame, requireSamePerson, sessionFaultOf } from '../../../api/pipeline/authentication.ts';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import { invalidCredentials } from '../../../identity/consumers/authentication.ts';
import { markOf } from '../../../identity/consumers/people.ts';
import { Problem } from '../../../platform/base/problem.ts';
import type { Provider } from '../provider.ts';
import type { Cookies, OpenSession, PeopleSessions } from '../sessions.ts';
import { sharedByPeople } from './sign-in.ts';

export interface SessionServices {
  provider: Provider;
  sessions: PeopleSessions;
  publicUrl: () => string;
  cookies: () => Cookies | undefined;
}

type Headers = Parameters<typeof sessionFaultOf>[0]['headers'];

const answers = { 200: { description: 'The session.' } };
const noStore = { 'cache-control': 'no-store' };
/** With the mark by which the console names the person whose session it shows. */
const headersFor = ({ subject }: OpenSession) => ({ ...noStore, 'x-handoff-person': markOf(subject) });

export function sessionRoutes(services: SessionServices): Route[] {
  return [readRoute(services), chooseRoute(services), signOutRoute(services)];
}

function readRoute(services: SessionServices): Route {
  return defineRoute({
    ...sharedByPeople,
    method: 'GET',
    path: '/console/session',
    operationId: 'getSession',
    summary: 'Read your session',
    request: {},
    answers,
    async handle({ headers }) {
      const { open } = await find(services, headers, false);
      return json(200, await viewOf(open, services), headersFor(open));
    },
  });
}

function chooseRoute(services: SessionServices): Route {
  return defineRoute({
    ...sharedByPeople,
    method: 'POST',
    path: '/console/session',
    operationId: 'chooseConsumer',
    summary: 'Act as another consumer',
    request: {
      body: Type.Object(
        { consumer_id: Type.String({ maxLength: 64, format: 'text' }) },
        { additionalProperties: false },
      ),
    },
    answers,
    async handle({ headers, body: { consumer_id } }) {
      const { open, session } = await find(services, headers, true);
      requireSame({ headers }, open.consumer, open);
      const consumer = (await services.sessions.consumersFor(open)).find(({ id }) => id === consumer_id);
      if (consumer === undefined)
        throw new Problem('not_found', "There's no consumer with this id that you can act as.");
      if (!(await services.sessions.choose(session, consumer))) throw hasEnded();
      return json(200, await viewOf({ ...open, consumer }, services), headersFor(open));
    },
  });
}

function signOutRoute(services: SessionServices): Route {
  return defineRoute({
    ...sharedByPeople,
    method: 'POST',
    path: '/console/sign-out',
    operationId: 'signOut',
    summary: 'Sign out',
    request: {},
    answers: { 200: { description: 'The session has ended.' } },
    async handle({ headers }) {
      const { session, cookies } = presentedIn(services, headers, true);
      const open = await services.sessions.open(session);
      if (open) requireSamePerson({ headers }, open);
      const idToken = await services.sessions.end(session);
      // The cookie of a session that has ended before is still there.
      const end_session_url =
        idToken === undefined
          ? null
          : await services.provider.signOutUrl(idToken, `${services.publicUrl()}/console/`);
      return { ...json(200, { end_session_url }, noStore), cookies: [cookies.session.set(undefined)] };
    },
  });
}

/** Throws `invalid_credentials` without a session, and `permission_denied` for requests that are not the console's. */
function presentedIn(
  { cookies: made }: Pick<SessionServices, 'cookies'>,
  headers: Headers,
  isWrite: boolean,
) {
  const cookies = made();
  const session = cookies?.session.in(headers.cookie);
  if (cookies === undefined || session === undefined) throw invalidCredentials("You aren't signed in.");
  // Browsers say from where; other programs may read without.
  const isUnsaid = !isWrite && headers['sec-fetch-site'] === undefined;
  const fault = isUnsaid ? undefined : sessionFaultOf({ headers }, isWrite);
  if (fault !== undefined) throw new Problem('permission_denied', fault);
  return { session, cookies };
}

/** Throws as above, also where the session has ended. */
async function find(services: SessionServices, headers: Headers, isWrite: boolean) {
  const { session } = presentedIn(services, headers, isWrite);
  const open = await services.sessions.open(session);
  if (open === undefined) throw hasEnded();
  return { open, session };
}

const hasEnded = () => invalidCredentials('Your session has ended. Sign in again.');

async function viewOf(open: OpenSession, { sessions }: SessionServices) {
  const shown = ({ id, name }: { id: string; name: string }) => ({ id, name });
  return {
    person: { name: open.name ?? open.actor, email: open.email },
    consumer: shown(open.consumer),
    consumers: (await sessions.consumersFor(open)).map(shown),
    expires_at: open.ends_at.toISOString(),
  };
}
