import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { WriteBehind } from '../../../src/platform/base/batching.ts';

/** Writes wait for their gate; `batches` has what each call was given. */
function slowStore({ batchSize = 2, most }: { batchSize?: number; most?: number } = {}) {
  const batches: string[][] = [];
  const gates: PromiseWithResolvers<void>[] = [];
  const write = (items: string[]) => {
    batches.push(items);
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    return gate.promise;
  };
  return {
    batches,
    behind: new WriteBehind<string>({ write, batchSize, ...(most !== undefined && { most }) }),
    answer: async (error?: Error) => {
      const gate = gates.shift();
      assert.ok(gate, 'nothing is being written');
      if (error === undefined) gate.resolve();
      else gate.reject(error);
      await nextTurn();
    },
  };
}

test('a flush ends although each write finds that the key was added again', async () => {
  let writes = 0;
  const behind = new WriteBehind<number>({
    write: async () => {
      writes += 1;
      if (writes > 10) throw new Error('the flush goes on for ever');
      behind.add('a', writes);
    },
    batchSize: 500,
  });
  behind.add('a', 0);
  await behind.flush();
  assert.equal(writes, 1);
  assert.equal(behind.size, 1);
});

test('a run writes in batches what was there when it began, and the next run what came meanwhile', async () => {
  const { behind, batches, answer } = slowStore();
  behind.add('a', 'a1');
  const first = behind.flush();
  for (const key of ['b', 'a']) behind.add(key, `${key}2`);
  const second = behind.flush();
  await answer();
  await first;
  assert.deepEqual(batches, [['a1'], ['a2', 'b2']]);
  for (const key of ['c', 'b', 'd']) behind.add(key, `${key}3`);
  const third = behind.flush();
  await answer();
  await second;
  await answer();
  assert.deepEqual(batches.slice(2), [['b3', 'c3'], ['d3']]);
  await answer();
  await third;
  assert.equal(behind.size, 0);
});

test('a full batch that comes during a run is written right after it', async () => {
  const { behind, batches, answer } = slowStore();
  for (const key of ['a', 'b']) behind.add(key, key);
  assert.deepEqual(batches, [['a', 'b']]);
  for (const key of ['c', 'd']) behind.add(key, key);
  await answer();
  assert.deepEqual(batches, [
    ['a', 'b'],
    ['c', 'd'],
  ]);
  await answer();
  behind.add('e', 'e');
  assert.equal(batches.length, 2);
});

test('a flush during a write that fails writes again what that had, in its newest state', async () => {
  const { behind, batches, answer } = slowStore();
  behind.add('a', 'a1');
  const failing = behind.flush();
  const expected = assert.rejects(failing, /gone/);
  behind.add('b', 'b1');
  const flush = behind.flush();
  behind.add('a', 'a2');
  await answer(new Error('gone'));
  await expected;
  assert.deepEqual(batches, [['a1'], ['a2', 'b1']]);
  await answer();
  await flush;
});

test('beyond the bound the oldest are dropped, and a run ends where what it had is among them', async () => {
  const { behind, batches, answer } = slowStore({ batchSize: 2, most: 2 });
  behind.add('a', 'a');
  const flush = behind.flush();
  for (const key of ['b', 'c', 'd', 'e']) behind.add(key, key);
  assert.equal(behind.size, 2);
  await answer();
  await flush;
  assert.deepEqual(batches.slice(1), [['d', 'e']]);
  await answer();
  assert.equal(batches.length, 2);
});

test('stopping writes what is added meanwhile, too', async () => {
  const { behind, batches, answer } = slowStore();
  behind.add('a', 'a1');
  const running = behind.flush();
  behind.add('b', 'b1');
  const stopping = behind.stop();
  await answer();
  await running;
  behind.add('a', 'a2');
  await answer();
  assert.deepEqual(batches, [['a1'], ['b1'], ['a2']]);
  await answer();
  await stopping;
});

test('stopping throws what the database does, once', async () => {
  const { behind, batches, answer } = slowStore();
  behind.add('a', 'a');
  const expected = assert.rejects(behind.stop(), /gone/);
  await answer(new Error('gone'));
  await expected;
  assert.equal(batches.length, 1);
  assert.equal(behind.size, 1);
});

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('add' as const), key: fc.nat(7) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('flush' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('turn' as const), fails: fc.boolean() }) },
);

test('whatever comes and fails, a flush that resolves has written what came before it, and stopping writes all', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.integer({ min: 1, max: 4 }),
      async (steps, size) => {
        const stored = new Map<number, number>();
        const added = new Map<number, number>();
        let fails = false;
        const behind = new WriteBehind<{ key: number; version: number }>({
          batchSize: size,
          write: async (items) => {
            assert.ok(items.length > 0 && items.length <= size);
            await nextTurn();
            if (fails) throw new Error('gone');
            for (const { key, version } of items) {
              assert.ok(version >= (stored.get(key) ?? 0), 'an older state came after a newer one');
              stored.set(key, version);
            }
          },
        });
        const missing = (wanted: ReadonlyMap<number, number>) =>
          [...wanted].filter(([key, version]) => (stored.get(key) ?? 0) < version);
        const flushes: Promise<void>[] = [];
        for (const [version, one] of steps.entries()) {
          if (one.kind === 'turn') {
            ({ fails } = one);
            await nextTurn();
          } else if (one.kind === 'add') {
            added.set(one.key, version);
            behind.add(`${one.key}`, { key: one.key, version });
          } else {
            const before = new Map(added);
            const written = () => assert.deepEqual(missing(before), []);
            flushes.push(behind.flush().then(written, (error) => assert.equal(error.message, 'gone')));
          }
        }
        await Promise.all(flushes);
        fails = false;
        await behind.stop();
        assert.deepEqual(missing(added), []);
      },
    ),
  );
});
