import type { FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Route } from '../route.ts';
import {
  type Authenticators,
  countOpenly,
  countStranger,
  isPresent,
  presentedBy,
  requireWithinLimit,
} from './authentication.ts';
import { bytesOf, readBody } from './body.ts';
import { bodyTooLarge, maxBodyBytes as usualBodyBytes } from './framework-errors.ts';
import { countRequest } from './rate-limit.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    isSigned?: boolean;
  }
}

interface SignatureSteps {
  options: { config: { isSigned: boolean }; bodyLimit: number };
  onRequest: Step[];
  preValidation: Step[];
}

/**
 * The steps of a route whose requests are signed: the size is checked first, then the signature, and only then is the
 * body parsed. Failures count as failed authentications.
 */
export function signatureSteps(
  { signature, maxBodyBytes = usualBodyBytes }: Route,
  authenticators: Authenticators,
  log: Log,
): SignatureSteps {
  const { limits } = authenticators;
  const countByCredentials = countOpenly(authenticators);
  const options = { config: { isSigned: signature !== undefined }, bodyLimit: maxBodyBytes };
  if (signature === undefined) return { options, onRequest: [], preValidation: [] };
  return {
    options,
    onRequest: [
      ({ headers }: FastifyRequest) => {
        // The framework would check the content type first.
        if (Number(headers['content-length'] ?? 0) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes);
      },
    ],
    preValidation: [
      (request: FastifyRequest, reply: FastifyReply) => {
        const refusal = signature.refusalOf(request.headers, bytesOf(request));
        if (refusal !== undefined) {
          log.info({ request_id: request.id, reason: refusal }, 'a signature was refused');
          if (signature.isSent(request.headers) && !isPresent(presentedBy(request)))
            countStranger(request, reply, limits, true);
          throw request.limitRefusal ?? new Problem('invalid_credentials', signature.advice);
        }
        // Credentials that it carries all the same say what it counts by, as wherever none are needed.
        if (isPresent(presentedBy(request))) return countByCredentials(request, reply);
        request.isCounted = true;
        request.limitRefusal = countRequest(limits, signature.sender, reply);
        return requireWithinLimit(request);
      },
      (request: FastifyRequest) => {
        request.body = readBody(request);
      },
    ],
  };
}
