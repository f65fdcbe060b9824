import { Problem, type ProblemCode, type ProblemFacts, problems } from '../../platform/base/problem.ts';
import type { StoredAnswer } from '../idempotency/keyed-request.ts';

/** Where the problem is explained; its `type` (RFC 9457 section 3.1.1) leads there. */
function problemPath(code: string): string {
  return `/v1/problems/${code}`;
}

export function exampleProblem(code: ProblemCode): Problem {
  const { detail, facts }: { detail: string; facts?: ProblemFacts } = problems[code].example;
  return new Problem(code, detail, facts);
}

export const exampleRequestId = '933bfcba-80b2-48dd-b31b-e58b7b06d3e3';

export const problemContentType = 'application/problem+json';

/** Scheme of the challenge that every 401 carries (RFC 9110 section 11.6.1). */
const challenge = 'ApiKey realm="handoff-gateway"';

/**
 * A problem as the answer that the caller sees (RFC 9457). `keyed`: the request ran under an Idempotency-Key, which
 * decides the advice after a write whose outcome is unknown.
 */
export function problemAnswer(problem: Problem, requestId: string, keyed: boolean): StoredAnswer {
  const { code, facts, status } = problem;
  const { title } = problems[code];
  const body = {
    type: problemPath(code),
    title,
    status,
    detail: facts.outcomeUnknown
      ? `${problem.message} ${outcomeAdvice(keyed, facts.externalId)}`
      : problem.message,
    code,
    request_id: requestId,
    errors: facts.errors,
    required: facts.required,
    cause: facts.partnerCause,
    retry_after: facts.retryAfter,
    external_id: facts.outcomeUnknown && !keyed ? facts.externalId : undefined,
  };
  const headers: Record<string, string> = { 'content-type': problemContentType };
  if (facts.retryAfter !== undefined) headers['retry-after'] = String(facts.retryAfter);
  if (facts.allow) headers.allow = facts.allow.join(', ');
  if (status === 401) headers['www-authenticate'] = challenge;
  return { status, headers, body: JSON.stringify(body) };
}

function outcomeAdvice(keyed: boolean, externalId: string | undefined): string {
  if (keyed)
    return "It's unknown whether the write took effect; the same request with the same Idempotency-Key is safe to send again.";
  const what = externalId === undefined ? 'up what it may have created' : 'the record up by external_id';
  return `It's unknown whether the write took effect; look ${what} before sending the request again.`;
}

export function problemOfError(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(
    'internal_error',
    'Something went wrong in the gateway. It is logged under the request id.',
    {
      cause: error,
    },
  );
}

/**
 * Whether a repeat under the same key must get the same answer. An outcome that may change (a limit, a time-out, a
 * request still running) is not stored.
 */
export function isFinal(problem: Problem): boolean {
  return problem.code === 'conflict' || [404, 412, 422].includes(problem.status);
}
