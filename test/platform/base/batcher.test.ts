import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { createBatcher } from '../../../src/platform/base/batching.ts';

const never = () => false;
const batching = {
  inFlight: 1,
  batchSize: 3,
  identity: (request: string) => request,
  isShared: never,
  isHung: never,
};

test('what comes in one turn is one batch, and what comes meanwhile is in the next', async () => {
  const batches: string[][] = [];
  const gate = Promise.withResolvers<void>();
  const send = createBatcher({
    ...batching,
    execute: async (requests: string[]) => {
      batches.push(requests);
      await gate.promise;
      return requests.map((request) => request.toUpperCase());
    },
  });
  const first = ['a', 'b'].map(send);
  await nextTurn();
  const later = ['c', 'd', 'e', 'f'].map(send);
  await nextTurn();
  assert.deepEqual(batches, [['a', 'b']]);
  gate.resolve();
  assert.deepEqual(await Promise.all([...first, ...later]), ['A', 'B', 'C', 'D', 'E', 'F']);
  assert.deepEqual(batches, [['a', 'b'], ['c', 'd', 'e'], ['f']]);
});

test('two requests with one identity are never in one batch', async () => {
  const batches: string[][] = [];
  const send = createBatcher({
    ...batching,
    execute: async (requests: string[]) => (batches.push(requests), requests),
  });
  await Promise.all(['a', 'b', 'b', 'c', 'b'].map(send));
  assert.deepEqual(batches, [['a', 'b', 'c'], ['b'], ['b']]);
});

test('a failure that is one request’s own leaves the others alone', async () => {
  const send = createBatcher({
    ...batching,
    execute: async (requests: string[]) => {
      if (requests.includes('bad')) throw new Error('bad request');
      return requests;
    },
  });
  const results = await Promise.allSettled(['a', 'b', 'bad', 'c'].map(send));
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  );
});

test('a failure that is everybody’s is not met again by each', async () => {
  let batches = 0;
  const execute = async (): Promise<string[]> => {
    batches += 1;
    throw new Error('unavailable');
  };
  const send = createBatcher({ ...batching, execute, isShared: () => true });
  const results = await Promise.allSettled(['a', 'b', 'c', 'd'].map(send));
  assert.ok(results.every(({ status }) => status === 'rejected'));
  assert.equal(batches, 2);
});

test('whatever comes when, each request gets its own result, and no more batches are in flight than may be', async () => {
  const request = fc.record({ name: fc.constantFrom('a', 'b', 'c', 'bad'), turns: fc.nat(4) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(request, { maxLength: 30 }),
      fc.integer({ min: 1, max: 3 }),
      async (all, mostInFlight) => {
        let inFlight = 0;
        const send = createBatcher({
          ...batching,
          inFlight: mostInFlight,
          execute: async (names: string[]) => {
            inFlight += 1;
            assert.ok(inFlight <= mostInFlight && names.length <= 3 && new Set(names).size === names.length);
            await Promise.resolve();
            inFlight -= 1;
            if (names.includes('bad')) throw new Error('bad');
            return names;
          },
        });
        const results = all.map(async ({ name, turns }) => {
          for (let turn = 0; turn < turns; turn++) await nextTurn();
          return send(name).catch(() => 'bad');
        });
        assert.deepEqual(
          await Promise.all(results),
          all.map(({ name }) => name),
        );
      },
    ),
  );
});
