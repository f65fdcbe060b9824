import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  pageAnswer,
  pageParameters,
  pageSchema,
} from '../../../api/routes/page.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { EndpointAdministration } from '../administration.ts';
import type { Delivery } from '../endpoint.ts';
import {
  deliveryParams,
  deliverySchema,
  eventId,
  idParams,
  recoveryBody,
  recoverySchema,
  statusFilter,
} from './schemas.ts';

const one = {
  path: '/v1/webhook-endpoints/:id',
  tag: 'Webhook endpoints',
  idempotencyKey: 'ignored',
} as const;

export function deliveryRoutes(endpoints: EndpointAdministration, cursors: CursorCodec): Route[] {
  return [listRoute(endpoints, cursors), resendRoute(endpoints), recoverRoute(endpoints)];
}

function listRoute(endpoints: EndpointAdministration, cursors: CursorCodec): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/deliveries`,
    method: 'GET',
    operationId: 'listWebhookDeliveries',
    summary: 'List deliveries',
    description:
      'Newest first, each with its attempts; with its `body` where `event_id` is given. A cursor works only with the same filters.',
    permission: { resource: 'webhooks', action: 'read' },
    request: {
      params: idParams,
      query: Type.Object(
        { ...pageParameters, status: Type.Optional(statusFilter), event_id: Type.Optional(eventId) },
        { additionalProperties: false },
      ),
    },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(deliverySchema, 'WebhookDeliveryPage', 'A page of deliveries.'),
      },
    },
    problems: ['not_found', 'invalid_cursor', 'store_unavailable'],
    async handle({ params: { id }, query: { limit = defaultLimit, cursor, ...filter }, consumer }) {
      const list = JSON.stringify(['deliveries', id, filter.status, filter.event_id]);
      const before = cursor === undefined ? undefined : (cursors.decode(cursor, list) as string);
      const found = await endpoints.deliveries(consumer as Consumer, id, filter, before, limit + 1);
      // An event goes to an endpoint once.
      const [only] = filter.event_id === undefined ? [] : found;
      const body = only && (await endpoints.bodyOf(consumer as Consumer, id, only));
      const showOne = (delivery: Delivery) => ({
        ...viewOfDelivery(delivery),
        ...(body !== undefined && { body }),
      });
      return pageAnswer(found, limit, showOne, ({ number }) => cursors.encode(number, list));
    },
  });
}

function resendRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/deliveries/:deliveryId/resend`,
    method: 'POST',
    operationId: 'resendWebhookDelivery',
    summary: 'Resend a delivery',
    description:
      'Works with any status. `webhook-id` stays the same, so that the receiver can recognise it. If it fails, it ' +
      'is retried like a new one.',
    permission: { resource: 'webhooks', action: 'write' },
    request: { params: deliveryParams, body: Type.Object({}, { additionalProperties: false }) },
    bodyOptional: true,
    answers: { 202: { description: "It's being resent.", schema: deliverySchema } },
    problems: ['not_found', 'conflict', 'store_unavailable'],
    handle: async ({ params, consumer }) =>
      json(202, viewOfDelivery(await endpoints.resend(consumer as Consumer, params.id, params.deliveryId))),
  });
}

function recoverRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/recover`,
    method: 'POST',
    operationId: 'recoverWebhookEndpoint',
    summary: 'Resend undelivered events',
    description:
      "Resends all events since that time that the endpoint asks for and didn't receive, including those " +
      'from while it was disabled.',
    permission: { resource: 'webhooks', action: 'write' },
    request: { params: idParams, body: recoveryBody },
    answers: { 202: { description: 'They are on their way.', schema: recoverySchema } },
    problems: ['not_found', 'conflict', 'store_unavailable'],
    async handle({ params, body, consumer }) {
      const since = new Date(body.since);
      return json(202, {
        deliveries: await endpoints.recover(consumer as Consumer, params.id, since),
      });
    },
  });
}

function viewOfDelivery({ id, event_id, event_type, status, attempts, next_attempt_at }: Delivery) {
  return { id, event_id, event_type, status, attempts, next_attempt_at };
}
