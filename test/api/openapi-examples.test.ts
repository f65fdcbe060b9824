import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { generatedOpenApi } from '../../scripts/generate-openapi.ts';
import { useGateway } from '../support/gateway.ts';

type Json = Record<string, unknown>;

interface Operation {
  requestBody?: { content: Record<string, { example: unknown }> };
  responses: Record<string, { content: Record<string, { example: Json }> }>;
}

const { paths } = JSON.parse(generatedOpenApi()) as { paths: Record<string, Record<string, Operation>> };

/** The examples of an operation: of its request and of its answer. */
function examplesOf(path: string, method: string, status: number) {
  const { requestBody, responses } = paths[path]?.[method] ?? { responses: {} };
  const answer = responses[status]?.content['application/json']?.example;
  assert.ok(answer, `${method} ${path} ${status}`);
  return { body: requestBody?.content['application/json']?.example as object | undefined, answer };
}

/** Members whose values are new each time. */
const isNew = /^(id|external_id|booking_id|consumer_id|consumer_name)$/;

/** A value without what is new each time, and times. */
function comparable(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => comparable(one));
  const isTime = name.endsWith('_at');
  if (typeof value !== 'object' || value === null) return isNew.test(name) || isTime ? typeof value : value;
  const entries = Object.entries(value).map(([key, part]) => [key, comparable(part, key)]);
  return Object.fromEntries(entries);
}

describe('the examples of the document are what the service answers', () => {
  const gateway = useGateway();

  const send = async (
    path: string,
    { method = 'GET', body }: { method?: string; body?: object | undefined } = {},
  ) => {
    const headers = { 'idempotency-key': randomUUID(), 'x-actor': 'marta.ruiz@example.com' };
    const response = await gateway.request(path, { method, headers, ...(body && { body }) });
    return { status: response.status, answer: (await response.json()) as Json };
  };
  const check = async (path: string, method: string, status: number, id = '') => {
    const { body, answer } = examplesOf(path, method, status);
    const real = await send(path.replace(/\{\w+\}/, id), { method: method.toUpperCase(), body });
    assert.equal(real.status, status, JSON.stringify(real.answer));
    assert.deepEqual(comparable(real.answer), comparable(answer), `${method} ${path}`);
    return { ...real.answer, example: answer } as Json & { id: string; external_id: string; example: Json };
  };

  for (const collection of ['quotes', 'bookings'])
    test(`for ${collection} that are made, read and changed`, async () => {
      const { id } = await check(`/v1/${collection}`, 'post', 201);
      await check(`/v1/${collection}/{id}`, 'get', 200, id);
      const { example } = await check(`/v1/${collection}/{id}`, 'patch', 200, id);
      assert.ok(String(example['updated_at']) > String(example['created_at']));
    });

  test('for a reservation', async () => {
    const { id, example } = await check('/v1/reservations', 'post', 201);
    assert.deepEqual((example['booking'] as Json)['id'], example['id']);
    await check('/v1/reservations/{id}', 'get', 200, id);
    const { answer } = await send('/v1/reservations?limit=1');
    const page = examplesOf('/v1/reservations', 'get', 200).answer;
    assert.deepEqual(comparable(answer['data']), comparable(page['data']));
  });

  test('for a hand-off', async () => {
    await check('/api/v1/handoff', 'post', 201);
  });

  test('with the type of each price as the pages have it', () => {
    const texts = JSON.stringify(paths).match(/"net":("[^"]*")/g);
    assert.equal(texts, null);
  });
});
