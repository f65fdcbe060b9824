import type { TSchema } from 'typebox';
import { parameterRef } from './headers.ts';
import type { JsonObject, SchemaWriter } from './schemas.ts';

export interface DocumentedWebhook {
  tag: string;
  summary: string;
  description: string;
  schema: TSchema;
  example: object;
}

const again = "It's resent at growing intervals.";

const responses = {
  '2XX': { description: 'It was accepted.' },
  '400': { description: again },
  '410': { description: 'The endpoint is gone; nothing more is sent to it.' },
  '429': { description: again },
  '500': { description: again },
};

export function webhookItems(
  webhooks: Readonly<Record<string, DocumentedWebhook>>,
  schemas: SchemaWriter,
): JsonObject {
  const items = Object.entries(webhooks).map(([name, { tag, summary, description, schema, example }]) => [
    name,
    {
      post: {
        operationId: `on${name.replaceAll(/(?:^|[._])([a-z])/g, (_, letter: string) => letter.toUpperCase())}`,
        tags: [tag],
        summary,
        description,
        security: [{ webhookSignature: [] }],
        parameters: [parameterRef('webhook-id'), parameterRef('webhook-timestamp')],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: schemas.answer(schema), example } },
        },
        responses,
      },
    },
  ]);
  return Object.fromEntries(items) as JsonObject;
}
