import { isIP } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Attempt, AttemptSum } from '../../identity/audit/attempt.ts';
import {
  type Authenticate,
  type Authentication,
  invalidCredentials,
  type PresentedCredentials,
} from '../../identity/consumers/authentication.ts';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import {
  hasOneOf,
  permissionDenied,
  type RequiredPermission,
  requireOneOf,
} from '../../identity/consumers/permissions.ts';
import { formatTimestamp } from '../../platform/base/clock.ts';
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
    consumer: Consumer | undefined;
    /** The request is counted as that of an unauthenticated caller, or its signature is valid. */
    isCounted: boolean;
    /** How authentication ended so far; recorded once, when the answer is out. */
    attempt:
      | (Pick<Attempt, 'result' | 'timestamp' | 'address' | 'sum'> & { consumerId: string | null })
      | undefined;
  }
}

export interface Gatekeepers {
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
export function authenticationSteps(
  { permission }: Route,
  { authenticate, certificates, limits }: Gatekeepers,
): AuthenticationSteps {
  if (isPublic(permission)) return {};
  const byBody = 'anyOf' in permission ? permission.byBody : undefined;
  const byPath = 'anyOf' in permission ? permission.byPath : undefined;
  const firstOf = wantedFirst(permission);
  const refuseAll = async ({ params, consumer }: FastifyRequest): Promise<void> => {
    // After too many refusals, or if the look-up fails, the general permission is named: a refusal must be cheap.
    const isLookedUp = !limits.refusals.isReached((consumer as Consumer).id);
    const needed = isLookedUp && (await byPath?.(params, consumer as Consumer).catch(() => undefined));
    throw permissionDenied(needed ? [needed] : firstOf);
  };
  const admit = (request: FastifyRequest, reply: FastifyReply, authentication: Authentication) => {
    const attempt = recordAttempt(request, authentication);
    if (authentication.result !== 'accepted') refuse(request, reply, limits);
    if (!certificates.admits(authentication.consumer, request.raw.socket)) {
      attempt.result = 'certificate';
      // A certificate belongs to its connection: to present another one, the client has to connect again.
      reply.header('connection', 'close');
      refuse(request, reply, limits);
    }
    request.consumer = authentication.consumer;
    attributeTo(reply.raw, authentication.consumer.id);
    if (!authentication.admitsFrom(addressOf(request))) {
      attempt.result = 'address';
      refuseAddress(request, limits);
    }
    if (firstOf.length > 0 && !hasOneOf(request.consumer, firstOf)) return refuseAll(request);
    if (byBody === undefined) countConsumer(request, reply);
    return undefined;
  };
  const countConsumer = (request: FastifyRequest, reply: FastifyReply) => {
    const { id, rateLimitPerMinute } = request.consumer as Consumer;
    countRequest(limits, id, reply, rateLimitPerMinute);
  };
  return {
    onRequest: (request, reply) => {
      const authentication = authenticate(presentedBy(request));
      if (!(authentication instanceof Promise)) return admit(request, reply, authentication);
      return authentication.then((found) => admit(request, reply, found));
    },
    ...(byBody !== undefined && {
      preValidation: (request: FastifyRequest, reply: FastifyReply) => {
        requireOneOf(request.consumer as Consumer, [byBody(request.body)]);
        countConsumer(request, reply);
      },
    }),
  };
}

/**
 * Authenticates the caller of a public route that shows more to consumers. Wrong credentials do not change the answer. They are
 * recorded and limited as elsewhere, so that the route does not help to guess credentials.
 */
export function recogniseConsumer({ authenticate, certificates, limits }: Gatekeepers): Step {
  const recognise = (request: FastifyRequest, authentication: Authentication) => {
    const attempt = recordWhereOpen(request, authentication, limits);
    const address = addressOf(request);
    if (authentication.result === 'accepted') {
      const { consumer } = authentication;
      if (!certificates.admits(consumer, request.raw.socket)) attempt.result = 'certificate';
      else if (!authentication.admitsFrom(address)) attempt.result = 'address';
      else request.consumer = consumer;
    }
    if (request.consumer === undefined && !isFailureWithinLimit(limits, address))
      attempt.sum = sumOf(address);
  };
  return (request) => {
    const presented = presentedBy(request);
    if (!presented.apiKey) return;
    const authentication = authenticate(presented);
    if (!(authentication instanceof Promise)) return recognise(request, authentication);
    return authentication.then((found) => recognise(request, found));
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
}: Pick<Gatekeepers, 'authenticate' | 'limits'>): Step {
  return (request, reply) => {
    if (limits.unauthenticated === undefined || request.isCounted || request.consumer !== undefined) return;
    request.isCounted = true;
    const presented = presentedBy(request);
    if (request.attempt !== undefined || !presented.apiKey) return count(request, reply, limits);
    const check = (authentication: Authentication) => {
      if (authentication.result !== 'accepted') count(request, reply, limits, authentication);
      else if (isPublicLimitReached(limits, addressOf(request)))
        recordWhereOpen(request, authentication, limits);
    };
    const authentication = authenticate(presented);
    if (!(authentication instanceof Promise)) return check(authentication);
    return authentication.then(check);
  };
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
function recordAttempt(request: FastifyRequest, { result, consumerId }: Authentication) {
  const timestamp = formatTimestamp(Date.now());
  const found = normaliseAddress(addressOf(request));
  // A trusted proxy may forward text that is not an address.
  const address = isIP(found) === 0 ? null : found;
  const attempt: NonNullable<FastifyRequest['attempt']> = {
    result,
    consumerId,
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
  const { 'x-api-key': apiKey, 'x-api-secret': apiSecret } = headers;
  return { apiKey: single(apiKey), apiSecret: single(apiSecret) };
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
function refuse(request: FastifyRequest, reply: FastifyReply, limits: Limits): never {
  const address = addressOf(request);
  const throwLimited = countFailure(limits, address, reply);
  if (throwLimited === undefined) throw invalidCredentials();
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
