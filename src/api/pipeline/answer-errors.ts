import { TLSSocket } from 'node:tls';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { BearerTokens } from '../../identity/consumers/authentication.ts';
import { modeOf } from '../../platform/base/call.ts';
import type { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import { bearerTokenIn, markTest } from './authentication.ts';
import { problemOfFramework } from './framework-errors.ts';
import { passedRequestOf } from './pass-on.ts';
import { problemAnswer, problemOfError } from './problem-answer.ts';
import { send } from './run-route.ts';
import type { Step } from './step.ts';

/**
 * Answers with problems. A lack of permission, whatever threw it, is also the result of the attempt. A request that was
 * refused before it was counted is counted, with `countOpenly`. `tokens`: where they are accepted, a refusal names them.
 */
export function answerErrors(countOpenly: Step, log: Log, tokens: BearerTokens | undefined) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    const answer = (thrown: unknown) => sendProblem(problemOfError(thrown), request, reply, { log, tokens });
    const problem = problemOf(error, request);
    if (request.isCounted) return answer(problem);
    let pending: ReturnType<Step>;
    try {
      pending = countOpenly(request, reply);
    } catch (refusal) {
      return answer(refusal);
    }
    if (pending === undefined) answer(problem);
    else void answerAfter(pending, problem, answer);
  };
}

function problemOf(error: FastifyError, request: FastifyRequest): Problem {
  const { readOnlyFields, takesForm, passesOn } = request.routeOptions?.config ?? {};
  const problem = problemOfFramework(error, readOnlyFields, takesForm) ?? problemOfError(error);
  const isDenied = problem.code === 'permission_denied' || problem.code === 'approval_required';
  if (isDenied && request.attempt) request.attempt.result = 'permission_denied';
  // Of what could have been passed on and was not, all faults come after the limit.
  return (passesOn && !request.isPassedOn && request.limitRefusal) || problem;
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

interface ErrorTools {
  log: Log;
  tokens: BearerTokens | undefined;
}

function sendProblem(
  problem: Problem,
  request: FastifyRequest,
  reply: FastifyReply,
  { log, tokens }: ErrorTools,
): void {
  // What the service's own budget refuses has not failed; its request line says 503, and a metric counts it.
  if (problem.status >= 500 && problem.facts.isBudgetExhausted !== true)
    logFailure(problem, request, reply, log);
  setCommonHeaders(request, reply);
  markTest(request, reply);
  const own = request.routeOptions?.config?.answerProblem?.(problem, request.headers);
  const answer = own ?? usualAnswer(problem, request);
  const challenge = own === undefined && tokens && bearerChallenge(problem, request, tokens);
  if (challenge) answer.headers = { ...answer.headers, ...challengeHeader(answer.headers, challenge) };
  send(reply, answer);
}

function usualAnswer(problem: Problem, { raw, id, idempotencyKey }: FastifyRequest) {
  const shown = passedRequestOf(raw)?.reword(problem) ?? problem;
  return problemAnswer(shown, id, idempotencyKey !== undefined);
}

function challengeHeader({ 'www-authenticate': other }: Record<string, string> = {}, challenge: string) {
  return { 'www-authenticate': [other, challenge].filter((one) => one !== undefined).join(', ') };
}

/** RFC 6750 section 3, with where the metadata is (RFC 9728 section 5.1). */
function bearerChallenge(
  { code, status, facts: { required } }: Problem,
  { consumer, headers, routeOptions }: FastifyRequest,
  tokens: BearerTokens,
): string | undefined {
  const start = 'Bearer realm="handoff-gateway"';
  const end = `resource_metadata="${tokens.metadataUrl(routeOptions?.url)}"`;
  if (status === 401) {
    const isSent = headers.authorization !== undefined && bearerTokenIn(headers.authorization) !== undefined;
    return isSent ? `${start}, error="invalid_token", ${end}` : `${start}, ${end}`;
  }
  if (code !== 'permission_denied' || !consumer?.scopes || !required) return undefined;
  const scope = `${required.resource}:${required.action}`;
  return `${start}, error="insufficient_scope", scope="${scope}", ${end}`;
}

/** A caller that hung up is no error of the service, nor one that tries a fault with a test key; a fault in its code is. */
function logFailure(problem: Problem, request: FastifyRequest, { raw }: FastifyReply, log: Log): void {
  const { code, facts } = problem;
  const isMinor = raw.destroyed || modeOf(request.consumer?.id) === 'test';
  const level = isMinor && code !== 'internal_error' ? 'info' : 'error';
  const trace_id = request.span?.traceId;
  log[level]({ request_id: request.id, trace_id, code, err: facts.cause ?? problem }, 'the request failed');
}

const oneYear = 'max-age=31536000';

export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  reply.header('x-content-type-options', 'nosniff');
  reply.header('cache-control', 'no-store');
  // Only where this service ends TLS itself: elsewhere the proxy sets it for its own host name.
  if (request.raw.socket instanceof TLSSocket) reply.header('strict-transport-security', oneYear);
}
