import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type BatchCall, Limiter } from '../../src/crm/rest/limiter.ts';
import { type Call, startCall } from '../../src/platform/base/call.ts';

/** Does the work while it holds a slot. */
async function run<T>(limiter: Limiter, call: Call | BatchCall, work: () => Promise<T>): Promise<T> {
  const release = await limiter.acquire(call);
  return work().finally(release);
}

/** Work that ends when the test says so. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { work: () => promise, open: resolve };
}

it('lets so many work at a time, first come first served', async () => {
  const limiter = new Limiter(2);
  const gates = Array.from({ length: 5 }, gate);
  const begun: number[] = [];
  const done = gates.map(({ work }, index) =>
    run(limiter, startCall('test'), async () => {
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
  const limiter = new Limiter(1);
  await assert.rejects(
    run(limiter, startCall('test'), () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  assert.equal(await run(limiter, startCall('test'), async () => 'worked'), 'worked');
});

it('alternates between tenants, so that a flood of one does not hold up another', async () => {
  const limiter = new Limiter(1);
  const { work, open } = gate();
  const begun: string[] = [];
  const runFor = (consumer: string) =>
    run(limiter, startCall('test', consumer), async () => void begun.push(consumer));
  const first = run(limiter, startCall('test'), work);
  const done = [...Array.from({ length: 5 }, () => runFor('flood')), runFor('one'), runFor('two')];
  const shared = run(
    limiter,
    { ...startCall('batch'), batcher: 'finds' },
    async () => void begun.push('batch'),
  );
  open();
  await Promise.all([first, shared, ...done]);
  assert.deepEqual(begun, ['flood', 'one', 'two', 'batch', 'flood', 'flood', 'flood', 'flood']);
});

it('refuses a call that has waited too long, and no other', async () => {
  const limiter = new Limiter(1);
  const { work, open } = gate();
  const first = run(limiter, startCall('test'), work);
  const late = run(limiter, startCall('test', undefined, 20), async () => 'never');
  const waiting = run(limiter, startCall('test'), async () => 'worked');
  await assert.rejects(late, { kind: 'queue_full' });
  open();
  await first;
  assert.equal(await waiting, 'worked');
});
