import { Type } from 'typebox';
import type { CursorCodec } from '../../../api/pipeline/cursor.ts';
import { defineRoute, json, type Permission, type Route, type RouteAnswer } from '../../../api/route.ts';
import { defaultLimit, pageAnswer, pageParameters, pageSchema } from '../../../api/routes/page.ts';
import { allows, type Consumer, type PermissionAction } from '../../../identity/consumers/consumer.ts';
import { requireOneOf } from '../../../identity/consumers/permissions.ts';
import { visibleRecords } from '../../../identity/consumers/visible-records.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { isUuid } from '../../../platform/base/uuid.ts';
import { booking } from '../../../records/quotes-and-bookings.ts';
import type { Readable, StoredHandoff } from '../accepted.ts';
import { type HandoffType, targets } from '../handoff.ts';
import type { Handoffs } from '../handoffs.ts';
import {
  acceptance,
  externalId,
  handoffSchema,
  handoffStatus,
  handoffType,
  viewOfHandoff,
} from './schemas.ts';

const all = { path: '/v1/handoffs', tag: 'Hand-off', idempotencyKey: 'ignored' } as const;
const one = { ...all, path: `${all.path}/:externalId` } as const;
const params = Type.Object({ externalId }, { additionalProperties: false });

/** One of them is needed to begin with; which one follows from the hand-off's type. */
function either(action: PermissionAction): Extract<Permission, { anyOf: unknown }> {
  return {
    anyOf: [
      { resource: 'quotes', action },
      { resource: 'bookings', action },
    ],
  };
}

/** The permission for an operation on one hand-off: a refusal names the one on its type. */
function byType(handoffs: Handoffs, action: PermissionAction): Permission {
  return {
    ...either(action),
    byPath: async (sent, consumer) => {
      // The path is not checked yet.
      const { externalId: id } = sent as { externalId: string };
      const handoff = isUuid(id) ? await findVisible(handoffs, id, consumer) : undefined;
      return handoff && { resource: targets[handoff.type].collection, action };
    },
  };
}

/** The operations on hand-offs that were answered 202, in the order of the documentation. */
export function acceptedHandoffRoutes(handoffs: Handoffs, cursors: CursorCodec): Route[] {
  return [listRoute(handoffs, cursors), readRoute(handoffs), retryRoute(handoffs), cancelRoute(handoffs)];
}

const query = Type.Object(
  {
    ...pageParameters,
    status: Type.Optional(handoffStatus),
    type: Type.Optional(handoffType),
    trip_id: Type.Optional(booking.fields.trip_id.schema),
  },
  { additionalProperties: false },
);

/** Lists accepted hand-offs of the types that the caller may read. */
function listRoute(handoffs: Handoffs, cursors: CursorCodec): Route {
  return defineRoute({
    ...all,
    method: 'GET',
    operationId: 'listHandoffs',
    summary: 'List hand-offs that were answered 202',
    description: 'Newest first, of the types that the caller may read. They are kept for 30 days.',
    permission: either('read'),
    request: { query },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(handoffSchema, 'HandoffPage', 'A page of hand-offs.'),
      },
    },
    problems: ['invalid_cursor', 'store_unavailable'],
    async handle({ query: { limit = defaultLimit, cursor, status, type, trip_id }, consumer }) {
      const tripId = trip_id?.toLowerCase();
      const list = JSON.stringify(['handoffs', consumer?.id, status, type, tripId]);
      const found = await handoffs.list({
        readable: readableBy(consumer, type),
        status,
        tripId,
        after: cursor === undefined ? undefined : (cursors.decode(cursor, list) as string),
        limit: limit + 1,
      });
      return pageAnswer(found, limit, viewOfHandoff, ({ sequence }) => cursors.encode(sequence, list));
    },
  });
}

/** Reads one accepted hand-off. */
function readRoute(handoffs: Handoffs): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getHandoff',
    summary: 'Read a hand-off that was answered 202',
    description: 'Says how far it is. Hand-offs with another answer are not found here.',
    permission: byType(handoffs, 'read'),
    request: { params },
    answers: { 200: { description: 'The hand-off.', schema: handoffSchema } },
    problems: ['not_found', 'store_unavailable'],
    handle: async ({ params: { externalId: id }, consumer }) =>
      json(200, viewOfHandoff(await find(handoffs, id, consumer, 'read'))),
  });
}

/** Has a failed hand-off delivered again. */
function retryRoute(handoffs: Handoffs): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/retry`,
    method: 'POST',
    operationId: 'retryHandoff',
    summary: 'Deliver a failed hand-off again',
    description: 'For when the cause of its failure is gone. It keeps its External ID.',
    permission: byType(handoffs, 'write'),
    request: { params },
    answers: {
      202: {
        description: 'It is delivered again.',
        schema: acceptance,
        headers: { Location: 'Where the hand-off can be read.' },
      },
    },
    problems: ['not_found', 'conflict', 'crm_unavailable', 'store_unavailable'],
    async handle({ params: { externalId: id }, consumer }) {
      const handoff = await find(handoffs, id, consumer, 'write');
      await handoffs.retry(handoff.externalId);
      return acceptedAnswer(handoff.type, handoff.externalId);
    },
  });
}

/** Cancels a hand-off that is not created. */
function cancelRoute(handoffs: Handoffs): Route {
  return defineRoute({
    ...one,
    method: 'DELETE',
    operationId: 'cancelHandoff',
    summary: 'Cancel a hand-off that waits or has failed',
    description:
      'It is not delivered any more. A record that a call under way makes all the same is removed. A hand-off that is ' +
      'cancelled already is answered in the same way.',
    permission: byType(handoffs, 'delete'),
    request: { params },
    answers: { 204: { description: 'It is cancelled.' } },
    problems: ['not_found', 'conflict', 'store_unavailable'],
    async handle({ params: { externalId: id }, consumer }) {
      const handoff = await find(handoffs, id, consumer, 'delete');
      await handoffs.cancel(handoff.externalId);
      return { status: 204 };
    },
  });
}

/** The answer to a hand-off that is stored. */
export function acceptedAnswer(
  type: HandoffType,
  external_id: string,
  headers: Record<string, string> = {},
): RouteAnswer {
  const body = { type, status: 'accepted', external_id };
  return json(202, body, { location: `/v1/handoffs/${external_id}`, ...headers });
}

/** The hand-off, where the caller may do this with its type. Throws `not_found`, `permission_denied`. */
async function find(
  handoffs: Handoffs,
  id: string,
  consumer: Consumer | undefined,
  action: PermissionAction,
): Promise<StoredHandoff> {
  // Every route here needs credentials.
  const caller = consumer as Consumer;
  // Before the permission: a refusal of the action would tell that there is one.
  const handoff = await findVisible(handoffs, id, caller);
  if (handoff === undefined) throw notFound();
  requireOneOf(caller, [{ resource: targets[handoff.type].collection, action }]);
  return handoff;
}

/** The hand-off if the consumer can see it; what it may do with it is not checked. */
async function findVisible(
  handoffs: Handoffs,
  id: string,
  consumer: Consumer,
): Promise<StoredHandoff | undefined> {
  const handoff = await handoffs.find(id.toLowerCase());
  const visible = handoff && visibleRecords(consumer, targets[handoff.type].collection);
  const isForeign = typeof visible === 'object' && visible.consumerId !== handoff?.consumerId;
  return isForeign ? undefined : handoff;
}

function readableBy(consumer: Consumer | undefined, type: HandoffType | undefined): Readable {
  const readable: Readable = {};
  for (const { name, collection } of Object.values(targets)) {
    const isWanted = type === undefined || type === name;
    if (!isWanted || consumer === undefined || !allows(consumer, collection, 'read')) continue;
    readable[name] = visibleRecords(consumer, collection);
  }
  return readable;
}

function notFound(): Problem {
  return new Problem('not_found', 'There is no hand-off with this id that was answered 202.');
}
