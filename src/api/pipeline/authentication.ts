import { isIP } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Attempt, AttemptSum } from '../../identity/audit/attempt.ts';
import {
  type Authenticate,
  type Authentication,
  invalidCredentials,
  missing,
  type PresentedCredentials,
} from '../../identity/consumers/authentication.ts';
import { looksLikeTestKey } from '../../identity/consumers/credentials.ts';
import {
  hasOneOf,
  permissionDenied,
  type RequiredPermission,
  requireFields,
  requireNoApproval,
  requireOneOf,
} from '../../identity/consumers/permissions.ts';
import type { Caller } from '../../identity/consumers/scopes.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { modeOf } from '../../platform/base/mode.ts';
import { formatTimestamp } from '../../platform/base/moment.ts';
import { networkOf, normaliseAddress } from '../../platform/base/networks.ts';
import { Problem } from '../../platform/base/problem.ts';
import { attributeTo } from '../../platform/http/connections.ts';
import { isPublic, type Permission, type Route } from '../route.ts';
import type { CertificateCheck } from '../tls/client-certificates.ts';
import {
  addressOf,
  countFailure,
  countPublic,
  countRequest,
  isFailureWithinLimit,
  isPublicLimitReached,
  type Limits,
} from './rate-limit.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller; undefined on public routes. */
    consumer: Caller | undefined;
    /** Whose credentials came with a request that needs none. */
    unusedConsumerId: string | null | undefined;
    /** The request is counted as that of an unauthenticated caller, or its signature is valid. */
    isCounted: boolean;
    /** The route to which it is passed on counts, measures and records it. */
    isPassedOn: boolean;
    /** How authentication ended so far; recorded once, when the answer is out. */
    attempt:
      | (Pick<Attempt, 'result' | 'timestamp' | 'address' | 'sum'> & {
          consumerId: string | null;
          /** As in `Accepted`. */
          credential: string | undefined;
        })
      | undefined;
  }
}

export interface Authenticators {
  authenticate: Authenticate;
  certificates: CertificateCheck;
  limits: Limits;
}

interface AuthenticationSteps {
  onRequest?: Step;
  preValidation?: Step;
}

/**
 * The steps that admit a request to a route: credentials first, then the permission as far as it can be checked without
 * the body, and the rest once the body is read. The request is counted after the last of these checks.
 */
export function authenticationSteps(route: Route, authenticators: Authenticators): AuthenticationSteps {
  const { permission, usedFields, passesOn } = route;
  if (isPublic(permission)) return {};
  const { authenticate, limits } = authenticators;
  const byBody = 'anyOf' in permission ? permission.byBody : undefined;
  const byPath = 'anyOf' in permission ? permission.byPath : undefined;
  const firstOf = wantedFirst(permission);
  const isCountedLater = byBody !== undefined || passesOn !== undefined;
  const refuseAll = async ({ params, consumer }: FastifyRequest): Promise<void> => {
    // After too many refusals, or if the look-up fails, the general permission is named: a refusal must be cheap.
    const isLookedUp = !limits.refusals.isReached((consumer as Caller).id);
    const needed = isLookedUp && (await byPath?.(params, consumer as Caller).catch(() => undefined));
    throw permissionDenied(needed ? [needed] : firstOf);
  };
  const admit = (request: FastifyRequest, reply: FastifyReply, authentication: Authentication) => {
    const consumer = admitCaller(request, reply, authentication, authenticators);
    if ('resource' in permission) requireNoApproval(consumer, permission);
    if (firstOf.length > 0 && !hasOneOf(consumer, firstOf)) return refuseAll(request);
    if (!isCountedLater) countCaller(request, reply, limits);
    return undefined;
  };
  return {
    onRequest: (request, reply) => {
      const presented = presentedBy(request);
      if (isTwofold(presented)) refuseTwofold(request);
      const authentication = authenticate(presented);
      if (!(authentication instanceof Promise)) return admit(request, reply, authentication);
      return authentication.then((found) => admit(request, reply, found));
    },
    ...((isCountedLater || usedFields !== undefined) && {
      preValidation: (request: FastifyRequest, reply: FastifyReply) => {
        const consumer = request.consumer as Caller;
        const needed = byBody?.(request.body) ?? firstOf[0];
        if (byBody !== undefined && needed !== undefined) requireOneOf(consumer, [needed]);
        if (usedFields !== undefined && needed !== undefined)
          requireFields(consumer, needed, () => usedFields(request));
        if (isCountedLater) countOrPassOn(route, request, reply, limits);
      },
    }),
  };
}

/** One that is passed on is counted and recorded by the route that answers it. */
function countOrPassOn(
  { passesOn }: Route,
  request: FastifyRequest,
  reply: FastifyReply,
  limits: Limits,
): void {
  const { body, headers, consumer } = request;
  request.isPassedOn = passesOn?.({ body, headers, consumer }) ?? false;
  if (request.isPassedOn) request.attempt = undefined;
  else countCaller(request, reply, limits);
}

/** Records the attempt. Returns the caller where nothing refuses it, else throws the refusal. */
export function admitCaller(
  request: FastifyRequest,
  reply: FastifyReply,
  authentication: Authentication,
  { certificates, limits }: Pick<Authenticators, 'certificates' | 'limits'>,
): Caller {
  const attempt = recordAttempt(request, authentication);
  if (authentication.result !== 'accepted') return refuse(request, reply, limits, authentication.advice);
  const { consumer } = authentication;
  if (!certificates.admits(consumer, request.raw.socket)) {
    attempt.result = 'certificate';
    // A certificate belongs to its connection: to present another one, the client has to connect again.
    reply.header('connection', 'close');
    refuse(request, reply, limits);
  }
  request.consumer = consumer;
  markTest(request, reply);
  attributeTo(reply.raw, consumer.id);
  if (!authentication.admitsFrom(addressOf(request))) {
    attempt.result = 'address';
    refuseAddress(request, limits);
  }
  return consumer;
}

/**
 * Every answer to a test key says so, replays and errors too; errors also where the key is refused, or is not looked at. What is
 * public has no mark: a cache may give it to others.
 */
export function markTest(request: FastifyRequest, reply: FastifyReply): void {
  const { consumer, attempt, unusedConsumerId, headers } = request;
  const isOfTest = modeOf(consumer?.id ?? attempt?.consumerId ?? unusedConsumerId) === 'test';
  if (isOfTest || looksLikeTestKey(single(headers['x-api-key']) ?? '')) reply.header('handoff-mode', 'test');
}

/** Counts a request of the caller that was admitted. Throws `rate_limited`. */
export function countCaller({ consumer }: FastifyRequest, reply: FastifyReply, limits: Limits): void {
  const { id, rateLimitPerMinute } = consumer as Caller;
  countRequest(limits, id, reply, rateLimitPerMinute);
}

/**
 * Authenticates the caller of a public route that shows more to consumers. Wrong credentials do not change the answer. They are
 * recorded and limited as elsewhere, so that the route does not help to guess credentials.
 */
export function recogniseConsumer({ authenticate, certificates, limits }: Authenticators): Step {
  const recognise = (request: FastifyRequest, reply: FastifyReply, authentication: Authentication) => {
    const attempt = recordWhereOpen(request, authentication, limits);
    const address = addressOf(request);
    if (authentication.result === 'accepted') {
      const { consumer } = authentication;
      if (!certificates.admits(consumer, request.raw.socket)) attempt.result = 'certificate';
      else if (!authentication.admitsFrom(address)) attempt.result = 'address';
      else request.consumer = consumer;
    }
    if (request.consumer !== undefined) markTest(request, reply);
    if (request.consumer === undefined && !isFailureWithinLimit(limits, address))
      attempt.sum = sumOf(address);
  };
  return (request, reply) => {
    const presented = presentedBy(request);
    if (isTwofold(presented)) refuseTwofold(request);
    if (!presented.apiKey && !presented.token) return;
    const authentication = whereNoneIsNeeded(authenticate, presented);
    if (!(authentication instanceof Promise)) return recognise(request, reply, authentication);
    return authentication.then((found) => recognise(request, reply, found));
  };
}

/**
 * Counts a request without valid credentials or signature, once. Over the limit it throws `rate_limited`, and of a failed
 * attempt only the sum is stored. Credentials that were not checked so far, as on a public route, are checked first:
 * valid ones are neither counted nor refused.
 */
export function countUnauthenticated({
  authenticate,
  limits,
}: Pick<Authenticators, 'authenticate' | 'limits'>): Step {
  return (request, reply) => {
    if (limits.unauthenticated === undefined || request.isCounted || request.consumer !== undefined) return;
    request.isCounted = true;
    const presented = presentedBy(request);
    const isOne = !isTwofold(presented) && (presented.apiKey || presented.token);
    if (request.attempt !== undefined || !isOne) return count(request, reply, limits);
    const check = (authentication: Authentication) => {
      request.unusedConsumerId = authentication.consumerId;
      if (authentication.result !== 'accepted') count(request, reply, limits, authentication);
      else if (isPublicLimitReached(limits, addressOf(request)))
        recordWhereOpen(request, authentication, limits);
    };
    const authentication = whereNoneIsNeeded(authenticate, presented);
    if (!(authentication instanceof Promise)) return check(authentication);
    return authentication.then(check);
  };
}

/** Credentials that cannot be checked now are as good as none where none are needed: the answer does not depend on them. */
function whereNoneIsNeeded(authenticate: Authenticate, presented: PresentedCredentials) {
  const authentication = authenticate(presented);
  return authentication instanceof Promise ? authentication.catch(() => missing) : authentication;
}

/** `authentication`: a failed one that is no attempt yet; it is recorded only where it is over the limit. */
function count(
  request: FastifyRequest,
  reply: FastifyReply,
  limits: Limits,
  authentication?: Authentication,
): void {
  const address = addressOf(request);
  const throwLimited = countPublic(limits, address, reply);
  if (throwLimited === undefined) return;
  if (authentication !== undefined) recordAttempt(request, authentication);
  if (request.attempt !== undefined) request.attempt.sum = sumOf(address);
  throwLimited();
}

/** The address is read now: a connection that has ended has none. */
export function recordAttempt(request: FastifyRequest, { result, consumerId, credential }: Authentication) {
  const timestamp = formatTimestamp(wallMs());
  const found = normaliseAddress(addressOf(request));
  // A trusted proxy may forward text that is not an address.
  const address = isIP(found) === 0 ? null : found;
  const attempt: NonNullable<FastifyRequest['attempt']> = {
    result,
    consumerId,
    credential,
    timestamp,
    address,
    sum: undefined,
  };
  request.attempt = attempt;
  return attempt;
}

/** Where no credentials are needed, no limit counts requests that have right ones: of many, only the sum is stored. */
function recordWhereOpen(request: FastifyRequest, authentication: Authentication, { refusals }: Limits) {
  const attempt = recordAttempt(request, authentication);
  if (authentication.result !== 'accepted') return attempt;
  const { id } = authentication.consumer;
  if (!refusals.take(id).allowed) attempt.sum = { by: 'consumer', name: id };
  return attempt;
}

/** The sum to which attempts of an address over its limit are added. */
function sumOf(address: string): AttemptSum {
  return { by: 'network', name: networkOf(address) };
}

/** The credentials in the headers of a request. */
function presentedBy({ headers }: FastifyRequest): PresentedCredentials {
  const { 'x-api-key': apiKey, 'x-api-secret': apiSecret, authorization } = headers;
  const token = authorization === undefined ? undefined : bearerTokenIn(authorization);
  return { apiKey: single(apiKey), apiSecret: single(apiSecret), token };
}

/** The token of `Authorization: Bearer` (RFC 6750 section 2.1); undefined for any other scheme. */
export function bearerTokenIn(authorization: string): string | undefined {
  const [scheme, ...rest] = authorization.split(' ');
  return scheme?.toLowerCase() === 'bearer' ? rest.join(' ') : undefined;
}

/** A token beside a pair: it is not known which of them is meant (RFC 6750 section 3.1). */
function isTwofold({ apiKey, apiSecret, token }: PresentedCredentials): boolean {
  return token !== undefined && Boolean(apiKey || apiSecret);
}

function refuseTwofold(request: FastifyRequest): never {
  recordAttempt(request, missing);
  const message = 'holds a token, and x-api-key or x-api-secret is there too; send one or the other';
  throw new Problem('invalid_request', `The Authorization header ${message}.`, {
    errors: [{ header: 'Authorization', message }],
  });
}

/** What is needed before the body is read: one of these; any credentials will do where it is empty. */
function wantedFirst(permission: Exclude<Permission, { none: string }>): RequiredPermission[] {
  if ('anyCredentials' in permission) return [];
  return 'anyOf' in permission ? permission.anyOf : [permission];
}

/**
 * Counts the failure and throws the refusal, or 429 where too many came from that address: then only their sum is
 * stored.
 */
function refuse(request: FastifyRequest, reply: FastifyReply, limits: Limits, advice?: string): never {
  const address = addressOf(request);
  const throwLimited = countFailure(limits, address, reply);
  if (throwLimited === undefined) throw invalidCredentials(advice);
  if (request.attempt) request.attempt.sum = sumOf(address);
  return throwLimited();
}

/** Counts and stores like a failure; but valid credentials are never refused by the limit of failures. */
function refuseAddress(request: FastifyRequest, limits: Limits): never {
  const address = addressOf(request);
  if (request.attempt && !isFailureWithinLimit(limits, address)) request.attempt.sum = sumOf(address);
  throw new Problem('address_not_allowed', 'These credentials cannot be used from this address.');
}

/** A repeated header is no credential: Node joins it with a comma, which no key holds. */
function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join() : value;
}
