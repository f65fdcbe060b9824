import { TLSSocket } from 'node:tls';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import { problemOfFramework } from './framework-errors.ts';
import { problemAnswer, problemOfError } from './problem-answer.ts';
import { send } from './run-route.ts';
import type { Step } from './step.ts';

/**
 * Answers with problems. A problem `permission_denied`, whatever threw it, is also the result of the attempt. Problems of
 * unauthenticated callers are counted, with `countUnauthenticated`.
 */
export function answerErrors(countUnauthenticated: Step, log: Log) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    const answer = (thrown: unknown) => sendProblem(problemOfError(thrown), request, reply, log);
    const problem =
      problemOfFramework(error, request.routeOptions?.config?.readOnlyFields) ?? problemOfError(error);
    if (problem.code === 'permission_denied' && request.attempt) request.attempt.result = problem.code;
    if (problem.code === 'rate_limited') return answer(problem);
    let pending: ReturnType<Step>;
    try {
      pending = countUnauthenticated(request, reply);
    } catch (refusal) {
      return answer(refusal);
    }
    if (pending === undefined) answer(problem);
    else void answerAfter(pending, problem, answer);
  };
}

async function answerAfter(
  pending: Promise<void>,
  problem: Problem,
  answer: (thrown: unknown) => void,
): Promise<void> {
  try {
    await pending;
  } catch (refusal) {
    return answer(refusal);
  }
  answer(problem);
}

function sendProblem(problem: Problem, request: FastifyRequest, reply: FastifyReply, log: Log): void {
  // What the service's own budget refuses has not failed; its request line says 503, and a metric counts it.
  if (problem.status >= 500 && problem.facts.isPaced !== true) logFailure(problem, request, reply, log);
  setCommonHeaders(request, reply);
  send(reply, problemAnswer(problem, request.id, request.idempotencyKey !== undefined));
}

/** A caller that hung up is no error of the service; a fault in its code is. */
function logFailure(problem: Problem, request: FastifyRequest, { raw }: FastifyReply, log: Log): void {
  const { code, facts } = problem;
  const level = raw.destroyed && code !== 'internal_error' ? 'info' : 'error';
  const trace_id = request.span?.traceId;
  log[level]({ request_id: request.id, trace_id, code, err: facts.cause ?? problem }, 'the request failed');
}

const oneYear = 'max-age=31536000';

/** The headers of every answer. */
export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  reply.header('x-content-type-options', 'nosniff');
  reply.header('cache-control', 'no-store');
  // Only where this service ends TLS itself: elsewhere the proxy sets it for its own host name.
  if (request.raw.socket instanceof TLSSocket) reply.header('strict-transport-security', oneYear);
}
