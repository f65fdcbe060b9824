import { Type } from 'typebox';
import { viewOfConsumer } from '../../../consumers/consumer-view.ts';
import { defineRoute, json, type Route } from '../../route.ts';
import { type ConsumersContext, createdConsumerSchema, requested, tag } from './shared.ts';

/** Makes a consumer with its first pair; the only answer that shows that secret. */
export function createConsumerRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/consumers',
    operationId: 'createConsumer',
    tag,
    summary: 'Create a consumer',
    description: 'The answer shows the API secret this one time.',
    permission: { resource: 'consumers', action: 'write' },
    idempotencyKey: 'ignored',
    request: {
      body: Type.Object(
        { ...requested, certificateFingerprints: Type.Optional(requested.certificateFingerprints) },
        { additionalProperties: false },
      ),
    },
    answers: {
      201: {
        description: 'The consumer exists, and its pair is valid.',
        schema: createdConsumerSchema,
        headers: { Location: 'Where the consumer can be read.' },
      },
    },
    problems: ['secrets_unavailable'],
    async handle({ body }) {
      const { consumer, apiSecret } = await administration.create(body);
      const location = `/v1/admin/consumers/${consumer.id}`;
      return json(201, { ...viewOfConsumer(consumer), apiSecret }, { location });
    },
  });
}
