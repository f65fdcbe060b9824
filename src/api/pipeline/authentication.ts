import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Attempt } from '../../audit/attempt.ts';
import { formatTimestamp } from '../../base/clock.ts';
import { normaliseAddress } from '../../base/networks.ts';
import { Problem } from '../../base/problem.ts';
import type { Authenticate, Authentication, PresentedCredentials } from '../../consumers/authentication.ts';
import { allows, type Consumer } from '../../consumers/consumer.ts';
import { isPublic, type Permission, type RequiredPermission, type Route } from '../route.ts';
import type { CertificateCheck } from '../tls/client-certificates.ts';
import {
  addressOf,
  countFailure,
  countPublic,
  countRequest,
  isFailureWithinLimit,
  isPublicLimitReached,
  type Limits,
  networkOf,
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
      | (Pick<Attempt, 'result' | 'timestamp' | 'address' | 'overLimitFrom'> & { consumerId: string | null })
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
  const firstOf = wantedFirst(permission);
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
    if (!authentication.admitsFrom(addressOf(request))) {
      attempt.result = 'address';
      refuseAddress(request, limits);
    }
    requireOneOf(request, firstOf);
    if (byBody === undefined) countConsumer(request, reply);
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
        requireOneOf(request, [byBody(request.body)]);
        countConsumer(request, reply);
      },
    }),
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
      else if (isPublicLimitReached(limits, addressOf(request))) recordAttempt(request, authentication);
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
  if (request.attempt !== undefined) request.attempt.overLimitFrom = networkOf(address);
  throwLimited();
}

/** The address is read now: a connection that has ended has none. */
function recordAttempt(request: FastifyRequest, { result, consumerId }: Authentication) {
  const timestamp = formatTimestamp(Date.now());
  const address = normaliseAddress(addressOf(request)) || null;
  const attempt: NonNullable<FastifyRequest['attempt']> = {
    result,
    consumerId,
    timestamp,
    address,
    overLimitFrom: undefined,
  };
  request.attempt = attempt;
  return attempt;
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

function requireOneOf(request: FastifyRequest, wanted: RequiredPermission[]): void {
  const consumer = request.consumer as Consumer;
  if (wanted.length === 0 || wanted.some(({ resource, action }) => allows(consumer, resource, action)))
    return;
  if (request.attempt) request.attempt.result = 'permission_denied';
  const [required] = wanted;
  const names = wanted.map(({ resource, action }) => `${resource}:${action}`).join(' or ');
  throw new Problem('permission_denied', `These credentials lack the permission ${names}.`, {
    required: required as RequiredPermission,
  });
}

/**
 * Counts the failure and throws the refusal, or 429 where too many came from that address: then only their sum is
 * stored.
 */
function refuse(request: FastifyRequest, reply: FastifyReply, limits: Limits): never {
  const address = addressOf(request);
  const throwLimited = countFailure(limits, address, reply);
  if (throwLimited === undefined) throw invalidCredentials();
  if (request.attempt) request.attempt.overLimitFrom = networkOf(address);
  return throwLimited();
}

/** Counts and stores like a failure; but valid credentials are never refused by the limit of failures. */
function refuseAddress(request: FastifyRequest, limits: Limits): never {
  const address = addressOf(request);
  if (request.attempt && !isFailureWithinLimit(limits, address))
    request.attempt.overLimitFrom = networkOf(address);
  throw new Problem('address_not_allowed', 'These credentials cannot be used from this address.');
}

/** One answer for every reason: the reason is in the audit log only. */
function invalidCredentials(): Problem {
  return new Problem(
    'invalid_credentials',
    'Send valid credentials in the headers x-api-key and x-api-secret.',
  );
}

/** A repeated header is no credential: Node joins it with a comma, which no key holds. */
function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join() : value;
}
