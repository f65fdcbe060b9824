import { Type } from 'typebox';
import {
  isConditional,
  requireMatch,
  unchanged,
  unlessNotModified,
} from '../../../api/pipeline/request-head.ts';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  pageAnswer,
  pageParameters,
  pageSchema,
} from '../../../api/routes/page.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { Caller } from '../../../identity/consumers/scopes.ts';
import type { ProblemCode } from '../../../platform/base/problem.ts';
import { entityTag } from '../../../records/representation.ts';
import type { EndpointAdministration } from '../administration.ts';
import { type Endpoint, viewOfEndpoint } from '../endpoint.ts';
import type { EndpointPosition } from '../endpoints-table.ts';
import { deliveryRoutes } from './deliveries.ts';
import {
  changeBody,
  createdEndpointSchema,
  endpointSchema,
  idParams,
  requested,
  rotationBody,
  rotationSchema,
  testSchema,
} from './schemas.ts';

const all = { path: '/v1/webhook-endpoints', tag: 'Webhook endpoints', idempotencyKey: 'ignored' } as const;
const problems: ProblemCode[] = ['not_found', 'store_unavailable'];
const one = { ...all, path: `${all.path}/:id` } as const;
const headers = { ETag: 'Strong entity tag of the endpoint, for If-Match and If-None-Match.' };
const usualGraceHours = 24;

export function webhookEndpointRoutes(endpoints: EndpointAdministration, cursors: CursorCodec): Route[] {
  return [
    createRoute(endpoints),
    listRoute(endpoints, cursors),
    readRoute(endpoints),
    changeRoute(endpoints),
    removeRoute(endpoints),
    rotateRoute(endpoints),
    testRoute(endpoints),
    ...deliveryRoutes(endpoints, cursors),
  ];
}

function createRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...all,
    method: 'POST',
    operationId: 'createWebhookEndpoint',
    writesSecrets: true,
    summary: 'Create a webhook endpoint',
    description:
      'From now on, events are sent to the URL. The endpoint belongs to the consumer that creates it. A consumer ' +
      'may have 20, each with a different URL. Only this response shows the secret. One created with an access token gets ' +
      "no more events than the token's scopes allow.",
    permission: { resource: 'webhooks', action: 'write' },
    request: {
      body: Type.Object(requested, { additionalProperties: false, title: 'NewWebhookEndpoint' }),
    },
    answers: {
      201: {
        description: 'The endpoint exists.',
        schema: createdEndpointSchema,
        headers: { Location: 'Where the endpoint can be read.' },
      },
    },
    problems: ['conflict', 'store_unavailable', 'secrets_unavailable'],
    async handle({ body, consumer }) {
      const { endpoint, secret } = await endpoints.create(consumer as Caller, body);
      const location = `${all.path}/${endpoint.id}`;
      return json(201, { ...viewOfEndpoint(endpoint), secret }, { location });
    },
  });
}

function listRoute(endpoints: EndpointAdministration, cursors: CursorCodec): Route {
  return defineRoute({
    ...all,
    method: 'GET',
    operationId: 'listWebhookEndpoints',
    summary: 'List webhook endpoints',
    description: "The calling consumer's endpoints, newest first.",
    permission: { resource: 'webhooks', action: 'read' },
    request: { query: Type.Object(pageParameters, { additionalProperties: false }) },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(endpointSchema, 'WebhookEndpointPage', 'A page of webhook endpoints.'),
      },
    },
    problems: ['invalid_cursor', 'store_unavailable'],
    async handle({ query: { limit = defaultLimit, cursor }, consumer }) {
      const { id: owner } = consumer as Consumer;
      const list = JSON.stringify(['webhook-endpoints', owner]);
      const after = cursor === undefined ? undefined : (cursors.decode(cursor, list) as EndpointPosition);
      const found = await endpoints.list(consumer as Consumer, after, limit + 1);
      return pageAnswer(found, limit, viewOfEndpoint, ({ created_at, id }) =>
        cursors.encode({ created_at, id }, list),
      );
    },
  });
}

function readRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getWebhookEndpoint',
    summary: 'Read a webhook endpoint',
    permission: { resource: 'webhooks', action: 'read' },
    conditional: 'If-None-Match',
    request: { params: idParams },
    answers: {
      200: { description: 'The endpoint.', schema: endpointSchema, headers },
      304: unchanged(headers),
    },
    problems,
    events: {
      resource: 'webhook_endpoint',
      examples: {
        'webhook_endpoint.disabled': {
          enabled: false,
          disabled_reason: 'failing',
          updated_at: '2027-03-02T16:05:12.000Z',
        },
      },
    },
    handle: async ({ params, consumer, headers: { 'if-none-match': known } }) =>
      unlessNotModified(known, endpointAnswer(await endpoints.find(consumer as Consumer, params.id))),
  });
}

function changeRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...one,
    method: 'PATCH',
    operationId: 'updateWebhookEndpoint',
    summary: 'Change a webhook endpoint',
    description:
      'Each field that you send replaces its old value. Disabling ends deliveries that are waiting as `failed`. ' +
      'After enabling, `recover` sends what was missed.',
    permission: { resource: 'webhooks', action: 'write' },
    conditional: 'If-Match',
    request: { params: idParams, body: changeBody },
    answers: { 200: { description: 'The changed endpoint.', schema: endpointSchema, headers } },
    problems: [...problems, 'conflict'],
    handle: async ({ params, body, consumer, headers: { 'if-match': expected } }) =>
      endpointAnswer(await endpoints.change(consumer as Caller, params.id, body, mustMatch(expected))),
  });
}

function removeRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...one,
    method: 'DELETE',
    operationId: 'deleteWebhookEndpoint',
    writesSecrets: true,
    summary: 'Delete a webhook endpoint',
    description: 'Nothing more is sent to it, and its deliveries are deleted too.',
    permission: { resource: 'webhooks', action: 'delete' },
    conditional: 'If-Match',
    request: { params: idParams },
    answers: { 204: { description: 'The endpoint is gone.' } },
    problems: [...problems, 'conflict', 'secrets_unavailable'],
    async handle({ params, consumer, headers: { 'if-match': expected } }) {
      await endpoints.remove(consumer as Consumer, params.id, mustMatch(expected));
      return { status: 204 };
    },
  });
}

function rotateRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/rotate-secret`,
    method: 'POST',
    operationId: 'rotateWebhookSecret',
    writesSecrets: true,
    summary: "Rotate a webhook endpoint's secret",
    description:
      'Creates a new secret; only this response shows it. Until `previous_expires_at`, each delivery is also signed with ' +
      'the old secrets.',
    permission: { resource: 'webhooks', action: 'write' },
    request: { params: idParams, body: rotationBody },
    bodyOptional: true,
    answers: { 200: { description: 'The new secret.', schema: rotationSchema } },
    problems: [...problems, 'conflict', 'secrets_unavailable'],
    handle: async ({ params, body: { grace_window_hours = usualGraceHours }, consumer }) =>
      json(200, await endpoints.rotateSecret(consumer as Consumer, params.id, grace_window_hours)),
  });
}

function testRoute(endpoints: EndpointAdministration): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/test`,
    method: 'POST',
    operationId: 'testWebhookEndpoint',
    summary: 'Send a test event',
    description:
      "Sends an event of the type `ping`, which isn't in the feed. Its delivery shows the outcome.",
    permission: { resource: 'webhooks', action: 'write' },
    request: { params: idParams, body: Type.Object({}, { additionalProperties: false }) },
    bodyOptional: true,
    answers: { 202: { description: 'The event is on its way.', schema: testSchema } },
    problems: [...problems, 'conflict'],
    handle: async ({ params, consumer }) =>
      json(202, { event_id: await endpoints.test(consumer as Consumer, params.id) }),
  });
}

function mustMatch(ifMatch: string | undefined): ((endpoint: Endpoint) => void) | undefined {
  if (!isConditional(ifMatch)) return undefined;
  return (endpoint) => requireMatch(ifMatch, endpointAnswer(endpoint).headers.etag);
}

function endpointAnswer(endpoint: Endpoint) {
  const body = JSON.stringify(viewOfEndpoint(endpoint));
  return { status: 200, body, headers: { etag: entityTag(body) } };
}
