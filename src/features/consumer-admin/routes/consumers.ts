import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  pageAnswer,
  pageParameters,
  pageSchema,
} from '../../../api/routes/page.ts';
import type { Audit } from '../../../identity/audit/audit.ts';
import type { ConsumerAdministration } from '../../../identity/consumers/administration.ts';
import { requireManaged, requireNotRotated } from '../../../identity/consumers/authority.ts';
import {
  type Consumer,
  type ConsumerStatus,
  consumerStatuses,
  statusOf,
} from '../../../identity/consumers/consumer.ts';
import { viewOfConsumer } from '../../../identity/consumers/consumer-view.ts';
import { compareNewestFirst, type ListPosition } from '../../../identity/consumers/directory-index.ts';
import { isManagedBy } from '../../../identity/consumers/test-families.ts';
import type { Allowances } from '../../../identity/rate-limits/allowances.ts';
import { type Mode, modeOf } from '../../../platform/base/call.ts';
import { wallMs } from '../../../platform/base/chance.ts';
import { Problem, type ProblemCode } from '../../../platform/base/problem.ts';
import {
  authorityOf,
  conditionalAnswer,
  conditionalAuthorityOf,
  consumerAnswer,
  noUses,
  readAnswers,
  tagHeaders,
} from './consumer-answer.ts';
import {
  consumerSchema,
  consumerWithUseSchema,
  createdConsumerSchema,
  idParams,
  mode,
  requested,
  rotation,
  rotationBody,
} from './schemas.ts';

export interface ConsumersContext {
  administration: ConsumerAdministration;
  directory: { newestFirst(): readonly Consumer[] };
  audit: Pick<Audit, 'lastUses'>;
  allowances: Pick<Allowances, 'used'>;
}

const list = 'consumers';
const all = { path: '/v1/admin/consumers', tag: 'Administration', idempotencyKey: 'ignored' } as const;
const problems: ProblemCode[] = ['not_found', 'conflict', 'secrets_unavailable'];
const one = { ...all, path: `${all.path}/:id`, problems } as const;

const changes = Type.Partial(Type.Object(requested)).properties;

export function consumerRoutes(context: ConsumersContext, cursors: CursorCodec): Route[] {
  return [
    listRoute(context, cursors),
    createRoute(context),
    readRoute(context),
    changeRoute(context),
    removeRoute(context),
    rotateRoute(context),
  ];
}

const query = Type.Object(
  {
    ...pageParameters,
    q: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        format: 'text',
        description: 'Only consumers with this text in their name or id, ignoring case.',
        examples: ['partner'],
      }),
    ),
    status: Type.Optional(
      Type.Enum(consumerStatuses, {
        description: "`expired`: `validUntil` has passed. Revoked consumers aren't listed.",
        examples: ['active'],
      }),
    ),
    mode: Type.Optional(mode),
  },
  { additionalProperties: false },
);

interface Filters {
  q?: string;
  status?: ConsumerStatus;
  mode?: Mode;
}

function listRoute({ directory, audit }: ConsumersContext, cursors: CursorCodec): Route {
  return defineRoute({
    ...all,
    method: 'GET',
    operationId: 'listConsumers',
    summary: 'List consumers',
    description: 'Newest first, ties broken by id. A cursor works only with the same filters.',
    permission: { resource: 'consumers', action: 'read' },
    request: { query },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(consumerSchema, 'ConsumerPage', 'A page of consumers.'),
      },
    },
    problems: ['invalid_cursor'],
    async handle({ query: { limit = defaultLimit, cursor, ...filters }, consumer: caller }) {
      const name = listName(filters);
      const after = cursor === undefined ? undefined : (cursors.decode(cursor, name) as ListPosition);
      const now = wallMs();
      const consumers = directory
        .newestFirst()
        .filter((listed) => isManagedBy(caller as Consumer, listed) && isWanted(listed, filters, now));
      const start = after ? consumers.findIndex((consumer) => compareNewestFirst(consumer, after) > 0) : 0;
      const found = start === -1 ? [] : consumers.slice(start, start + limit + 1);
      const uses = await audit.lastUses(found);
      const show = (consumer: Consumer) => viewOfConsumer(consumer, now, uses);
      return pageAnswer(found, limit, show, ({ createdAt, id }) => cursors.encode({ createdAt, id }, name));
    },
  });
}

/** Name that a cursor is bound to; cursors of earlier versions know no filters. */
function listName({ q, status, mode: wanted }: Filters): string {
  return (q ?? status ?? wanted) ? JSON.stringify([list, q, status, wanted]) : list;
}

function isWanted(consumer: Consumer, { q, status, mode: wanted }: Filters, now: number): boolean {
  const text = q?.trim().toLowerCase() ?? '';
  return (
    [consumer.name, consumer.id].some((name) => name.toLowerCase().includes(text)) &&
    (status === undefined || statusOf(consumer, now) === status) &&
    (wanted === undefined || modeOf(consumer.id) === wanted)
  );
}

function createRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    ...all,
    method: 'POST',
    operationId: 'createConsumer',
    writesSecrets: true,
    summary: 'Create a consumer',
    description:
      'Only this response shows the API secret. Test credentials create test consumers, even without `mode`.',
    permission: { resource: 'consumers', action: 'write' },
    request: {
      body: Type.Object(
        { ...changes, name: requested.name, permissions: requested.permissions, mode: Type.Optional(mode) },
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
    problems: ['conflict', 'secrets_unavailable'],
    async handle({ body, ...request }) {
      const { consumer, apiSecret } = await administration.create(body, authorityOf(request));
      const location = `${all.path}/${consumer.id}`;
      return json(201, { ...viewOfConsumer(consumer, wallMs(), noUses), apiSecret }, { location });
    },
  });
}

/** Reads one consumer from the secrets manager, so that an operator sees a change at once. */
function readRoute({ administration, audit, allowances }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getConsumer',
    summary: 'Read a consumer',
    permission: { resource: 'consumers', action: 'read' },
    conditional: 'If-None-Match',
    request: { params: idParams },
    answers: { ...readAnswers, 200: { ...readAnswers[200], schema: consumerWithUseSchema } },
    async handle({ params, headers: { 'if-none-match': known }, consumer: caller }) {
      const consumer = await administration.find(seen(params, caller));
      requireManaged(caller as Consumer, consumer);
      return conditionalAnswer(known, consumer, { audit, allowances });
    },
  });
}

function changeRoute({ administration, audit }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    method: 'PATCH',
    operationId: 'updateConsumer',
    writesSecrets: true,
    summary: 'Change a consumer',
    description:
      'Each field that you send replaces its old value. The change takes effect at once, on every replica.',
    permission: { resource: 'consumers', action: 'write' },
    conditional: 'If-Match',
    request: {
      params: idParams,
      body: Type.Object(changes, { additionalProperties: false, minProperties: 1 }),
    },
    requestExample: { rateLimitPerMinute: 600 },
    answers: { 200: { description: 'The changed consumer.', schema: consumerSchema, headers: tagHeaders } },
    handle: async ({ params, body, ...request }) =>
      consumerAnswer(
        await administration.change(seen(params, request.consumer), body, conditionalAuthorityOf(request)),
        audit,
      ),
  });
}

/** Revokes a consumer. Without If-Match a broken record can be deleted too, by a caller with every permission. */
function removeRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    method: 'DELETE',
    operationId: 'deleteConsumer',
    writesSecrets: true,
    summary: 'Revoke a consumer',
    description: 'Deletes the consumer: all its pairs are refused at once, on every replica.',
    permission: { resource: 'consumers', action: 'delete' },
    conditional: 'If-Match',
    request: { params: idParams },
    answers: { 204: { description: 'The consumer is gone.' } },
    async handle({ params, ...request }) {
      await administration.revoke(seen(params, request.consumer), conditionalAuthorityOf(request));
      return { status: 204 };
    },
  });
}

function rotateRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/rotate`,
    method: 'POST',
    operationId: 'rotateConsumer',
    writesSecrets: true,
    summary: "Rotate a consumer's credentials",
    description:
      'Creates a new API key and secret; only this response shows the secret. The active key stays valid for the ' +
      'grace window; keys rotated earlier keep their expiry, or get the new one if it is sooner. ' +
      "Without a body, the grace window comes from the settings. A consumer can't rotate its own keys with a pair that was " +
      'already rotated.',
    permission: { resource: 'consumers', action: 'write' },
    request: { params: idParams, body: rotationBody },
    bodyOptional: true,
    answers: { 200: { description: 'The new pair is valid.', schema: rotation } },
    async handle({ params, body, credential, ...request }) {
      const id = seen(params, request.consumer);
      // A pair that leaked before a rotation must not end the one that replaced it.
      const precondition = (consumer: Consumer) => requireNotRotated(consumer, credential);
      const authority = { ...authorityOf(request), ...(id === request.consumer?.id && { precondition }) };
      return json(200, await administration.rotate(id, body.graceWindowHours, authority));
    },
  });
}

/** The id in the path. Throws `not_found` for a live consumer where the caller is a test consumer. */
function seen({ id }: { id: string }, caller: Consumer | undefined): string {
  if (modeOf(caller?.id) === 'live' || modeOf(id) === 'test') return id;
  throw new Problem('not_found', "There's no consumer with this id.");
}
