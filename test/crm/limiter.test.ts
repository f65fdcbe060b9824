import assert from 'node:assert/strict';
import { it } from 'node:test';
import { startCall } from '../../src/base/call.ts';
import { createLimiter } from '../../src/crm/rest/limiter.ts';

/** Work that ends when the test says so. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { work: () => promise, open: resolve };
}

it('lets so many work at a time, first come first served', async () => {
  const limiter = createLimiter(2);
  const gates = Array.from({ length: 5 }, gate);
  const begun: number[] = [];
  const done = gates.map(({ work }, index) =>
    limiter.run(startCall('test'), async () => {
      begun.push(index);
      await work();
    }),
  );
  await new Promise(setImmediate);
  assert.deepEqual(begun, [0, 1]);
  for (const { open } of gates) {
    open();
    await new Promise(setImmediate);
  }
  await Promise.all(done);
  assert.deepEqual(begun, [0, 1, 2, 3, 4]);
});

it('gives a slot back when the work fails', async () => {
  const limiter = createLimiter(1);
  await assert.rejects(
    limiter.run(startCall('test'), () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  assert.equal(await limiter.run(startCall('test'), async () => 'worked'), 'worked');
});

it('lets parties take turns, so that a flood of one does not hold up another', async () => {
  const limiter = createLimiter(1);
  const { work, open } = gate();
  const begun: string[] = [];
  const run = (consumer: string) =>
    limiter.run(startCall('test', consumer), async () => void begun.push(consumer));
  const first = limiter.run(startCall('test'), work);
  const done = [...Array.from({ length: 5 }, () => run('flood')), run('one'), run('two')];
  const shared = limiter.run({ ...startCall('batch'), turn: 'finds' }, async () => void begun.push('batch'));
  open();
  await Promise.all([first, shared, ...done]);
  assert.deepEqual(begun, ['flood', 'one', 'two', 'batch', 'flood', 'flood', 'flood', 'flood']);
});

it('turns away whoever has waited too long, and nobody else', async () => {
  const limiter = createLimiter(1);
  const { work, open } = gate();
  const first = limiter.run(startCall('test'), work);
  const late = limiter.run(startCall('test', undefined, 20), async () => 'never');
  const patient = limiter.run(startCall('test'), async () => 'worked');
  await assert.rejects(late, { kind: 'crowded' });
  open();
  await first;
  assert.equal(await patient, 'worked');
});
