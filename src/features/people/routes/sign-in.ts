import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { defineRoute, type Route, type RouteAnswer } from '../../../api/route.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import { randomBytes } from '../../../platform/base/chance.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { escapeMarkup } from '../../../platform/base/text.ts';
import type { Log } from '../../../platform/observability/log.ts';
import { SecretsUnavailable } from '../../../platform/secrets/secrets-manager.ts';
import { claimElsewhere, personOf } from '../person.ts';
import { type IdToken, IssuerUnavailable, type Provider, type SignInChecks } from '../provider.ts';
import type { Cookies, PeopleSessions } from '../sessions.ts';

export interface SignInServices {
  provider: Provider;
  sessions: PeopleSessions;
  consumers: { newestFirst(): readonly Consumer[] };
  publicUrl: () => string;
  /** Undefined: cookies would not be safe, since people reach the service over plain HTTP. */
  cookies: () => Cookies | undefined;
  log: Log;
}

export const sharedByPeople = {
  tag: 'Operations',
  permission: { none: 'people sign in here, or have a session' },
  isUnlisted: true,
  idempotencyKey: 'ignored',
  problems: [],
} as const;

export function signInRoutes(services: SignInServices): Route[] {
  return [signInRoute(services), callbackRoute(services)];
}

/** Leads the browser to the company's provider. What it has to bring back follows from a cookie that only it has. */
function signInRoute({ provider, publicUrl, cookies, log }: SignInServices): Route {
  return defineRoute({
    ...sharedByPeople,
    method: 'GET',
    path: '/console/sign-in',
    operationId: 'beginSignIn',
    summary: 'Start signing in',
    request: {},
    answers: { 303: { description: 'To the provider.' } },
    async handle({ headers: { cookie } }) {
      const own = cookies();
      if (own === undefined) return needsTls;
      const begun = randomBytes(32).toString('base64url');
      try {
        const url = await provider.signInUrl(checksOf(begun), callbackUrl(publicUrl()));
        return leadTo(url.href, own.signIn.set([begun, ...(own.signIn.in(cookie) ?? [])]));
      } catch (err) {
        if (!(err instanceof IssuerUnavailable)) throw err;
        log.warn({ err }, "nobody can sign in; can't reach the issuer");
        return unavailable;
      }
    },
  });
}

/** Characters of an ID token at most: it is kept with the session. */
const longestIdToken = 65_536;
const answer = Type.Optional(Type.String({ maxLength: 8192, format: 'text' }));

function callbackRoute(services: SignInServices): Route {
  return defineRoute({
    ...sharedByPeople,
    method: 'GET',
    path: '/console/callback',
    operationId: 'endSignIn',
    summary: 'Finish signing in',
    request: {
      query: Type.Object(
        { code: answer, state: answer, iss: answer, error: answer, error_description: answer },
        // Issuers add their own, such as session_state.
        { additionalProperties: Type.String({ maxLength: 8192 }) },
      ),
    },
    answers: { 303: { description: 'To the console.' } },
    async handle({ query, headers: { cookie } }) {
      const own = services.cookies();
      if (own === undefined) return needsTls;
      const all = own.signIn.in(cookie) ?? [];
      const begun = all.find((one) => checksOf(one).state === query.state);
      if (begun === undefined) return notBegunHere;
      const callback = new URL(callbackUrl(services.publicUrl()));
      callback.search = new URLSearchParams(query as Record<string, string>).toString();
      try {
        const token = await services.provider.finish(callback, checksOf(begun));
        const entered = await enter(token, services);
        if ('status' in entered) return entered;
        const before = own.session.in(cookie);
        if (before !== undefined) await services.sessions.end(before);
        const others = all.filter((one) => one !== begun);
        return leadTo('/console/', own.session.set(entered.session), own.signIn.set(others));
      } catch (error) {
        return refusalFor(error, services);
      }
    },
  });
}

async function enter(
  { claims, text }: IdToken,
  { sessions, consumers, log }: SignInServices,
): Promise<RouteAnswer | { session: string }> {
  if (text.length > longestIdToken) {
    log.warn({ characters: text.length }, 'an ID token is longer than what is kept of a session');
    return tooMuch;
  }
  const person = personOf(claims);
  const mayActAs = await sessions.consumersFor(person);
  if (mayActAs.length === 0) {
    const elsewhere = claimElsewhere(claims, consumers.newestFirst());
    log.warn({ left_out: elsewhere }, 'a person has signed in who may act as no consumer');
    return elsewhere === undefined ? noAccess : tooMany(elsewhere);
  }
  return { session: await sessions.begin(person, text, mayActAs) };
}

function callbackUrl(publicUrl: string): string {
  return `${publicUrl}/console/callback`;
}

/** Each for itself says nothing of the others, or of what the cookie holds. */
function checksOf(begun: string): SignInChecks {
  const derive = (what: string) => createHash('sha256').update(`${what} ${begun}`).digest('base64url');
  return { state: derive('state'), nonce: derive('nonce'), verifier: derive('verifier') };
}

function refusalFor(error: unknown, { log }: Pick<SignInServices, 'log'>): RouteAnswer {
  if (error instanceof IssuerUnavailable || error instanceof SecretsUnavailable) {
    log.warn({ err: error }, "couldn't finish a sign-in");
    return unavailable;
  }
  if (error instanceof Problem && error.status >= 500) {
    log.warn({ err: error }, "couldn't store a session");
    return notStored;
  }
  // The library's own words; its errors hold answers of the issuer too.
  const { code, error: refused, message } = error as { code?: string; error?: string; message?: string };
  log.warn({ code, refused, reason: message }, 'a sign-in was refused');
  return refused === 'access_denied' ? notCompleted : notValid;
}

interface Refusal {
  status: number;
  title: string;
  text: string;
}

const pageHeaders = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

function refusalPage({ status, title, text }: Refusal): RouteAnswer {
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeMarkup(title)} – Handoff Gateway</title>
</head>
<body>
<main>
<h1>${escapeMarkup(title)}</h1>
<p>${escapeMarkup(text)}</p>
<p><a href="/console/sign-in">Try again</a> or <a href="/console/">go to the console</a>.</p>
</main>
</body>
</html>
`;
  return {
    status,
    body,
    headers: { ...pageHeaders, 'content-type': 'text/html; charset=utf-8' },
  };
}

const needsTls = refusalPage({
  status: 403,
  title: 'HTTPS is required',
  text: "A session wouldn't be safe here. Open the console over https, or on this machine at http://127.0.0.1 or http://localhost, and set PUBLIC_URL to that address.",
});
const unavailable = refusalPage({
  status: 503,
  title: 'Nobody can sign in right now',
  text: "Your company's sign-in isn't responding. Wait a moment.",
});
const notStored = refusalPage({
  status: 503,
  title: 'Nobody can sign in right now',
  text: "We couldn't store your session. Wait a moment.",
});
const tooMuch = refusalPage({
  status: 403,
  title: "You weren't signed in",
  text: "Your company's sign-in sends more about your account than we can store, perhaps all its groups. Ask an administrator to send only the groups for this application.",
});
const notBegunHere = refusalPage({
  status: 400,
  title: "You weren't signed in",
  text: 'This sign-in started in another browser or more than 15 minutes ago, or cookies are off.',
});
const notCompleted = refusalPage({
  status: 403,
  title: "You weren't signed in",
  text: "Your company's sign-in says that it wasn't completed, or that you can't use this console.",
});
const notValid = refusalPage({
  status: 400,
  title: "You weren't signed in",
  text: "The response from your company's sign-in isn't valid, or was already used. An administrator can find the reason in the log.",
});
const noAccess = refusalPage({
  status: 403,
  title: "You don't have access",
  text: "You're signed in, but your account has no access to this console. Ask an administrator.",
});
const tooMany = (claim: string) =>
  refusalPage({
    status: 403,
    title: "You don't have access",
    text: `Your account has too many ${claim} for your company's sign-in to list them here, so we can't tell whether you have access. Ask an administrator to send only the ${claim} for this application.`,
  });

function leadTo(location: string, ...cookies: string[]): RouteAnswer {
  return {
    status: 303,
    headers: {
      location,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    },
    cookies,
  };
}
