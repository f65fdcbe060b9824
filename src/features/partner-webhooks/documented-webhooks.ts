import { type TSchema, Type } from 'typebox';
import { exampleOf } from '../../api/openapi/schemas.ts';
import type { DocumentedWebhook } from '../../api/openapi/webhooks.ts';
import type { Route } from '../../api/route.ts';
import { type EventType, eventTypes } from '../events/event-log.ts';
import { eventSchema } from '../events/routes/events.ts';
import { pingType } from './endpoint.ts';

export function documentedWebhooks(routes: readonly Route[]): Record<string, DocumentedWebhook> {
  const webhooks: Record<string, DocumentedWebhook> = {};
  for (const type of eventTypes) {
    const route = routes.find(({ events }) => events?.resource === type.split('.')[0]);
    // A feature that is not there has no events.
    if (route !== undefined) webhooks[type] = webhookOf(type, route);
  }
  const endpoints = routes.find(({ events }) => events?.resource === endpointType);
  if (endpoints !== undefined) webhooks[pingType] = pingOf(endpoints);
  return webhooks;
}

const endpointType = 'webhook_endpoint';
const tag = 'Webhook endpoints';
const sent = 'signed as Standard Webhooks says. It may arrive more than once, with the same `id`.';

function webhookOf(type: EventType, route: Route): DocumentedWebhook {
  const [resource = '', happened = ''] = type.split('.');
  const data = dataOf(route);
  const schema = bodySchema(
    { type, resource },
    happened === 'deleted' ? onlyId(data, 'Only the id; the rest is gone.') : data,
  );
  return {
    tag,
    summary: `${words(resource)}: ${words(happened).toLowerCase()}`,
    description: `Sent to endpoints that ask for it, ${sent}`,
    schema,
    example: exampleEvent(schema, route.events?.examples?.[type]),
  };
}

function pingOf(route: Route): DocumentedWebhook {
  const data = onlyId(dataOf(route), 'The endpoint.');
  const schema = bodySchema({ type: pingType, resource: endpointType }, data);
  return {
    tag,
    summary: 'Ping',
    description: `Sent to an endpoint when its consumer asks for a test event, ${sent} It isn't in the feed.`,
    schema,
    example: exampleEvent(schema),
  };
}

function dataOf({ events, answers }: Route): TSchema {
  return (events?.data ?? answers[200]?.schema) as TSchema;
}

function bodySchema({ type, resource }: { type: string; resource: string }, data: TSchema): TSchema {
  // Only the feed has it.
  const { member: _member, record: _record, ...properties } = eventSchema.properties;
  return Type.Object({
    ...properties,
    type: Type.Literal(type, { description: 'Type of the event.', examples: [type] }),
    timestamp: Type.String({
      format: 'date-time',
      maxLength: 24,
      description: 'Equal to `occurred_at`.',
      examples: ['2027-03-02T16:05:12.000Z'],
    }),
    resource: Type.Object({
      ...properties.resource.properties,
      type: Type.Literal(resource, { examples: [resource] }),
    }),
    data,
  });
}

function onlyId(data: TSchema, description: string): TSchema {
  const { id } = (data as unknown as { properties: Record<string, TSchema> }).properties;
  return Type.Object({ ...(id && { id }) }, { description });
}

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
