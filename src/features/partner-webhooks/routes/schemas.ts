import { type TSchema, Type } from 'typebox';
import { deliveryStatuses, disabledReasons } from '../endpoint.ts';

const exampleEndpointId = 'whe_0d9f3a86c1e24b7f8a5b6c7d8e9f0a1b';
const exampleDeliveryId = 'dlv_5b1c7e20f4a94d3c9e8f7a6b5c4d3e2f';
const exampleEventId = 'evt_7c2e91d04b5f4a6d8e3f1a2b3c4d5e6f';
const exampleSecret = 'whsec_RVhBTVBMRS1FWEFNUExFLUVYQU1QTEUtRVhBTVBMRS0=';
const exampleTime = '2027-03-01T08:00:00.000Z';
const maxIdLength = 64;
const maxFilters = 50;
const maxHours = 8760;

const orNull = (schema: TSchema, description: string) => Type.Union([schema, Type.Null()], { description });
const moment = (description?: string) =>
  Type.String({
    format: 'date-time',
    maxLength: 40,
    ...(description && { description }),
    examples: [exampleTime],
  });
const identifier = (description: string, example: string) =>
  Type.String({ minLength: 1, maxLength: maxIdLength, format: 'visible', description, examples: [example] });
const endpointId = identifier('Id of the webhook endpoint.', exampleEndpointId);
const deliveryId = identifier('Id of the delivery.', exampleDeliveryId);
export const eventId = identifier('Id of the event, and `webhook-id` of its deliveries.', exampleEventId);

export const idParams = Type.Object({ id: endpointId }, { additionalProperties: false });
export const deliveryParams = Type.Object({ id: endpointId, deliveryId }, { additionalProperties: false });

const url = Type.String({
  minLength: 1,
  maxLength: 2048,
  format: 'visible',
  description:
    'Where events are sent: https, port 443, 80 or 1024 and up, no user name, a host with public addresses only.',
  examples: ['https://partner.example/hooks/handoff'],
});
const filter = Type.String({ minLength: 1, maxLength: 100, format: 'visible', examples: ['quote.*'] });
const eventTypes = Type.Array(filter, {
  maxItems: maxFilters,
  description:
    'Event types to send, optionally ending in `.*`. Empty: all that the consumer may read when they are sent.',
  examples: [['quote.*', 'booking.updated']],
});
const description = Type.Union([Type.String({ maxLength: 255, format: 'visible' }), Type.Null()], {
  description: 'For people.',
  examples: ['Production'],
});

export const requested = {
  url,
  event_types: Type.Optional(eventTypes),
  description: Type.Optional(description),
};

export const changeBody = Type.Object(
  {
    ...requested,
    url: Type.Optional(url),
    enabled: Type.Optional(
      Type.Boolean({
        description:
          'False: nothing more is sent, and waiting deliveries fail. True: events from then on are sent.',
        examples: [true],
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1, title: 'WebhookEndpointChange' },
);

const properties = {
  id: endpointId,
  url,
  event_types: eventTypes,
  scopes: Type.Union([Type.Array(Type.String({ maxLength: 40 }), { maxItems: 100 }), Type.Null()], {
    description:
      "Scopes of the access token that created it or changed its URL: it gets only events that these and the consumer's " +
      'permissions allow. Null: all that the consumer may read.',
    examples: [null],
  }),
  description,
  enabled: Type.Boolean({ description: 'Whether events are sent to it.', examples: [true] }),
  disabled_reason: Type.Union([Type.Enum(disabledReasons), Type.Null()], {
    description:
      '`requested`: by a PATCH; `gone`: it answered 410; `failing`: nothing but failures for five days. Null: it is enabled.',
    examples: [null],
  }),
  created_at: moment(),
  updated_at: moment(),
  last_success_at: orNull(moment(), 'When an attempt last succeeded.'),
  last_failure_at: orNull(moment(), 'When an attempt last failed.'),
};

export const endpointSchema = Type.Object(properties, {
  title: 'WebhookEndpoint',
  description: 'Where a consumer wants its events sent. Nothing here is secret.',
});

const secret = Type.String({
  maxLength: 100,
  description: 'Deliveries are signed with it, as Standard Webhooks says. Only this response shows it.',
  examples: [exampleSecret],
});

export const createdEndpointSchema = Type.Object(
  { ...properties, secret },
  { title: 'CreatedWebhookEndpoint', description: 'A webhook endpoint with its secret.' },
);

export const rotationBody = Type.Object(
  {
    grace_window_hours: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: maxHours,
        default: 24,
        description:
          'How long deliveries are also signed with the old secrets, fractions allowed; 0 ends them at once.',
        examples: [24],
      }),
    ),
  },
  { additionalProperties: false, title: 'WebhookSecretRotationRequest' },
);

export const rotationSchema = Type.Object(
  { secret, previous_expires_at: moment('Until then deliveries are also signed with the old secrets.') },
  { title: 'WebhookSecretRotation', description: 'The new secret.' },
);

export const testSchema = Type.Object({ event_id: eventId }, { title: 'WebhookTest' });

export const statusFilter = Type.Enum(deliveryStatuses, {
  description:
    "`pending`: it will be sent, or sent again. `delivered` and `failed` aren't resent automatically.",
  examples: ['failed'],
});

const attempt = Type.Object({
  at: moment('When it began.'),
  status: orNull(
    Type.Integer({ minimum: 100, maximum: 999, examples: [503] }),
    'HTTP status; null: there was no response.',
  ),
  duration_ms: Type.Integer({
    minimum: 0,
    maximum: 2_147_483_647,
    description: 'How long it took.',
    examples: [87],
  }),
  error: orNull(
    Type.String({ maxLength: 40, examples: ['http_503'] }),
    'Class of the failure: `http_` and the status, `dns`, `blocked_address`, `tls`, `timeout`, `connection`, `no_secret`, or ' +
      '`not_permitted` if the consumer may no longer read the event. Null: delivered.',
  ),
});

export const deliverySchema = Type.Object(
  {
    id: deliveryId,
    event_id: eventId,
    event_type: Type.String({
      maxLength: 100,
      description: 'Type of the event.',
      examples: ['quote.updated'],
    }),
    status: statusFilter,
    attempts: Type.Array(attempt, { maxItems: 50, description: 'The last 50, oldest first.' }),
    next_attempt_at: orNull(moment(), "When it is sent next; null if it isn't."),
    body: Type.Optional(
      orNull(
        // 256 KiB of data, and what stands around it.
        Type.String({ maxLength: 300_000 }),
        'The body, as text; only if the request has `event_id`. Null if the event is no longer kept, or the consumer may no ' +
          'longer read it.',
      ),
    ),
  },
  { title: 'WebhookDelivery', description: 'An event on its way to an endpoint.' },
);

export const recoveryBody = Type.Object(
  { since: moment('Events that were recorded earlier are left out.') },
  { additionalProperties: false, title: 'WebhookRecoveryRequest' },
);

export const recoverySchema = Type.Object(
  {
    deliveries: Type.Integer({
      minimum: 0,
      maximum: 2_147_483_647,
      description: 'How many events are being resent.',
      examples: [12],
    }),
  },
  { title: 'WebhookRecovery' },
);
