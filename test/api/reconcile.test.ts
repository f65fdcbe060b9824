import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it } from 'node:test';
import { createReconcile } from '../../src/api/pipeline/run-route.ts';
import { json, type Route } from '../../src/api/route.ts';
import { makeConsumerId } from '../../src/identity/consumers/credentials.ts';

describe('the housekeeping of keys', () => {
  it('looks for what a test consumer made in its world, and for all else in the name of nobody', async () => {
    const asked: (string | undefined)[] = [];
    const route = {
      operationId: 'createQuote',
      reconcile: async (_id: string, { consumerId }: { consumerId?: string }) => {
        asked.push(consumerId);
        return json(201, {});
      },
    } as unknown as Route;
    const reconcile = createReconcile([route]);
    const test = makeConsumerId('test');
    for (const consumerId of [test, makeConsumerId()])
      assert.equal((await reconcile('createQuote', randomUUID(), consumerId, []))?.status, 201);
    assert.deepEqual(asked, [test, undefined]);
  });
});
