import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { coalesce } from '../../../src/platform/base/concurrency.ts';

test('calls during a run make one more run, and none are at the same time', async () => {
  let runs = 0;
  let gate = Promise.withResolvers<void>();
  const run = coalesce(async () => {
    runs += 1;
    await gate.promise;
  });
  const calls = [run(), run(), run()];
  assert.equal(runs, 1);
  const first = gate;
  gate = Promise.withResolvers();
  first.resolve();
  await nextTurn();
  assert.equal(runs, 2);
  gate.resolve();
  await Promise.all(calls);
  assert.equal(runs, 2);
});

test('after a run that fails, the next call runs again', async () => {
  let fails = true;
  const run = coalesce(async () => {
    if (fails) throw new Error('failed');
  });
  await assert.rejects(run(), /failed/);
  fails = false;
  await run();
});

test('whenever a change comes, a run that begins after it has ended when its call is answered', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(6), { maxLength: 20 }), fc.nat(4), async (delays, turns) => {
      let changes = 0;
      let seen = 0;
      const run = coalesce(async () => {
        const read = changes;
        for (let turn = 0; turn < turns; turn++) await Promise.resolve();
        seen = read;
      });
      const calls = delays.map(async (delay) => {
        for (let turn = 0; turn < delay; turn++) await Promise.resolve();
        const change = ++changes;
        await run();
        assert.ok(seen >= change);
      });
      await Promise.all(calls);
    }),
  );
});
