import { TLSSocket } from 'node:tls';
import type { FastifyReply } from 'fastify';
import { isFieldVisible, type VisibleFields } from '../../platform/base/call.ts';
import {
  type Fault,
  Problem,
  type ProblemCode,
  type ProblemFacts,
  problems,
} from '../../platform/base/problem.ts';
import type { StoredAnswer } from '../idempotency/keyed-request.ts';
import type { RouteAnswer } from '../route.ts';

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
    "Something went wrong in the gateway. It's logged under the request id.",
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

const hiddenFault = {
  pointer: '',
  message: "it breaks a rule about something these credentials can't see",
};

export function withoutHiddenFaults(error: unknown, visible: VisibleFields): unknown {
  if (visible === undefined || !(error instanceof Problem) || error.code !== 'crm_rejected') return error;
  const { errors = [], ...facts } = error.facts;
  const shown = errors.filter((fault) => {
    const [, name = ''] = 'pointer' in fault ? (/^#\/(?:result\/)?(\w+)/.exec(fault.pointer) ?? []) : [];
    return name !== '' && isFieldVisible(visible, name);
  });
  if (shown.length === errors.length && shown.length > 0) return error;
  const faults = [...shown, hiddenFault];
  return new Problem('crm_rejected', refusalBy(faults), { ...facts, errors: faults });
}

export function refusalBy(faults: readonly Fault[]): string {
  return `The CRM refused the record: ${faults.map(({ message }) => message).join('; ')}`;
}

/** Hides faults of a stored answer, whose caller may have seen more then. One that names no fields may be about any. */
export function withoutHiddenRefusal(answer: StoredAnswer, visible: VisibleFields): StoredAnswer {
  if (visible === undefined || answer.status !== 422) return answer;
  const { code, detail, request_id, errors } = JSON.parse(answer.body) as {
    code: string;
    detail: string;
    request_id: string;
    errors?: Fault[];
  };
  if (code !== 'crm_rejected') return answer;
  const shown = withoutHiddenFaults(new Problem(code, detail, { errors: errors ?? [] }), visible);
  const { headers, body } = problemAnswer(shown as Problem, request_id, true);
  return { ...answer, headers, body };
}

const oneYear = 'max-age=31536000';

function setCommonHeaders(reply: FastifyReply): void {
  const { id, raw } = reply.request;
  reply.header('x-request-id', id);
  reply.header('x-content-type-options', 'nosniff');
  reply.header('cache-control', 'no-store');
  // Only where this service ends TLS itself: elsewhere the proxy sets it for its own host name.
  if (raw.socket instanceof TLSSocket) reply.header('strict-transport-security', oneYear);
}

const jsonType = 'application/json; charset=utf-8';

/**
 * Sends an answer as it is, with the headers that every answer has. A text is written together with the head; where its
 * content type names no character set the framework would add one, so there it is bytes.
 */
export function send(
  reply: FastifyReply,
  { status, headers = {}, cookies = [], body = '' }: RouteAnswer,
): FastifyReply {
  setCommonHeaders(reply);
  const complete = withContentType(headers, body);
  reply.code(status).headers(complete);
  for (const cookie of cookies) reply.header('set-cookie', cookie);
  if (body === '') return reply.send();
  if (typeof body !== 'string') return reply.send(body);
  return reply.send(complete['content-type'] === jsonType ? body : Buffer.from(body));
}

export function withContentType(
  headers: Record<string, string>,
  body: string | Buffer,
): Record<string, string> {
  if (body.length === 0 || headers['content-type'] !== undefined) return headers;
  return { ...headers, 'content-type': jsonType };
}
