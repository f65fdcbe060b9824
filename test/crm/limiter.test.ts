import assert from 'node:assert/strict';
import { it } from 'node:test';
import { startCall } from '../../src/base/call.ts';
import { createLimiter } from '../../src/crm/rest/limiter.ts';
import { hasCode } from './bench.ts';

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

it('turns away whoever comes to a full queue, and whoever has waited too long', async () => {
  const limiter = createLimiter(1);
  const { work, open } = gate();
  const first = limiter.run(startCall('test'), work);
  const late = limiter.run(startCall('test', undefined, 20), async () => 'never');
  const queue = Array.from({ length: 49 }, () => limiter.run(startCall('test'), async () => 'worked'));
  await assert.rejects(limiter.run(startCall('test'), work), hasCode('crm_unavailable', { retryAfter: 1 }));
  await assert.rejects(late, hasCode('crm_unavailable', { retryAfter: 1 }));
  open();
  await first;
  assert.deepEqual(
    await Promise.all(queue),
    Array.from({ length: 49 }, () => 'worked'),
  );
});
