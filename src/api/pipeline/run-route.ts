import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { visibleFields, visibleRecords } from '../../identity/consumers/visible-records.ts';
import { type Call, ownWorldOf, startCall, type VisibleFields } from '../../platform/base/call.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { isObject } from '../../platform/base/json-text.ts';
import { type Fault, Problem, withSecondLook } from '../../platform/base/problem.ts';
import type { Span } from '../../platform/base/span.ts';
import { isUuid } from '../../platform/base/text.ts';
import type { Reconcile } from '../idempotency/housekeeping.ts';
import {
  fingerprint,
  type KeyedRequest,
  parseIdempotencyKey,
  type StoredAnswer,
} from '../idempotency/keyed-request.ts';
import type { Claim, ExecutedAnswer, Ledger } from '../idempotency/ledger.ts';
import { requestWithoutKey, runWithinWindow } from '../idempotency/repeat-window.ts';
import { type Route, type RouteAnswer, storesAnswers } from '../route.ts';
import { requireWithinLimit } from './authentication.ts';
import { bytesOf } from './body.ts';
import { isConditional } from './conditional.ts';
import { mostErrors, problemOfFramework } from './framework-errors.ts';
import { withoutHiddenFaults, withoutHiddenRefusal } from './hidden-faults.ts';
import { type PassedKey, type PassedRequest, passedRequestOf, passOn } from './pass-on.ts';
import { isFinal, problemAnswer, problemOfError } from './problem-answer.ts';
import { readOnlyFields } from './read-only-fields.ts';
import type { SecretWrites } from './secret-writes.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyRequest {
    call: Call | undefined;
    idempotencyKey: string | undefined;
  }
}

/**
 * Checks the Idempotency-Key header before the body's schema is. Throws `idempotency_key_missing`, `…_invalid`, and what a
 * request that was passed on says.
 */
export function readIdempotencyKey(route: Route): Step {
  return (request) => {
    const passed = passedRequestOf(request.raw);
    if (passed?.refusal) throw passed.refusal;
    if (route.idempotencyKey === 'ignored' || (passed !== undefined && route.method !== 'GET')) return;
    const header = request.headers['idempotency-key'];
    if (typeof header === 'string') request.idempotencyKey = parseIdempotencyKey(header);
    else if (route.idempotencyKey === 'required') throw keyMissing();
  };
}

const jsonType = 'application/json; charset=utf-8';

/**
 * Executes the route's handler, under the request's key where there is one, and sends the answer. The handler of the
 * framework returns no promise: what the framework does with one costs more than the sending.
 */
export function runRoute(route: Route, ledger: Ledger, secretWrites: SecretWrites) {
  const answer = answerOf(route, ledger, secretWrites);
  return (request: FastifyRequest, reply: FastifyReply): void => {
    answer(request)
      .then((found) => void send(reply, found))
      .catch((error: unknown) => void reply.send(error));
  };
}

function answerOf(route: Route, ledger: Ledger, secretWrites: SecretWrites) {
  return async (request: FastifyRequest): Promise<RouteAnswer> => {
    const call = callOf(request);
    call.isWrite = route.method !== 'GET';
    request.call = call;
    const input = await inputOf(route, request, call);
    const handle = (claim: Claim | undefined) => {
      const work = () => route.handle({ ...input, claim });
      return (route.writesSecrets ? secretWrites.run(request, work) : work()).catch((error: unknown) => {
        throw withoutHiddenFaults(error, fieldsSeenBy(route, call));
      });
    };
    const admit = route.admit && (() => route.admit?.(call, input));
    const claimed = await requestToClaim(route, request, () => madeBy(route, input));
    if (claimed === undefined) {
      admit?.();
      return handle(undefined);
    }
    const traced = withLedgerSpans(ledger, call.span);
    const executeOwned = (claim: Claim) => execute(() => handle(claim), request.id);
    // A tool call is not executed without the ledger: its caller relies on being executed once.
    const executeUnkept =
      request.idempotencyKey === undefined && (async (claim: Claim) => storedAnswer(await handle(claim)));
    const running =
      claimed.repeatWindowSeconds === undefined
        ? traced.run(claimed, executeOwned, admit)
        : runWithinWindow(traced, claimed, {
            execute: executeOwned,
            executeUnkept: executeUnkept || undefined,
            admit,
          });
    const { answer, replayed } = await running;
    if (replayed) await route.checkRepeat?.(input);
    const shown = asSeenNow(answer, route, request, call);
    return replayed ? asReplay(shown) : shown;
  };
}

function asSeenNow(answer: StoredAnswer, route: Route, request: FastifyRequest, call: Call): StoredAnswer {
  const shown = route.showStored?.(answer, call, request.body as never) ?? answer;
  return withoutHiddenRefusal(shown, fieldsSeenBy(route, call));
}

/** The only place where a consumer's request becomes a call, so that none is without the bounds of what it can see. */
function callOf({ id, span, consumer, actor }: FastifyRequest): Call {
  const call = startCall(id, consumer?.id, undefined, span);
  if (consumer === undefined) return call;
  return {
    ...call,
    consumerName: consumer.name,
    actor,
    subject: consumer.person?.subject,
    visible: (resource) => visibleRecords(consumer, resource),
    visibleFields: (resource) => visibleFields(consumer, resource),
  };
}

/** Throws the errors of `prepare`. */
async function inputOf(route: Route, request: FastifyRequest, call: Call) {
  return {
    params: request.params as never,
    query: request.query as never,
    body: request.body as never,
    prepared: await withSecondLook(() => route.prepare?.(request.body as never, request.bodyText)),
    headers: request.headers,
    bodyText: request.bodyText,
    faults: faultsIn(route, request),
    consumer: request.consumer,
    credential: request.attempt?.credential,
    address: request.attempt?.address ?? null,
    call,
    passOn: route.passesOn && ((inner: PassedRequest) => passOn(request, inner)),
    requireWithinLimit: route.passesOn && (() => requireWithinLimit(request)),
  };
}

/** Throws `Problem` for faults that the handler does not tell. */
function faultsIn(route: Route, { validationError, body }: FastifyRequest): readonly Fault[] {
  if (validationError === undefined) return [];
  const error = validationError as FastifyError;
  const problem = problemOfFramework(error, readOnlyFields(route), false, mostErrors);
  if (validationError.validationContext !== 'body' || !isObject(body)) throw problem ?? validationError;
  return problem?.facts.errors ?? [];
}

function asReplay(answer: StoredAnswer): StoredAnswer {
  return { ...answer, headers: { ...answer.headers, 'idempotent-replayed': 'true' } };
}

function fieldsSeenBy({ permission }: Route, call: Call): VisibleFields {
  return 'resource' in permission ? call.visibleFields?.(permission.resource) : undefined;
}

/** The request as the ledger takes it; undefined where it has no key and needs none. */
async function requestToClaim(
  route: Route,
  request: FastifyRequest,
  newIds: () => Pick<KeyedRequest, 'externalId' | 'records'>,
): Promise<KeyedRequest | undefined> {
  const { key, repeatWindowSeconds: windowOfKey } = await keyOf(route, request);
  request.idempotencyKey = key;
  const { consumer, actor, idempotencyKey, method, url } = request;
  const { operationId: operation, repeatWindowSeconds = 0 } = route;
  if (!consumer || (idempotencyKey === undefined && repeatWindowSeconds === 0)) return undefined;
  const common = {
    consumerId: consumer.id,
    operation,
    ...newIds(),
    recordId: recordIn(request.params),
    actor,
    isActorProven: consumer.person !== undefined,
  };
  const body = identifyingBytes(request);
  if (idempotencyKey === undefined)
    return requestWithoutKey({ ...common, repeatWindowSeconds }, { method, path: route.path, body });
  const ifMatch = request.headers['if-match'];
  const scope = scopeOf(route, consumer);
  const isNamed = scope === undefined && !isConditional(ifMatch);
  return {
    ...common,
    key: idempotencyKey,
    fingerprint: fingerprint({ method, path: url, ifMatch, scope, body }),
    overwrites: isNamed ? route.overwrites?.(request.params as never) : undefined,
    repeatWindowSeconds: windowOfKey,
  };
}

/** Makes the key of a passed-on request from all of it, and so only once it is known to be right. */
async function keyOf(
  route: Route,
  { raw, idempotencyKey }: FastifyRequest,
): Promise<{ [K in keyof PassedKey]: PassedKey[K] | undefined }> {
  const passed = storesAnswers(route) ? passedRequestOf(raw) : undefined;
  return passed?.key() ?? { key: idempotencyKey, repeatWindowSeconds: undefined };
}

function madeBy(
  route: Route,
  input: Awaited<ReturnType<typeof inputOf>>,
): Pick<KeyedRequest, 'externalId' | 'records'> {
  const externalId = route.externalIdOf?.(input) ?? randomUUID();
  return { externalId, records: route.recordsOf?.(input, externalId) };
}

function identifyingBytes(request: FastifyRequest): Buffer {
  const passed = passedRequestOf(request.raw);
  return passed === undefined ? bytesOf(request) : Buffer.from(passed.identity());
}

function recordIn(params: unknown): string | undefined {
  const { id } = (params ?? {}) as { id?: string };
  return id !== undefined && isUuid(id) ? id.toLowerCase() : undefined;
}

/**
 * A stored answer to a change of a record must not outlive the right to see that record. Creations are always the caller's
 * own.
 */
function scopeOf({ method, permission }: Route, consumer: Consumer): string | undefined {
  if (method === 'POST' || !('resource' in permission)) return undefined;
  return visibleRecords(consumer, permission.resource) === 'all' ? undefined : 'own';
}

async function execute(handle: () => Promise<RouteAnswer>, requestId: string): Promise<ExecutedAnswer> {
  try {
    return storedAnswer(await handle());
  } catch (error) {
    const problem = problemOfError(error);
    if (!isFinal(problem)) throw error;
    return problemAnswer(problem, requestId, true);
  }
}

function storedAnswer({ headers = {}, body = '', ...answer }: RouteAnswer) {
  return { ...answer, headers: withContentType(headers, body), body: body.toString() };
}

export function createReconcile(routes: readonly Route[]): Reconcile {
  const byOperation = new Map(routes.map((route) => [route.operationId, route]));
  return async (operation, externalId, consumerId, records) => {
    const call = { ...startCall(randomUUID(), ownWorldOf(consumerId)), isWrite: true };
    const answer = await byOperation.get(operation)?.reconcile?.(externalId, call, records);
    return answer && storedAnswer(answer);
  };
}

function withLedgerSpans(ledger: Ledger, parent: Span): Ledger {
  return {
    async run(request, work, admit) {
      let working: Span | undefined = parent.child('internal', 'idempotency claim');
      try {
        return await ledger.run(
          request,
          async (claim) => {
            working?.end();
            working = undefined;
            const answer = await work(claim);
            working = parent.child('internal', 'idempotency complete');
            return answer;
          },
          admit,
        );
      } finally {
        working?.end();
      }
    },
  };
}

/**
 * Sends an answer as it is. A text is written together with the head; where its content type names no character set
 * the framework would add one, so there it is bytes.
 */
export function send(
  reply: FastifyReply,
  { status, headers = {}, cookies = [], body = '' }: RouteAnswer,
): FastifyReply {
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

function keyMissing(): Problem {
  const message = 'is missing; send a new UUID with each new write, and the same one when you repeat it';
  return new Problem('idempotency_key_missing', `The Idempotency-Key header ${message}.`, {
    errors: [{ header: 'Idempotency-Key', message }],
  });
}
