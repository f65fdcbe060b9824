import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { BearerTokens } from '../../identity/consumers/authentication.ts';
import { modeOf } from '../../platform/base/call.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { normaliseAddress } from '../../platform/base/networks.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Connections, Exchange } from '../connections/lingering-close.ts';
import type { Step } from '../route.ts';
import { problemAnswer, problemOfError, send } from './answer.ts';
import { bearerTokenIn, markTest } from './authentication.ts';
import { failReading, tooSlow } from './body.ts';
import { passedRequestOf } from './pass-on.ts';
import { countPublic, type Limits } from './rate-limit.ts';
import { problemOfFramework } from './schema-faults.ts';

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
  // A request that could have been passed on, and was not, has its faults after the limit.
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

function sendProblem(
  problem: Problem,
  request: FastifyRequest,
  reply: FastifyReply,
  { log, tokens }: { log: Log; tokens: BearerTokens | undefined },
): void {
  // A request that the service's own budget refuses has not failed; its line says 503, and a metric counts it.
  if (problem.status >= 500 && problem.facts.isBudgetExhausted !== true)
    logFailure(problem, request, reply, log);
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

type SocketError = Error & { code?: string };

interface Observers {
  limits: Pick<Limits, 'unauthenticated'>;
  log: Log;
}

/**
 * Handles a connection with input that is no HTTP, or without input in time. A request whose body is at fault is answered as
 * any other. Without a request, the answer is written to the socket itself, after the answers to the requests before it; it is
 * counted by its address and logged as a request is. The connection is closed in every case.
 */
export function answerSocketErrors(connections: Connections, observers: Observers) {
  const failed = new WeakSet<Socket>();
  return (error: SocketError, socket: Socket): void => {
    if (error.code === 'ECONNRESET') return void socket.destroy();
    // Input after the first fault, or after the last answer, is ignored.
    if (failed.has(socket) || !socket.writable) return;
    failed.add(socket);
    const latest = connections.latest(socket);
    const end = () => refuse(error, socket, connections, observers);
    if (latest !== undefined && !latest.request.complete) endBody(error, latest, connections);
    else if (latest === undefined || latest.response.destroyed) end();
    else latest.response.once('close', end);
  };
}

function endBody(error: SocketError, { request, response }: Exchange, connections: Connections): void {
  const { socket } = request;
  // The client has ended its side: it has hung up.
  if (error.code === 'HPE_INVALID_EOF_STATE') return void socket.destroy();
  if (failReading(request, describe(error))) return;
  // It was or will be answered without its body.
  if (response.destroyed) connections.endSlowly(socket);
  else response.once('close', () => connections.endSlowly(socket));
}

function refuse(error: SocketError, socket: Socket, connections: Connections, observers: Observers): void {
  // Without a byte there was no request: a connection that was opened ahead of need.
  if (socket.bytesRead > 0) answerAtSocket(describe(error), socket, observers);
  connections.endSlowly(socket);
}

function answerAtSocket(fault: Problem, socket: Socket, { limits, log }: Observers): void {
  const address = normaliseAddress(socket.remoteAddress ?? '');
  const ofLimit = new Headers();
  const header = (name: string, value: string) => ofLimit.set(name, value);
  const problem = countPublic(limits, address, { header }) ?? fault;
  const { status } = problem;
  const requestId = randomUUID();
  const { headers, body } = problemAnswer(problem, requestId, false);
  const lines = [...Object.entries(headers), ...ofLimit].map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}` +
      `content-length: ${Buffer.byteLength(body)}\r\n` +
      `x-request-id: ${requestId}\r\n` +
      'x-content-type-options: nosniff\r\ncache-control: no-store\r\n' +
      `connection: close\r\n\r\n${body}`,
  );
  log.info({ request_id: requestId, endpoint: 'none', address, status }, 'request');
}

function describe({ code }: SocketError): Problem {
  if (code === 'HPE_HEADER_OVERFLOW') return headTooLarge();
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return tooSlow();
  return new Problem('invalid_request', "This isn't a valid HTTP request.");
}

export function headTooLarge(): Problem {
  return new Problem('invalid_request', 'The request line and headers are too large.', { status: 431 });
}
