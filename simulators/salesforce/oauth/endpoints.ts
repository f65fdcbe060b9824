import { type HttpAnswer, type HttpCall, jsonAnswer } from '../../shared/exchange.ts';
import type { Org } from '../org/org.ts';
import { NEWEST } from '../rest/discovery.ts';
import { type AssertionRules, checkAssertion, OAuthError } from './assertion.ts';
import type { Sessions } from './sessions.ts';

export interface OAuthContext {
  org: Org;
  sessions: Sessions;
  rules(): AssertionRules;
  baseUrl(): string;
  onTokenIssued(): void;
}

const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const NO_STORE = { 'Cache-Control': 'no-store', Pragma: 'no-cache' };

export function oauthErrorAnswer(error: OAuthError): HttpAnswer {
  return jsonAnswer(error.status, { error: error.error, error_description: error.message }, NO_STORE);
}

function identityUrl({ org, baseUrl }: OAuthContext): string {
  return `${baseUrl()}/id/${org.id}/${org.user.id}`;
}

/** No `expires_in`, no `issued_at`: a JWT bearer answer has neither. */
async function issueToken(context: OAuthContext, call: HttpCall): Promise<HttpAnswer> {
  const form = new URLSearchParams(call.body.toString('utf8'));
  if (form.get('grant_type') !== GRANT_TYPE) {
    throw new OAuthError('unsupported_grant_type', 'grant type not supported');
  }
  const assertion = form.get('assertion');
  if (assertion === null) throw new OAuthError('invalid_request', 'assertion is missing');
  await checkAssertion(assertion, call.headers.host, context.rules());
  const session = await context.sessions.issue();
  context.onTokenIssued();
  const body = {
    access_token: session.token,
    scope: 'id api',
    instance_url: context.baseUrl(),
    id: identityUrl(context),
    token_type: 'Bearer',
  };
  return jsonAnswer(200, body, NO_STORE);
}

/** The token of `Authorization: Bearer …` (or `OAuth …`), else of `oauth_token` in the query. */
export function tokenOf(call: HttpCall): string | undefined {
  const given = /^(?:Bearer|OAuth)\s+(\S+)$/i.exec(call.headers.authorization ?? '')?.[1];
  return given ?? call.query.get('oauth_token') ?? undefined;
}

/** The identity endpoints refuse a token in plain text and with 403, unlike the data API. */
function refuseToken(): HttpAnswer {
  return { status: 403, headers: { 'Content-Type': 'text/html; charset=UTF-8' }, body: 'Bad_OAuth_Token' };
}

function splitName(name: string): { given_name: string; family_name: string } {
  const [first = '', ...rest] = name.split(' ');
  return rest.length === 0
    ? { given_name: '', family_name: first }
    : { given_name: first, family_name: rest.join(' ') };
}

function userInfo(context: OAuthContext): HttpAnswer {
  const { org } = context;
  return jsonAnswer(200, {
    sub: identityUrl(context),
    user_id: org.user.id,
    organization_id: org.id,
    preferred_username: org.user.username,
    nickname: org.user.username.split('@')[0],
    name: org.user.name,
    email: org.user.username,
    email_verified: true,
    ...splitName(org.user.name),
    zoneinfo: 'GMT',
    photos: {},
    profile: `${context.baseUrl()}/${org.user.id}`,
    active: true,
  });
}

/** `{version}` stays as it is unless `?version=` is given (Using Identity URLs). */
function identity(context: OAuthContext, call: HttpCall): HttpAnswer {
  const { org } = context;
  const version = call.query.get('version') ?? '{version}';
  const rest = `${context.baseUrl()}/services/data/v${version === 'latest' ? `${org.description.newestVersion ?? NEWEST}.0` : version}/`;
  return jsonAnswer(200, {
    id: identityUrl(context),
    asserted_user: true,
    user_id: org.user.id,
    organization_id: org.id,
    username: org.user.username,
    nick_name: org.user.username.split('@')[0],
    display_name: org.user.name,
    email: org.user.username,
    email_verified: true,
    ...{ first_name: splitName(org.user.name).given_name, last_name: splitName(org.user.name).family_name },
    timezone: 'GMT',
    photos: {},
    urls: { rest, sobjects: `${rest}sobjects/`, query: `${rest}query/` },
    active: true,
    user_type: 'STANDARD',
    language: 'en_US',
    locale: 'en_US',
    is_app_installed: true,
  });
}

/** 200 on success, 400 for every failure (Revoking OAuth Tokens). */
function revoke(context: OAuthContext, call: HttpCall): HttpAnswer {
  const token = new URLSearchParams(call.body.toString('utf8')).get('token') ?? call.query.get('token') ?? '';
  if (!context.sessions.revoke(token))
    throw new OAuthError('invalid_token', 'invalid token: token not found');
  return { status: 200, headers: {} };
}

function withToken(context: OAuthContext, call: HttpCall, answer: () => HttpAnswer): HttpAnswer {
  const token = tokenOf(call);
  return token !== undefined && context.sessions.use(token) ? answer() : refuseToken();
}

function handlerFor(
  context: OAuthContext,
  call: HttpCall,
): (() => HttpAnswer | Promise<HttpAnswer>) | undefined {
  const method = call.method === 'HEAD' ? 'GET' : call.method;
  switch (`${method} ${call.pathname}`) {
    case 'POST /services/oauth2/token':
      return () => issueToken(context, call);
    case 'GET /services/oauth2/revoke':
    case 'POST /services/oauth2/revoke':
      return () => revoke(context, call);
    case 'GET /services/oauth2/userinfo':
    case 'POST /services/oauth2/userinfo':
      return () => withToken(context, call, () => userInfo(context));
    case `GET /id/${context.org.id}/${context.org.user.id}`:
      return () => withToken(context, call, () => identity(context, call));
    default:
      return undefined;
  }
}

/** The answer of a login path; undefined where there is none of that name and method. */
export async function handleOAuth(context: OAuthContext, call: HttpCall): Promise<HttpAnswer | undefined> {
  try {
    return await handlerFor(context, call)?.();
  } catch (error) {
    if (error instanceof OAuthError) return oauthErrorAnswer(error);
    throw error;
  }
}
