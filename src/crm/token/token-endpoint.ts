import { decodeJwt } from 'jose';
import { wallMs } from '../../platform/base/chance.ts';
import { type Http, type HttpAnswer, HttpFailure } from '../../platform/http/http.ts';
import { withoutIds } from '../mapping/names.ts';
import { isBearerToken, parseObject, readInstanceUrl } from './access-token.ts';

export interface IssuedToken {
  accessToken: string;
  instanceUrl: string;
  lifetimeSeconds: number | undefined;
  orgId: string | undefined;
}

export class TokenFailure extends Error {
  override readonly name = 'TokenFailure';
  readonly reason: string;
  readonly advice: string;
  readonly permanent: boolean;
  /** Undefined where the org did not answer, or not as OAuth has it. */
  readonly refusal: SignInRefusal | undefined;

  constructor(reason: string, advice: string, options: { permanent: boolean; refusal?: SignInRefusal }) {
    const description = options.refusal?.error_description;
    super(`${reason}${description ? ` (${description})` : ''}: ${advice}`);
    this.reason = reason;
    this.advice = advice;
    this.permanent = options.permanent;
    this.refusal = options.refusal;
  }
}

/** A refused sign-in in the org's own words (RFC 6749 section 5.2). */
export interface SignInRefusal {
  error: string;
  /** In the language of the org, in one line of at most 300 characters; null where it gives none. */
  error_description: string | null;
}

/** The CRM's token endpoint, JWT bearer flow (RFC 7523 section 2.1): two form parameters, no client secret. */
export function createTokenEndpoint(options: { http: Http; loginUrl: string; timeoutMs: number }) {
  const url = `${options.loginUrl.replace(/\/+$/, '')}/services/oauth2/token`;
  return {
    /** Trades an assertion for an access token. Throws `TokenFailure`. */
    async request(assertion: string): Promise<IssuedToken> {
      const body = new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
        assertion,
      });
      const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' };
      const { timeoutMs } = options;
      const answer = await options.http
        .exchange({ url, method: 'POST', headers, body: body.toString(), timeoutMs, maxBytes })
        .catch(noAnswer);
      if (answer.status !== 200) throw refusal(answer, assertion);
      return readToken(answer);
    },
  };
}

/** A token has a few kilobytes; nothing else is expected. */
const maxBytes = 256 * 1024;

function noAnswer(error: unknown): never {
  if (!(error instanceof HttpFailure)) throw error;
  const advice = `The token endpoint didn't answer (${error.message}). If that lasts, check crm.loginUrl and the network.`;
  throw new TokenFailure(error.kind, advice, { permanent: false });
}

function readToken(answer: HttpAnswer): IssuedToken {
  const members = parseObject(answer.body);
  const accessToken = members?.['access_token'];
  const instanceUrl = readInstanceUrl(members?.['instance_url']);
  if (!isBearerToken(accessToken) || instanceUrl === undefined) {
    const advice =
      'The token endpoint answered 200 without a usable access_token and instance_url (an https origin; http only on ' +
      'this machine). Check crm.loginUrl.';
    throw new TokenFailure('unusable_answer', advice, { permanent: false });
  }
  const lifetimeSeconds = namedLifetime(members?.['expires_in'], accessToken);
  return { accessToken, instanceUrl, lifetimeSeconds, orgId: orgIdIn(members?.['id']) };
}

function orgIdIn(identity: unknown): string | undefined {
  return typeof identity === 'string' ? /\/id\/(00D\w{12,15})\//.exec(identity)?.[1] : undefined;
}

/**
 * Salesforce names no lifetime in its answer, but access tokens in JWT format carry `exp`. It is measured from the
 * token's own `iat` where there is one, so that a clock that differs from the CRM's does no harm.
 */
function namedLifetime(expiresIn: unknown, accessToken: string): number | undefined {
  const seconds = Number(expiresIn ?? Number.NaN);
  if (seconds > 0 && Number.isFinite(seconds)) return seconds;
  try {
    const { exp, iat } = decodeJwt(accessToken);
    if (exp === undefined) return undefined;
    return Math.max(1, exp - (iat ?? wallMs() / 1000));
  } catch {
    // An opaque token, as Salesforce issues them unless the app says otherwise.
    return undefined;
  }
}

interface Refusal {
  error: RegExp;
  description?: RegExp;
  permanent: boolean;
  advice: string;
}

/** Errors of the token endpoint; the first row that fits holds. Salesforce Help, OAuth 2.0 Flow Errors. */
const refusals: Refusal[] = [
  {
    error: /^app_not_found$/,
    permanent: true,
    advice:
      "This host doesn't know the app. Since spring 2026, external client apps sign in at the org itself: set crm.loginUrl " +
      "to the org's My Domain address (Setup, My Domain; https://mydomainname.my.salesforce.com) and leave crm.audience " +
      'out. If it already is, crm.loginUrl may belong to another org, or crm.clientId may (an app belongs to one org, and a ' +
      "refreshed sandbox is a new one), or the app doesn't admit the integration user: assign its permission set.",
  },
  {
    error: /^invalid_grant$/,
    description: /approved/i,
    permanent: true,
    advice:
      "Nobody approved the app for the integration user. Set the app's permitted users to pre-authorized by an " +
      'administrator, and assign its permission set or profile to the user.',
  },
  {
    error: /^invalid_grant$/,
    description: /audience/i,
    permanent: true,
    advice:
      "The audience is wrong. Set crm.loginUrl to the org's My Domain address (https://mydomainname.my.salesforce.com) and " +
      'leave crm.audience out. Some orgs expect https://login.salesforce.com, or https://test.salesforce.com for a ' +
      'sandbox; then set crm.audience to that.',
  },
  {
    error: /^invalid_grant$/,
    description: /expired/i,
    permanent: true,
    advice: "Salesforce considers the assertion expired. Correct this machine's clock.",
  },
  {
    error: /^invalid_grant$/,
    description: /assertion/i,
    permanent: true,
    advice:
      "Salesforce doesn't accept the signature. The private key doesn't belong to the app's certificate, or crm.username is wrong.",
  },
  {
    error: /^invalid_grant$/,
    description: /locked/i,
    permanent: true,
    advice: 'The integration user is locked. Unlock it in the org.',
  },
  {
    error: /./,
    description: /\bip\b.*(restrict|range)/i,
    permanent: true,
    advice:
      "The org doesn't let the integration user sign in from this machine's address. Add it to the login IP ranges of the " +
      "user's profile, or relax the app's IP restrictions. Setup, Login History shows the address as Source IP.",
  },
  {
    error: /^(OAUTH_APP_BLOCKED|invalid_grant|invalid_client)$/i,
    description: /block/i,
    permanent: true,
    advice:
      'An administrator has blocked the app in this org. Unblock it in Setup, Connected Apps OAuth Usage.',
  },
  {
    error: /^(OAUTH_APP_BLOCKED|OAUTH_APPROVAL_ERROR_GENERIC)$/i,
    permanent: true,
    advice:
      "The org's API Access Control only lets in apps that it knows. Install the app in Setup, Connected Apps OAuth Usage, " +
      'and allow it for the integration user, or give the user the permission Use Any API Client.',
  },
  {
    error: /^invalid_grant$/,
    permanent: true,
    advice:
      'Salesforce refuses the grant. Check crm.username, that the app admits this user (pre-authorized), crm.audience, the ' +
      "private key, and this machine's clock.",
  },
  {
    error: /^invalid_client/,
    permanent: true,
    advice:
      "Salesforce doesn't know the app. crm.clientId must be its consumer key, and a new app may need some minutes.",
  },
  {
    error: /^(invalid_app_access|OAUTH_APP_ACCESS_DENIED)$/i,
    permanent: true,
    advice: "The integration user may not use the app. Assign the app's permission set or profile to it.",
  },
  {
    error: /^inactive_user$/,
    permanent: true,
    advice: "The integration user isn't active. Activate it in the org.",
  },
  { error: /^inactive_org$/, permanent: true, advice: "The org isn't active. Ask its owner." },
  {
    error: /^(rate_limit_exceeded|login_rate_exceeded|temporarily_unavailable|server_error)$/i,
    permanent: false,
    advice:
      'Salesforce is limiting logins. If that lasts, look for other clients that log in as the same user.',
  },
  {
    error:
      /^(invalid_request|unsupported_grant_type|unsupported_response_type|unauthorized_client|invalid_scope)$/,
    permanent: true,
    advice:
      "Salesforce doesn't accept the JWT bearer flow here. Check crm.loginUrl, and that the flow is enabled for the app by " +
      'a certificate.',
  },
];

function refusal(answer: HttpAnswer, assertion: string): TokenFailure {
  const members = parseObject(answer.body);
  const error = text(members?.['error']).slice(0, 60);
  if (!/^\w+$/.test(error)) return noErrorBody(answer.status);
  const description = text(members?.['error_description']);
  const ofOrg = { error, error_description: shown(description, assertion) || null };
  const known = refusals.find((row) => row.error.test(error) && (row.description?.test(description) ?? true));
  const { advice, permanent } = known ?? {
    advice: `The gateway doesn't know this error (status ${answer.status}).`,
    permanent: true,
  };
  const passing = answer.status >= 500 || answer.status === 429;
  return new TokenFailure(error, advice, { permanent: permanent && !passing, refusal: ofOrg });
}

function shown(description: string, assertion: string): string {
  return withoutIds(
    description
      .slice(0, 2000)
      .replaceAll(assertion, '(assertion)')
      .replace(/\S{50,}/g, '(long text)'),
  );
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Edges and proxies answer in HTML, or not as OAuth has it; that may pass. */
function noErrorBody(status: number): TokenFailure {
  const advice = `The token endpoint answered ${status} without an OAuth error. If that lasts, check crm.loginUrl.`;
  return new TokenFailure(`status_${status}`, advice, { permanent: false });
}
