import { type TSchema, Type } from 'typebox';
import { exampleOf } from '../../api/openapi/schemas.ts';
import type { DocumentedWebhook } from '../../api/openapi/webhooks.ts';
import type { Route } from '../../api/route.ts';
import { type EventType, eventTypes } from '../events/event-log.ts';
import { eventSchema } from '../events/routes/events.ts';

/** The events that are sent to webhook endpoints. `routes`: they say what events have as their data. */
export function documentedWebhooks(routes: readonly Route[]): Record<string, DocumentedWebhook> {
  const webhooks: Record<string, DocumentedWebhook> = {};
  for (const type of eventTypes) {
    const route = routes.find(({ events }) => events?.resource === type.split('.')[0]);
    // A feature that is not there has no events.
    if (route !== undefined) webhooks[type] = webhookOf(type, route);
  }
  return webhooks;
}

function webhookOf(type: EventType, { events, answers }: Route): DocumentedWebhook {
  const [resource = '', happened = ''] = type.split('.');
  const data = (events?.data ?? answers[200]?.schema) as TSchema;
  const schema = bodySchema(type, happened === 'deleted' ? onlyId(data) : data);
  return {
    tag: 'Webhook endpoints',
    summary: `${words(resource)}: ${words(happened).toLowerCase()}`,
    description:
      'Sent to the endpoints that ask for it, signed as Standard Webhooks says. It may come more than once, with the same `id`.',
    schema,
    example: exampleEvent(schema, events?.examples?.[type]),
  };
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

function onlyId(data: TSchema): TSchema {
  const { id } = (data as unknown as { properties: Record<string, TSchema> }).properties;
  return Type.Object({ ...(id && { id }) }, { description: 'Only the id: the rest is gone.' });
}

/** An event to a live consumer, as it is sent. `schema`: of the whole body; `said`: what it says of its data. */
function exampleEvent(schema: TSchema, said: object = {}): object {
  const { mode: _mode, data_omitted: _omitted, ...event } = exampleOf(schema) as Record<string, unknown>;
  const data = { ...(event['data'] as object), ...said };
  const resource = event['resource'] as { type: string; id: string };
  const { id = resource.id } = data as { id?: string };
  // Without what is undefined.
  return JSON.parse(JSON.stringify({ ...event, resource: { ...resource, id }, data })) as object;
}

function words(name: string): string {
  const text = name.replaceAll('_', ' ');
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
