import { type TSchema, Type } from 'typebox';
import type { DocumentedWebhook } from '../../api/openapi/webhooks.ts';
import type { Route } from '../../api/route.ts';
import { type EventType, eventTypes } from '../events/event-log.ts';
import { eventSchema } from '../events/routes/events.ts';
import { exampleEvent } from './event-examples.ts';

/** The operation that shows what an event is about, as its data does. */
const shownBy: Readonly<Record<string, string>> = {
  quote: 'getQuote',
  booking: 'getBooking',
  member: 'getMember',
  handoff: 'getHandoff',
  reservation: 'getReservation',
  webhook_endpoint: 'getWebhookEndpoint',
};

/** What an event about a hand-off leaves out. */
const hiddenOfHandoff = ['id', 'request'];

/** The events that are sent to webhook endpoints. `routes`: where the schemas of their data are. */
export function documentedWebhooks(routes: readonly Route[]): Record<string, DocumentedWebhook> {
  const webhooks: Record<string, DocumentedWebhook> = {};
  for (const type of eventTypes) {
    const [resource = '', happened = ''] = type.split('.');
    const shown = routes.find(({ operationId }) => operationId === shownBy[resource])?.answers[200]?.schema;
    // A feature that is not there has no events.
    if (shown === undefined) continue;
    const schema = bodySchema(type, happened === 'deleted' ? onlyId(shown) : dataSchema(resource, shown));
    webhooks[type] = {
      tag: 'Webhook endpoints',
      summary: `${words(resource)}: ${words(happened).toLowerCase()}`,
      description:
        'Sent to the endpoints that ask for it, signed as Standard Webhooks says. It may come more than once, with the same `id`.',
      schema,
      example: exampleEvent(type, schema),
    };
  }
  return webhooks;
}

interface ObjectSchema {
  properties: Record<string, TSchema>;
}

function bodySchema(type: EventType, data: TSchema): TSchema {
  const { properties } = eventSchema;
  return Type.Object({
    ...properties,
    type: Type.Literal(type, { description: 'What has happened.', examples: [type] }),
    timestamp: Type.String({
      format: 'date-time',
      maxLength: 24,
      description: 'The same as `occurred_at`.',
      examples: ['2027-03-02T16:05:12.000Z'],
    }),
    resource: Type.Object({
      ...properties.resource.properties,
      type: Type.Literal(type.split('.')[0] ?? '', { examples: [type.split('.')[0]] }),
    }),
    data,
  });
}

function onlyId(shown: TSchema): TSchema {
  const { id } = (shown as unknown as ObjectSchema).properties;
  return Type.Object({ ...(id && { id }) }, { description: 'Only the id: the rest is gone.' });
}

function dataSchema(resource: string, shown: TSchema): TSchema {
  if (resource !== 'handoff') return shown;
  const { properties } = shown as unknown as ObjectSchema;
  return Type.Object(
    Object.fromEntries(Object.entries(properties).filter(([name]) => !hiddenOfHandoff.includes(name))),
  );
}

function words(name: string): string {
  const text = name.replaceAll('_', ' ');
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
