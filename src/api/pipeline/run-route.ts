import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Call, startCall } from '../../base/call.ts';
import { Problem } from '../../base/problem.ts';
import { fingerprint } from '../../idempotency/fingerprint.ts';
import { parseIdempotencyKey } from '../../idempotency/key.ts';
import type { Claim, ExecutedAnswer, Ledger } from '../../idempotency/ledger.ts';
import type { Answer, Route } from '../route.ts';
import { bytesOf } from './body.ts';
import { withLedgerSpans } from './ledger-spans.ts';
import { isFinal, problemAnswer, toProblem } from './problem-answer.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyRequest {
    call: Call | undefined;
    /** The request ran under an Idempotency-Key. */
    idempotencyKey: string | undefined;
  }
}

/** Checks the Idempotency-Key header before the body's schema is. Throws `idempotency_key_missing` or `…_invalid`. */
export function readIdempotencyKey(route: Route): Step {
  return (request) => {
    if (route.idempotencyKey === 'ignored') return;
    const header = request.headers['idempotency-key'];
    if (typeof header === 'string') request.idempotencyKey = parseIdempotencyKey(header);
    else if (route.idempotencyKey === 'required') throw keyMissing();
  };
}

const jsonType = 'application/json; charset=utf-8';

/**
 * Carries out the route's work, under the request's key where there is one, and sends the answer. The framework is told
 * by `send`, not by a promise: what it hangs on a promise costs more than the sending.
 */
export function runRoute(route: Route, ledger: Ledger) {
  const answer = answerOf(route, ledger);
  return (request: FastifyRequest, reply: FastifyReply): void => {
    answer(request)
      .then((found) => void send(reply, found))
      .catch((error: unknown) => void reply.send(error));
  };
}

function answerOf(route: Route, ledger: Ledger) {
  return async (request: FastifyRequest): Promise<Answer> => {
    const call = startCall(request.id, request.consumer?.id, undefined, request.span);
    call.isWrite = route.method !== 'GET';
    request.call = call;
    const prepared = route.prepare?.(request.body as never, request.bodyText);
    const handle = (claim: Claim | undefined) =>
      route.handle({
        params: request.params as never,
        query: request.query as never,
        body: request.body as never,
        prepared,
        headers: request.headers,
        bodyText: request.bodyText,
        call,
        claim,
      });
    const { consumer, idempotencyKey } = request;
    const admit = route.admit && (() => route.admit?.(call));
    if (idempotencyKey === undefined || !consumer) {
      admit?.();
      return handle(undefined);
    }

    const { answer, replayed } = await withLedgerSpans(ledger, call.span).run(
      {
        consumerId: consumer.id,
        key: idempotencyKey,
        operation: route.operationId,
        fingerprint: fingerprint({
          method: request.method,
          path: request.url,
          ifMatch: request.headers['if-match'],
          body: bytesOf(request),
        }),
        externalId: randomUUID(),
      },
      (claim) => settle(() => handle(claim), request.id),
      admit,
    );
    return replayed ? { ...answer, headers: { ...answer.headers, 'idempotent-replayed': 'true' } } : answer;
  };
}

/** Turns what the handler came to into what the ledger keeps; problems that may pass are thrown on. */
async function settle(handle: () => Promise<Answer>, requestId: string): Promise<ExecutedAnswer> {
  try {
    const { headers = {}, body = '', ...answer } = await handle();
    return { ...answer, headers: withContentType(headers, body), body };
  } catch (error) {
    const problem = toProblem(error);
    if (!isFinal(problem)) throw error;
    return problemAnswer(problem, requestId, true);
  }
}

/**
 * Sends an answer as it is. A text goes out in one piece with the head; where its content type names no character set
 * the framework would add one, so there it is bytes.
 */
export function send(reply: FastifyReply, { status, headers = {}, body = '' }: Answer): FastifyReply {
  const complete = withContentType(headers, body);
  reply.code(status).headers(complete);
  if (body === '') return reply.send();
  return reply.send(complete['content-type'] === jsonType ? body : Buffer.from(body));
}

/** The headers, with the content type of JSON where there is a body and none is named. */
export function withContentType(headers: Record<string, string>, body: string): Record<string, string> {
  if (body === '' || headers['content-type'] !== undefined) return headers;
  return { ...headers, 'content-type': jsonType };
}

function keyMissing(): Problem {
  const message = 'is missing; send a new UUID with each new write, and the same one when you repeat it';
  return new Problem('idempotency_key_missing', `The Idempotency-Key header ${message}.`, {
    errors: [{ header: 'Idempotency-Key', message }],
  });
}
