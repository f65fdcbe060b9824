import { Type } from 'typebox';
import { requireMatch, unlessNotModified } from '../../../api/pipeline/conditional.ts';
import type { CursorCodec } from '../../../api/pipeline/cursor.ts';
import { userAgentOf } from '../../../api/pipeline/user-agent.ts';
import { defineRoute, type Input, json, type Route } from '../../../api/route.ts';
import { defaultLimit, pageAnswer, pageParameters, pageSchema } from '../../../api/routes/page.ts';
import type { Audit } from '../../../identity/audit/audit.ts';
import type { ConsumerAdministration } from '../../../identity/consumers/administration.ts';
import type { Authority } from '../../../identity/consumers/authority.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import { viewOfConsumer } from '../../../identity/consumers/consumer-view.ts';
import { compareNewestFirst, type ListPosition } from '../../../identity/consumers/directory-index.ts';
import type { ProblemCode } from '../../../platform/base/problems.ts';
import { entityTag } from '../../../records/representation.ts';
import {
  consumerSchema,
  createdConsumerSchema,
  idParams,
  requested,
  rotation,
  rotationBody,
} from './schemas.ts';

/** What the operations on consumers work with. */
export interface ConsumersContext {
  administration: ConsumerAdministration;
  /** The loaded consumers, newest first. */
  directory: { newestFirst(): readonly Consumer[] };
  audit: Pick<Audit, 'lastUses'>;
}

const list = 'consumers';
const noUses = new Map<string, string>();
const all = { path: '/v1/admin/consumers', tag: 'Administration', idempotencyKey: 'ignored' } as const;
const problems: ProblemCode[] = ['not_found', 'conflict', 'secrets_unavailable'];
const one = { ...all, path: `${all.path}/:id`, problems } as const;
const headers = { ETag: 'Entity tag of the consumer without its last use, for If-Match and If-None-Match.' };

/** Every field of a request is optional in a change. */
const changes = Type.Partial(Type.Object(requested)).properties;

/** The operations on consumers, in the order of the documentation. */
export function consumerRoutes(context: ConsumersContext, cursors: CursorCodec): Route[] {
  return [
    listRoute(context, cursors),
    createRoute(context),
    readRoute(context),
    changeRoute(context),
    removeRoute(context),
    rotateRoute(context),
    readOwnRoute(context),
  ];
}

/** Shows a consumer what it may do. */
function readOwnRoute({ audit }: ConsumersContext): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/consumer',
    operationId: 'getOwnConsumer',
    tag: 'Administration',
    idempotencyKey: 'ignored',
    summary: 'Read the consumer that calls',
    description: 'What the credentials of the request may do, and until when.',
    permission: { anyCredentials: true },
    conditional: 'If-None-Match',
    request: {},
    answers: {
      200: { description: 'The consumer.', schema: consumerSchema, headers },
      304: { description: 'The consumer is still as If-None-Match names it.', headers },
    },
    problems: [],
    handle: async ({ consumer, headers: { 'if-none-match': known } }) =>
      unlessNotModified(known, await consumerAnswer(consumer as Consumer, audit)),
  });
}

/** Lists the consumers that this replica has loaded, also while the secrets manager is unavailable. */
function listRoute({ directory, audit }: ConsumersContext, cursors: CursorCodec): Route {
  return defineRoute({
    ...all,
    method: 'GET',
    operationId: 'listConsumers',
    summary: 'List consumers',
    description: 'Newest first, ties broken by id. A cursor is good for this list only.',
    permission: { resource: 'consumers', action: 'read' },
    request: { query: Type.Object(pageParameters, { additionalProperties: false }) },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(consumerSchema, 'ConsumerPage', 'A page of consumers.'),
      },
    },
    problems: ['invalid_cursor'],
    async handle({ query: { limit = defaultLimit, cursor } }) {
      const after = cursor === undefined ? undefined : (cursors.decode(cursor, list) as ListPosition);
      const consumers = directory.newestFirst();
      const start = after ? consumers.findIndex((consumer) => compareNewestFirst(consumer, after) > 0) : 0;
      const found = start === -1 ? [] : consumers.slice(start, start + limit + 1);
      const uses = await audit.lastUses(found);
      const now = Date.now();
      const show = (consumer: Consumer) => viewOfConsumer(consumer, now, uses);
      return pageAnswer(found, limit, show, ({ createdAt, id }) => cursors.encode({ createdAt, id }, list));
    },
  });
}

/** Makes a consumer with its first pair. No other answer shows that secret. */
function createRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    ...all,
    method: 'POST',
    operationId: 'createConsumer',
    summary: 'Create a consumer',
    description: 'The answer shows the API secret this one time.',
    permission: { resource: 'consumers', action: 'write' },
    request: {
      body: Type.Object(
        { ...changes, name: requested.name, permissions: requested.permissions },
        { additionalProperties: false },
      ),
    },
    requestExample: { name: 'Partner A', permissions: [{ resource: 'quotes', actions: ['read', 'write'] }] },
    answers: {
      201: {
        description: 'The consumer exists, and its pair is valid.',
        schema: createdConsumerSchema,
        headers: { Location: 'Where the consumer can be read.' },
      },
    },
    problems: ['secrets_unavailable'],
    async handle({ body, ...request }) {
      const { consumer, apiSecret } = await administration.create(body, authorityOf(request));
      const location = `${all.path}/${consumer.id}`;
      return json(201, { ...viewOfConsumer(consumer, Date.now(), noUses), apiSecret }, { location });
    },
  });
}

/** Reads one consumer from the secrets manager, so that an operator sees a change at once. */
function readRoute({ administration, audit }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getConsumer',
    summary: 'Read a consumer',
    permission: { resource: 'consumers', action: 'read' },
    conditional: 'If-None-Match',
    request: { params: idParams },
    answers: {
      200: { description: 'The consumer.', schema: consumerSchema, headers },
      304: { description: 'The consumer is still as If-None-Match names it.', headers },
    },
    handle: async ({ params, headers: { 'if-none-match': known } }) =>
      unlessNotModified(known, await consumerAnswer(await administration.find(params.id), audit)),
  });
}

/** Changes a consumer; each field that is sent replaces the whole value. */
function changeRoute({ administration, audit }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    method: 'PATCH',
    operationId: 'updateConsumer',
    summary: 'Change a consumer',
    description: 'Each field that is sent replaces the whole value. Valid at once, on every replica.',
    permission: { resource: 'consumers', action: 'write' },
    conditional: 'If-Match',
    request: {
      params: idParams,
      body: Type.Object(changes, { additionalProperties: false, minProperties: 1 }),
    },
    requestExample: { rateLimitPerMinute: 600 },
    answers: { 200: { description: 'The changed consumer.', schema: consumerSchema, headers } },
    handle: async ({ params, body, ...request }) =>
      consumerAnswer(await administration.change(params.id, body, conditionalAuthorityOf(request)), audit),
  });
}

/** Revokes a consumer. Without If-Match a broken record can be deleted too, by a caller with every permission. */
function removeRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    method: 'DELETE',
    operationId: 'deleteConsumer',
    summary: 'Revoke a consumer',
    description: 'Deletes the consumer: all its pairs are refused at once, on every replica.',
    permission: { resource: 'consumers', action: 'delete' },
    conditional: 'If-Match',
    request: { params: idParams },
    answers: { 204: { description: 'The consumer is gone.' } },
    async handle({ params, ...request }) {
      await administration.revoke(params.id, conditionalAuthorityOf(request));
      return { status: 204 };
    },
  });
}

/** Gives a consumer a new pair, while the old one stays valid for the grace window. */
function rotateRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/rotate`,
    method: 'POST',
    operationId: 'rotateConsumer',
    summary: "Rotate a consumer's credentials",
    description:
      'Makes a new pair, whose secret is shown this one time. Every pair that is active becomes rotated and stays valid ' +
      'for the grace window; a pair rotated earlier keeps its expiry or takes the new one, whichever is earlier. ' +
      'Without a body the grace window is that of the settings.',
    permission: { resource: 'consumers', action: 'write' },
    request: { params: idParams, body: rotationBody },
    bodyOptional: true,
    answers: { 200: { description: 'The new pair is valid.', schema: rotation } },
    handle: async ({ params, body, ...request }) =>
      json(200, await administration.rotate(params.id, body.graceWindowHours, authorityOf(request))),
  });
}

type Request = Pick<Input<object, 'ignored', unknown>, 'consumer' | 'address' | 'headers' | 'call'>;

function authorityOf({ consumer, address, headers: sent, call }: Request): Authority {
  // Every route here needs credentials.
  const { id, name } = consumer as Consumer;
  return {
    callerId: id,
    author: {
      actor: { type: 'consumer', id, name, person: call.actor ?? null },
      address,
      user_agent: userAgentOf(sent),
      request_id: call.requestId,
    },
  };
}

/** The same, for what honours If-Match. */
function conditionalAuthorityOf(request: Request): Authority {
  const ifMatch = request.headers['if-match'];
  if (ifMatch === undefined) return authorityOf(request);
  const precondition = (consumer: Consumer) => requireMatch(ifMatch, tagOf(consumer));
  return { ...authorityOf(request), precondition };
}

/** Of what can be changed: a use of the credentials must not make a change fail. */
function tagOf(consumer: Consumer): string {
  return entityTag(JSON.stringify(viewOfConsumer(consumer, Date.now(), noUses)));
}

async function consumerAnswer(consumer: Consumer, audit: Pick<Audit, 'lastUses'>) {
  const uses = await audit.lastUses([consumer]);
  const body = JSON.stringify(viewOfConsumer(consumer, Date.now(), uses));
  return { status: 200, body, headers: { etag: tagOf(consumer) } };
}
