import type { FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '../../base/problem.ts';
import { formatTimestamp } from '../../base/timestamp.ts';
import type { AttemptResult } from '../../consumers/attempts.ts';
import type { Authenticate, Authentication } from '../../consumers/authentication.ts';
import { allows, type Consumer } from '../../consumers/consumer.ts';
import { isPublic, type RequiredPermission, type Route } from '../route.ts';
import type { CertificateJudge } from '../tls/client-certificates.ts';
import { countFailure, countRequest, type Limits } from './rate-limit.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who calls; undefined on public routes. */
    consumer: Consumer | undefined;
    /** How authentication ended so far; recorded once, when the answer is out. */
    attempt: { result: AttemptResult; consumerId: string | null; timestamp: string } | undefined;
  }
}

export interface Gatekeepers {
  authenticate: Authenticate;
  certificates: CertificateJudge;
  limits: Limits;
}

interface AuthenticationSteps {
  onRequest?: Step;
  preValidation?: Step;
}

/**
 * The steps that let a request through to a route: credentials first, then the permission that can be judged without
 * the body, and after the body is read the one that can't. Once the permission is certain, the request is counted.
 */
export function authenticationSteps(
  { permission }: Route,
  { authenticate, certificates, limits }: Gatekeepers,
): AuthenticationSteps {
  if (isPublic(permission)) return {};
  const firstOf = 'anyOf' in permission ? permission.anyOf : [permission];
  const admit = (request: FastifyRequest, reply: FastifyReply, authentication: Authentication) => {
    const { result, consumerId } = authentication;
    request.attempt = { result, consumerId, timestamp: formatTimestamp(Date.now()) };
    if (authentication.result !== 'accepted') {
      countFailure(limits, request.ip, reply);
      throw invalidCredentials();
    }
    if (!certificates.admits(authentication.consumer, request.raw.socket)) {
      request.attempt.result = 'certificate';
      // A certificate belongs to its connection: with another one the client has to connect anew.
      reply.header('connection', 'close');
      countFailure(limits, request.ip, reply);
      throw invalidCredentials();
    }
    request.consumer = authentication.consumer;
    requireOneOf(request, firstOf);
    if (!('byBody' in permission)) countRequest(limits, authentication.consumerId, reply);
  };
  return {
    onRequest: (request, reply) => {
      const { 'x-api-key': apiKey, 'x-api-secret': apiSecret } = request.headers;
      const authentication = authenticate({ apiKey: single(apiKey), apiSecret: single(apiSecret) });
      if (!(authentication instanceof Promise)) return admit(request, reply, authentication);
      return authentication.then((found) => admit(request, reply, found));
    },
    ...('byBody' in permission && {
      preValidation: (request: FastifyRequest, reply: FastifyReply) => {
        requireOneOf(request, [permission.byBody(request.body)]);
        countRequest(limits, (request.consumer as Consumer).id, reply);
      },
    }),
  };
}

function requireOneOf(request: FastifyRequest, wanted: RequiredPermission[]): void {
  const consumer = request.consumer as Consumer;
  if (wanted.some(({ resource, action }) => allows(consumer, resource, action))) return;
  if (request.attempt) request.attempt.result = 'permission_denied';
  const [required] = wanted;
  const names = wanted.map(({ resource, action }) => `${resource}:${action}`).join(' or ');
  throw new Problem('permission_denied', `These credentials lack the permission ${names}.`, {
    required: required as RequiredPermission,
  });
}

/** One answer for every reason: which of them it was stands in the audit log only. */
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
