import { isIP } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Attempt } from '../../identity/audit/attempt.ts';
import {
  type Authenticate,
  type Authentication,
  invalidCredentials,
  missing,
  type PresentedCredentials,
  type Sessions,
} from '../../identity/consumers/authentication.ts';
import { allows } from '../../identity/consumers/consumer.ts';
import { looksLikeTestKey } from '../../identity/consumers/credentials.ts';
import { markOf } from '../../identity/consumers/people.ts';
import {
  hasOneOf,
  permissionDenied,
  type RequiredPermission,
  requireFields,
  requireNoApproval,
  requireOneOf,
} from '../../identity/consumers/permissions.ts';
import type { Caller, Person } from '../../identity/consumers/scopes.ts';
import { modeOf } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { formatTimestamp } from '../../platform/base/moment.ts';
import { normaliseAddress } from '../../platform/base/networks.ts';
import { Problem } from '../../platform/base/problem.ts';
import { attributeTo } from '../../platform/http/connections.ts';
import { type ClaimKey, parseIdempotencyKey } from '../idempotency/keyed-request.ts';
import { type FormCheck, isPublic, type Permission, type Route, type Step } from '../route.ts';
import type { CertificateCheck } from '../tls/client-certificates.ts';
import { bodyTooLarge, bytesOf, decode, readBody, maxBodyBytes as usualBodyBytes } from './body.ts';
import {
  addressOf,
  countCaller,
  countElsewhere,
  countRequest,
  countStranger,
  type Limits,
} from './rate-limit.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller; undefined on public routes. */
    consumer: Caller | undefined;
    attempt:
      | (Pick<Attempt, 'result' | 'timestamp' | 'address' | 'sum'> & {
          consumerId: string | null;
          credential: string | undefined;
          person: string | undefined;
        })
      | undefined;
    /** Answer to a repeat that continues an unfinished creation, unless the record exists. */
    unlessMade: Problem | undefined;
    /** Why its signature was refused, in a word for the log. */
    signatureFault: string | undefined;
  }
  interface FastifyContextConfig {
    authenticateForm?: FormCheck['authenticate'] | undefined;
    takesForm?: boolean;
    isSigned?: boolean;
    answerProblem?: Route['answerProblem'];
  }
}

export interface Authenticators {
  authenticate: Authenticate;
  /** Undefined: nobody can sign in. */
  sessions: Sessions | undefined;
  certificates: CertificateCheck;
  limits: Limits;
  isUnfinished(claim: ClaimKey): Promise<boolean>;
}

/**
 * Admits a caller by credentials in headers, and by its permission as far as that can be checked without the body. The request
 * is counted once its caller is known, and refused by its limit after the last of these checks.
 */
export function admitByHeaders(route: Route, authenticators: Authenticators): Step | undefined {
  const { permission } = route;
  if (isPublic(permission)) return undefined;
  const { authenticate, sessions, limits } = authenticators;
  const wanted = wantedFirst(permission);
  const requirePermission = (request: FastifyRequest, consumer: Caller) => {
    if ('resource' in permission) requireNoApproval(consumer, permission, route.approvalAdvice);
    if (wanted.length === 0 || hasOneOf(consumer, wanted)) return undefined;
    return refuseByPath(request, permission, wanted, limits);
  };
  const admit = (request: FastifyRequest, reply: FastifyReply, authentication: Authentication) => {
    const consumer = admitCaller(request, reply, authentication, authenticators);
    if (consumer.person) requireSame(request, consumer, consumer.person);
    const require = () => requirePermission(request, consumer);
    const pending = route.looksFirst ? orUnfinished(route, request, authenticators, require) : require();
    const limit = () => {
      if (checkOfBody(permission) === undefined && !route.passesOn) requireWithinLimit(request);
    };
    return pending === undefined ? limit() : pending.then(limit);
  };
  return (request, reply) => {
    const presented = presentedBy(request, sessions);
    if (hasTwoKinds(presented)) {
      recordAttempt(request, missing);
      refuseTwoKinds(presented);
    }
    if (presented.session) requireOwnPage(request, reply, route, limits);
    const authentication = authenticate(presented);
    if (!(authentication instanceof Promise)) return admit(request, reply, authentication);
    return authentication.then((found) => admit(request, reply, found));
  };
}

/** Lets a caller that may read go on with what it began when it had the permission. Nothing is awaited for one that has it still. */
function orUnfinished(
  route: Route,
  request: FastifyRequest,
  authenticators: Authenticators,
  require: () => Promise<void> | undefined,
): Promise<void> | undefined {
  const look = (error: unknown) => goOnIfUnfinished(route, request, authenticators, error);
  try {
    return require()?.catch(look);
  } catch (error) {
    return look(error);
  }
}

/** After too many refusals, no claim is looked up. */
async function goOnIfUnfinished(
  { permission }: Route,
  request: FastifyRequest,
  { limits, isUnfinished }: Pick<Authenticators, 'limits' | 'isUnfinished'>,
  error: unknown,
): Promise<void> {
  const consumer = request.consumer as Caller;
  const { id } = consumer;
  const isReader = 'resource' in permission && allows(consumer, permission.resource, 'read');
  if (!(error instanceof Problem) || !isReader || limits.refusals.isReached(id)) throw error;
  const isOurs = async () =>
    isUnfinished({ consumerId: id, key: parseIdempotencyKey(String(request.headers['idempotency-key'])) });
  if (!(await isOurs().catch(() => false))) throw error;
  request.unlessMade = error;
}

/** After too many refusals, or if the look-up fails, the general permission is named: a refusal must be cheap. */
async function refuseByPath(
  { params, consumer }: FastifyRequest,
  permission: Permission,
  wanted: readonly RequiredPermission[],
  { refusals }: Limits,
): Promise<void> {
  const { id } = consumer as Caller;
  const byPath = 'anyOf' in permission ? permission.byPath : undefined;
  const needed =
    !refusals.isReached(id) && (await byPath?.(params, consumer as Caller).catch(() => undefined));
  throw permissionDenied(needed ? [needed] : wanted);
}

export function requireByBody({ permission, usedFields }: Route): Step | undefined {
  const byBody = checkOfBody(permission);
  if (isPublic(permission) || (byBody === undefined && usedFields === undefined)) return undefined;
  const wanted = wantedFirst(permission).slice(0, 1);
  return (request) => {
    const consumer = request.consumer as Caller;
    const needed = byBody?.(request.body) ?? wanted;
    if (byBody !== undefined) for (const one of needed) requireOneOf(consumer, [one]);
    if (usedFields !== undefined)
      for (const one of needed) requireFields(consumer, one, () => usedFields(request, one.resource));
    if (byBody !== undefined) requireWithinLimit(request);
  };
}

export function requireWithinLimit({ limitRefusal }: FastifyRequest): void {
  if (limitRefusal !== undefined) throw limitRefusal;
}

function checkOfBody(permission: Permission) {
  return 'anyOf' in permission ? permission.byBody : undefined;
}

function admitCaller(
  request: FastifyRequest,
  reply: FastifyReply,
  authentication: Authentication,
  { certificates, limits }: Pick<Authenticators, 'certificates' | 'limits'>,
): Caller {
  const attempt = recordAttempt(request, authentication);
  if (authentication.result !== 'accepted') {
    const isWrong = authentication.result !== 'missing' || isPresent(presentedBy(request));
    countStranger(request, reply, limits, isWrong);
    throw request.limitRefusal ?? invalidCredentials(authentication.advice);
  }
  const { consumer } = authentication;
  if (!certificates.admits(consumer, request.raw.socket)) {
    attempt.result = 'certificate';
    countStranger(request, reply, limits, true);
    // A certificate belongs to its connection: to present another one, the client has to connect again.
    reply.header('connection', 'close');
    throw request.limitRefusal ?? invalidCredentials();
  }
  request.consumer = consumer;
  markTest(request, reply);
  attributeTo(reply.raw, consumer.id);
  if (!authentication.admitsFrom(addressOf(request))) {
    attempt.result = 'address';
    countElsewhere(request, limits);
    throw new Problem('address_not_allowed', "These credentials can't be used from this address.");
  }
  countCaller(consumer, request, reply, limits);
  return consumer;
}

/**
 * Every answer to a test key says so, replays and errors too; errors also where the key is refused, or is not looked at. What is
 * public has no mark: a cache may give it to others.
 */
export function markTest(request: FastifyRequest, reply: FastifyReply): void {
  const { consumer, attempt, headers } = request;
  const isOfTest = modeOf(consumer?.id ?? attempt?.consumerId) === 'test';
  if (isOfTest || looksLikeTestKey(single(headers['x-api-key']) ?? '')) reply.header('handoff-mode', 'test');
}

/** A public route also answers callers without credentials; elsewhere they get problems only, which are counted there. */
export function admitOpenly(
  { permission, signature, form }: Route,
  authenticators: Authenticators,
): Step | undefined {
  if (!isPublic(permission) || signature !== undefined || form !== undefined) return undefined;
  return countOpenly(authenticators, { showsMore: permission.showsMore !== undefined });
}

/**
 * Counts a request that needs no credentials, or is refused before they are looked at: by those that it carries all the
 * same, else by its address. Beyond the limit it throws `rate_limited`; wrong credentials change nothing else. `showsMore`:
 * right ones do.
 */
export function countOpenly(
  { authenticate, sessions, certificates, limits }: Authenticators,
  { showsMore = false } = {},
): Step {
  const countBy = (request: FastifyRequest, reply: FastifyReply, authentication: Authentication) => {
    const attempt = recordAttempt(request, authentication);
    if (authentication.result !== 'accepted') countStranger(request, reply, limits, true);
    else if (!certificates.admits(authentication.consumer, request.raw.socket)) {
      attempt.result = 'certificate';
      countStranger(request, reply, limits, true);
    } else if (!authentication.admitsFrom(addressOf(request))) {
      attempt.result = 'address';
      countElsewhere(request, limits);
    } else {
      countCaller(authentication.consumer, request, reply, limits);
      if (showsMore) request.consumer = authentication.consumer;
      if (showsMore) markTest(request, reply);
    }
    requireWithinLimit(request);
  };
  const countUnchecked = (request: FastifyRequest, reply: FastifyReply) => {
    recordAttempt(request, missing);
    countStranger(request, reply, limits, false);
    requireWithinLimit(request);
  };
  const count = (request: FastifyRequest, reply: FastifyReply, presented: PresentedCredentials) => {
    const authentication = isPresent(presented) ? authenticate(presented) : authenticateByForm(request);
    if (authentication instanceof Promise) {
      return authentication.then(
        (found) => countBy(request, reply, found),
        () => countUnchecked(request, reply),
      );
    }
    if (authentication !== undefined) return countBy(request, reply, authentication);
    countStranger(request, reply, limits, false);
    return requireWithinLimit(request);
  };
  return (request, reply) => {
    // A session counts where the console asks for more than everybody gets.
    const presented = presentedBy(request, showsMore && isOfOwnPage(request) ? sessions : undefined);
    if (!hasTwoKinds(presented)) return count(request, reply, presented);
    const pending = count(request, reply, firstKindOf(presented));
    const refuse = () => (showsMore ? refuseTwoKinds(presented) : undefined);
    return pending === undefined ? refuse() : pending.then(refuse);
  };
}

function authenticateByForm({ headers, routeOptions }: FastifyRequest): Promise<Authentication> | undefined {
  if (headers.authorization === undefined) return undefined;
  const { authenticateForm } = routeOptions?.config ?? {};
  return authenticateForm && Promise.resolve(authenticateForm(new Map(), headers));
}

/** The address is read now: a connection that has ended has none. */
function recordAttempt(request: FastifyRequest, authentication: Authentication) {
  const { result, consumerId, credential } = authentication;
  const timestamp = formatTimestamp(wallMs());
  const found = normaliseAddress(addressOf(request));
  // A trusted proxy may forward text that is not an address.
  const address = isIP(found) === 0 ? null : found;
  const attempt: NonNullable<FastifyRequest['attempt']> = {
    result,
    consumerId,
    credential,
    person: authentication.result === 'accepted' ? authentication.consumer.person?.actor : undefined,
    timestamp,
    address,
    sum: undefined,
  };
  request.attempt = attempt;
  return attempt;
}

function presentedBy({ headers }: FastifyRequest, sessions?: Sessions): PresentedCredentials {
  const { 'x-api-key': apiKey, 'x-api-secret': apiSecret, authorization, cookie } = headers;
  const token = authorization === undefined ? undefined : bearerTokenIn(authorization);
  const session = sessions?.sessionIn(cookie);
  return { apiKey: single(apiKey), apiSecret: single(apiSecret), token, ...(session && { session }) };
}

/** RFC 6750 section 2.1; undefined for any other scheme. */
export function bearerTokenIn(authorization: string): string | undefined {
  const [scheme, ...rest] = authorization.split(' ');
  return scheme?.toLowerCase() === 'bearer' ? rest.join(' ') : undefined;
}

function isPresent({ apiKey, apiSecret, token, session }: PresentedCredentials): boolean {
  return Boolean(apiKey || apiSecret || token || session);
}

/** Two kinds of credentials: it is not known which of them is meant (RFC 6750 section 3.1). */
function hasTwoKinds({ apiKey, apiSecret, token, session }: PresentedCredentials): boolean {
  const isPair = Boolean(apiKey || apiSecret);
  return (token !== undefined && isPair) || (session !== undefined && (isPair || token !== undefined));
}

/** Whose limit a request with two kinds counts against. */
function firstKindOf({ apiKey, apiSecret, token }: PresentedCredentials): PresentedCredentials {
  const isPair = Boolean(apiKey || apiSecret);
  return { apiKey, apiSecret, token: isPair ? undefined : token };
}

function refuseTwoKinds({ session }: PresentedCredentials): never {
  if (session !== undefined) {
    const text = 'has a session, but there are other credentials too; send one or the other';
    throw new Problem('invalid_request', `The Cookie header ${text}.`, {
      errors: [{ header: 'Cookie', message: text }],
    });
  }
  const message = 'has a token, but x-api-key or x-api-secret is there too; send one or the other';
  throw new Problem('invalid_request', `The Authorization header ${message}.`, {
    errors: [{ header: 'Authorization', message }],
  });
}

/** Browsers say which page sends a request, and no page can say that it is another. */
function isOfOwnPage({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers['sec-fetch-site'] === 'same-origin';
}

/** A header that no page of another site can send, and no form. */
function isMarkedWrite({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers['x-handoff-session'] === '1';
}

/** Browsers send sessions along with requests that the person has not asked for. Throws `permission_denied` for these. */
function requireOwnPage(
  request: FastifyRequest,
  reply: FastifyReply,
  { method, path }: Route,
  limits: Limits,
): void {
  const fault = /^\/(?:api\/)?v1\//.test(path)
    ? sessionFaultOf(request, method !== 'GET')
    : "A person's session doesn't work here. Send an API key and secret, or an access token.";
  if (fault === undefined) return;
  recordAttempt(request, missing);
  countStranger(request, reply, limits, true);
  throw request.limitRefusal ?? new Problem('permission_denied', fault);
}

export function sessionFaultOf(
  request: Pick<FastifyRequest, 'headers'>,
  isWrite: boolean,
): string | undefined {
  if (!isOfOwnPage(request))
    return "A session only works for the console's own requests: the header Sec-Fetch-Site must be same-origin.";
  if (isWrite && !isMarkedWrite(request))
    return 'With a session, writes need the header X-Handoff-Session: 1.';
  return undefined;
}

/**
 * All tabs of a browser share the session. In another one, somebody may have chosen another consumer since this one was loaded,
 * or somebody else may have signed in. Throws `permission_denied` where the request names who the session is not for.
 */
export function requireSame(
  { headers }: Pick<FastifyRequest, 'headers'>,
  { id }: Pick<Caller, 'id'>,
  person: Pick<Person, 'subject'>,
): void {
  requireSamePerson({ headers }, person);
  const { 'x-handoff-consumer': meant } = headers;
  if (meant === undefined || meant === id) return;
  const advice = 'Reload this page to act as that one here too.';
  throw new Problem('permission_denied', `You're acting as another consumer in another tab now. ${advice}`);
}

/** As above, whichever consumer the session acts as. */
export function requireSamePerson(
  { headers }: Pick<FastifyRequest, 'headers'>,
  { subject }: Pick<Person, 'subject'>,
): void {
  const { 'x-handoff-person': person } = headers;
  if (person === undefined || person === markOf(subject)) return;
  throw new Problem(
    'permission_denied',
    'Someone else has signed in in another tab. Reload this page to continue as that person.',
  );
}

function wantedFirst(permission: Exclude<Permission, { none: string }>): RequiredPermission[] {
  if ('anyCredentials' in permission) return [];
  return 'anyOf' in permission ? permission.anyOf : [permission];
}

/** A repeated header is no credential: Node joins it with a comma, which no key holds. */
function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join() : value;
}

/**
 * Admits a caller by a form, which holds the credentials or comes with them. They are checked, recorded and limited as those in
 * headers are.
 */
export function admitByForm(route: Route, authenticators: Authenticators): Step | undefined {
  const { form } = route;
  if (form === undefined) return undefined;
  const { sessions, limits } = authenticators;
  return async (request, reply) => {
    // A request that cannot be read names nobody.
    recordAttempt(request, missing);
    if (presentedBy(request, sessions).session) requireOwnPage(request, reply, route, limits);
    const fields = readForm(decode(bytesOf(request)));
    const authentication = await form.authenticate(fields, request.headers);
    // Those of other routes do not admit it; they say what it counts by, as wherever none are needed.
    const isCountedOpenly = authentication.result === 'missing' && isPresent(presentedBy(request));
    if (isCountedOpenly) throw invalidCredentials(authentication.advice);
    admitCaller(request, reply, authentication, authenticators);
    requireWithinLimit(request);
    request.body = Object.fromEntries(fields);
  };
}

/** The fields of a form; empty ones count as left out (RFC 6749 section 3.2). Throws `Problem` where one is there twice. */
function readForm(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) {
    if (fields.has(name)) {
      const message = 'appears more than once';
      // The name is the caller's: it may be long, or a secret that lacks its name.
      throw new Problem('invalid_request', `A form parameter ${message}.`, {
        errors: [{ parameter: name.slice(0, 40), message }],
      });
    }
    fields.set(name, value);
  }
  for (const [name, value] of fields) if (value === '') fields.delete(name);
  return fields;
}

/** The framework would check the content type first. */
export function boundSignedBody({ signature, maxBodyBytes = usualBodyBytes }: Route): Step | undefined {
  if (signature === undefined) return undefined;
  return ({ headers }) => {
    if (Number(headers['content-length'] ?? 0) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes);
  };
}

/** Checks a signature, and only then parses the body. Failures count as failed authentications. */
export function admitBySignature({ signature }: Route, authenticators: Authenticators): Step | undefined {
  if (signature === undefined) return undefined;
  const { limits } = authenticators;
  const countByCredentials = countOpenly(authenticators);
  return async (request, reply) => {
    const refusal = signature.refusalOf(request.headers, bytesOf(request));
    const hasCredentials = isPresent(presentedBy(request));
    if (refusal !== undefined) {
      request.signatureFault = refusal;
      if (signature.isSent(request.headers) && !hasCredentials) countStranger(request, reply, limits, true);
      throw request.limitRefusal ?? new Problem('invalid_credentials', signature.advice);
    }
    // Credentials that it carries all the same say what it counts by, as wherever none are needed.
    if (hasCredentials) await countByCredentials(request, reply);
    else {
      request.isCounted = true;
      request.limitRefusal = countRequest(limits, signature.sender, reply);
      requireWithinLimit(request);
    }
    request.body = readBody(request);
  };
}
