import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { gather } from '../../src/idempotency/gather.ts';

const sharing = { atOnce: 1, most: 3, identity: (request: string) => request };
const never = () => false;

test('what comes in one turn goes together, and what comes meanwhile goes next', async () => {
  const goes: string[][] = [];
  const gate = Promise.withResolvers<void>();
  const send = gather(
    async (requests: string[]) => {
      goes.push(requests);
      await gate.promise;
      return requests.map((request) => request.toUpperCase());
    },
    never,
    sharing,
  );
  const first = ['a', 'b'].map(send);
  await nextTurn();
  const later = ['c', 'd', 'e', 'f'].map(send);
  await nextTurn();
  assert.deepEqual(goes, [['a', 'b']]);
  gate.resolve();
  assert.deepEqual(await Promise.all([...first, ...later]), ['A', 'B', 'C', 'D', 'E', 'F']);
  assert.deepEqual(goes, [['a', 'b'], ['c', 'd', 'e'], ['f']]);
});

test('two requests with one identity never go together', async () => {
  const goes: string[][] = [];
  const send = gather(async (requests: string[]) => (goes.push(requests), requests), never, sharing);
  await Promise.all(['a', 'b', 'b', 'c', 'b'].map(send));
  assert.deepEqual(goes, [['a', 'b', 'c'], ['b'], ['b']]);
});

test('a failure that is one request’s own leaves the others alone', async () => {
  const send = gather(
    async (requests: string[]) => {
      if (requests.includes('bad')) throw new Error('bad request');
      return requests;
    },
    never,
    sharing,
  );
  const results = await Promise.allSettled(['a', 'b', 'bad', 'c'].map(send));
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  );
});

test('a failure that is everybody’s is not met again by each', async () => {
  let goes = 0;
  const fail = async (): Promise<string[]> => {
    goes += 1;
    throw new Error('away');
  };
  const send = gather(fail, () => true, sharing);
  const results = await Promise.allSettled(['a', 'b', 'c', 'd'].map(send));
  assert.ok(results.every(({ status }) => status === 'rejected'));
  assert.equal(goes, 2);
});

test('whatever comes when, each request gets its own result, and no more go at once than may', async () => {
  const request = fc.record({ name: fc.constantFrom('a', 'b', 'c', 'bad'), turns: fc.nat(4) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(request, { maxLength: 30 }),
      fc.integer({ min: 1, max: 3 }),
      async (all, atOnce) => {
        let underWay = 0;
        const send = gather(
          async (names: string[]) => {
            underWay += 1;
            assert.ok(underWay <= atOnce && names.length <= 3 && new Set(names).size === names.length);
            await Promise.resolve();
            underWay -= 1;
            if (names.includes('bad')) throw new Error('bad');
            return names;
          },
          never,
          { ...sharing, atOnce },
        );
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
