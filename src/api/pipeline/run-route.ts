import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { visibleFields, visibleRecords } from '../../identity/consumers/permissions.ts';
import { type Call, ownWorldOf, startCall, type VisibleFields } from '../../platform/base/call.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { isObject } from '../../platform/base/json-text.ts';
import { type Fault, type Problem, withSecondLook } from '../../platform/base/problem.ts';
import { isUuid } from '../../platform/base/text.ts';
import type { Reconcile } from '../idempotency/housekeeping.ts';
import {
  fingerprint,
  type KeyedRequest,
  type RequestIdentity,
  type StoredAnswer,
} from '../idempotency/keyed-request.ts';
import type { Claim, ExecutedAnswer, Ledger, OwnedClaim, Refusal } from '../idempotency/ledger.ts';
import { claimWithinWindow, requestWithoutKey } from '../idempotency/repeat-window.ts';
import { isWrite, type Route, type RouteAnswer, storesAnswers } from '../route.ts';
import {
  isFinal,
  problemAnswer,
  problemOfError,
  send,
  withContentType,
  withoutHiddenFaults,
  withoutHiddenRefusal,
} from './answer.ts';
import { requireWithinLimit } from './authentication.ts';
import { bytesOf } from './body.ts';
import { type PassedKey, type PassedRequest, passedRequestOf, passOn } from './pass-on.ts';
import { isConditional } from './request-head.ts';
import { mostErrors, problemOfFramework, readOnlyFields } from './schema-faults.ts';
import type { SecretWrites } from './secret-writes.ts';

declare module 'fastify' {
  interface FastifyRequest {
    call: Call | undefined;
  }
}

/**
 * Executes the route's handler, under the request's key where there is one, and sends the answer. The handler of the
 * framework returns no promise: what the framework does with one costs more than the sending.
 */
export function runRoute(tools: RouteTools) {
  return (request: FastifyRequest, reply: FastifyReply): void => {
    answerOf(tools, request)
      .then((answer) => void send(reply, answer))
      .catch((error: unknown) => void reply.send(error));
  };
}

interface RouteTools {
  route: Route;
  ledger: Ledger;
  secretWrites: SecretWrites;
}

interface Run extends RouteTools {
  request: FastifyRequest;
  call: Call;
  input: Awaited<ReturnType<typeof inputOf>>;
}

async function answerOf(tools: RouteTools, request: FastifyRequest): Promise<RouteAnswer> {
  const { route, ledger } = tools;
  const call = callOf(request);
  call.isWrite = isWrite(route);
  request.call = call;
  const input = await inputOf(route, request, call);
  const run = { ...tools, request, call, input };
  const keyed = await requestToClaim(run);
  const refusal = refusalOf(run);
  if (keyed === undefined) {
    if (refusal) throw refusal.error;
    return handle(run, undefined);
  }
  // A tool call is not executed without the ledger: its caller relies on being executed once.
  const mayBeUnkept = request.idempotencyKey === undefined;
  const claimed = await (keyed.repeatWindowSeconds === undefined
    ? ledger.claim(keyed, refusal)
    : claimWithinWindow(ledger, keyed, { refusal, mayBeUnkept }));
  const { claim } = claimed;
  if (claim === undefined) {
    await route.checkRepeat?.(input);
    if (claimed.isOfOtherView) await route.checkSeen?.(input);
    return asReplay(asSeenNow(run, claimed.answer));
  }
  const answer = await executeFor(run, claim);
  await claim.complete(answer);
  // As a repeat sees it, also where the handler shows more.
  return asSeenNow(run, answer);
}

function refusalOf({ route, call, input }: Run): Refusal | undefined {
  try {
    route.admit?.(call, input);
    return undefined;
  } catch (error) {
    return { error };
  }
}

/** The answer to store, also of a problem that a repeat would meet again. Any other gives the claim back and is thrown. */
async function executeFor(run: Run, claim: OwnedClaim): Promise<ExecutedAnswer> {
  try {
    await claim.confirmOwnership();
    const { unlessMade } = run.request;
    return storedAnswer(await (unlessMade ? madeBefore(run, claim, unlessMade) : handle(run, claim)));
  } catch (error) {
    const problem = problemOfError(error);
    if (isFinal(problem)) return problemAnswer(problem, run.request.id, true);
    await claim.release(error);
    throw error;
  }
}

/** Throws the refusal where no record was made. */
async function madeBefore(
  { route, call }: Run,
  { externalId }: Claim,
  refusal: Problem,
): Promise<RouteAnswer> {
  const made = await route.reconcile?.(externalId, call, []);
  if (made === undefined) throw refusal;
  return made;
}

async function handle(
  { route, secretWrites, request, call, input }: Run,
  claim: Claim | undefined,
): Promise<RouteAnswer> {
  const work = () => route.handle({ ...input, claim });
  try {
    return await (route.writesSecrets ? secretWrites.run(request, work) : work());
  } catch (error) {
    throw withoutHiddenFaults(error, fieldsSeenBy(route, call));
  }
}

function asSeenNow({ route, request, call }: Run, answer: StoredAnswer): StoredAnswer {
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
    prepared: await withSecondLook(call, () => route.prepare?.(request.body as never, request.bodyText)),
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
async function requestToClaim({ route, request, input }: Run): Promise<KeyedRequest | undefined> {
  const { key, repeatWindowSeconds: windowOfKey } = await keyOf(route, request);
  request.idempotencyKey = key;
  const { consumer, actor, method, url, span } = request;
  const { operationId: operation, repeatWindowSeconds = 0 } = route;
  if (!consumer || (key === undefined && repeatWindowSeconds === 0)) return undefined;
  const common = {
    consumerId: consumer.id,
    operation,
    ...newRecords(route, input),
    recordId: recordIn(request.params),
    actor,
    isActorProven: consumer.person !== undefined,
    span,
  };
  const body = identifyingBytes(request);
  if (key === undefined)
    return requestWithoutKey({ ...common, repeatWindowSeconds }, { method, path: route.path, body });
  const ifMatch = request.headers['if-match'];
  const scope = scopeOf(route, consumer);
  const isNamed = scope === undefined && !isConditional(ifMatch);
  return {
    ...common,
    key,
    ...fingerprints(route, { method, path: url, ifMatch, scope, body }),
    overwrites: isNamed ? route.overwrites?.(request.params as never) : undefined,
    repeatWindowSeconds: windowOfKey,
  };
}

function fingerprints({ checkSeen }: Route, request: RequestIdentity) {
  const otherScope = request.scope === undefined ? 'own' : undefined;
  return {
    fingerprint: fingerprint(request),
    otherFingerprint: checkSeen && fingerprint({ ...request, scope: otherScope }),
  };
}

function newRecords(route: Route, input: Run['input']) {
  const externalId = route.externalIdOf?.(input) ?? randomUUID();
  return { externalId, records: route.recordsOf?.(input, externalId) };
}

/** Makes the key of a passed-on request from all of it, and so only once it is known to be right. */
async function keyOf(
  route: Route,
  { raw, idempotencyKey }: FastifyRequest,
): Promise<{ [K in keyof PassedKey]: PassedKey[K] | undefined }> {
  const passed = storesAnswers(route) ? passedRequestOf(raw) : undefined;
  return passed?.key() ?? { key: idempotencyKey, repeatWindowSeconds: undefined };
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
