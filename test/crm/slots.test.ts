import assert from 'node:assert/strict';
import { it } from 'node:test';
import { queueFull } from '../../src/crm/rest/failure.ts';
import { Slots } from '../../src/crm/rest/slots.ts';

/** Does the work while it holds a slot. */
async function run<T>(slots: Slots, tenant: string, work: () => Promise<T>, mostMs = 25_000): Promise<T> {
  const release = await slots.take(tenant, mostMs, queueFull);
  return work().finally(release);
}

/** Work that ends when the test says so. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { work: () => promise, open: resolve };
}

it('lets so many work at a time, first come first served', async () => {
  const slots = new Slots(2);
  const gates = Array.from({ length: 5 }, gate);
  const begun: number[] = [];
  const done = gates.map(({ work }, index) =>
    run(slots, '', async () => {
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
  const slots = new Slots(1);
  await assert.rejects(
    run(slots, '', () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  assert.equal(await run(slots, '', async () => 'worked'), 'worked');
});

it('alternates between tenants, so that a flood of one does not hold up another', async () => {
  const slots = new Slots(1);
  const { work, open } = gate();
  const begun: string[] = [];
  const runFor = (consumer: string) => run(slots, consumer, async () => void begun.push(consumer));
  const first = run(slots, '', work);
  const done = [...Array.from({ length: 5 }, () => runFor('flood')), runFor('one'), runFor('two')];
  const shared = run(slots, 'finds', async () => void begun.push('batch'));
  open();
  await Promise.all([first, shared, ...done]);
  assert.deepEqual(begun, ['flood', 'one', 'two', 'batch', 'flood', 'flood', 'flood', 'flood']);
});

it('refuses a call that has waited too long, and no other', async () => {
  const slots = new Slots(1);
  const { work, open } = gate();
  const first = run(slots, '', work);
  const late = run(slots, '', async () => 'never', 20);
  const waiting = run(slots, '', async () => 'worked');
  await assert.rejects(late, { kind: 'queue_full' });
  open();
  await first;
  assert.equal(await waiting, 'worked');
});

it('has so many slots for any one tenant; those that are given back alternate between tenants', async () => {
  const pages = new Slots(16, 4);
  const came: string[] = [];
  const enter = async (name: string) => {
    const leave = await pages.take(name.slice(0, 1), 25_000, queueFull);
    came.push(name);
    return leave;
  };
  const inside = await Promise.all(
    ['a', 'b', 'c', 'd'].flatMap((consumer) => [1, 2, 3, 4].map((n) => enter(`${consumer}${n}`))),
  );
  assert.equal(pages.tryTake('e'), undefined);
  came.length = 0;
  const waiting = ['a5', 'a6', 'a7', 'e1', 'e2', 'f1'].map(enter);
  // A slot that another consumer gives back is none for one that has four; it gets a later one.
  for (const leave of inside.slice(4, 7)) leave();
  await Promise.all([waiting[3], waiting[5], waiting[4]]);
  assert.deepEqual(came, ['e1', 'f1', 'e2']);
  // Twice is once.
  inside[0]?.();
  inside[0]?.();
  await waiting[0];
  assert.equal(pages.tryTake('f'), undefined);
  for (const leave of inside.slice(1)) leave();
  await Promise.all(waiting);
  assert.deepEqual(came, ['e1', 'f1', 'e2', 'a5', 'a6', 'a7']);
});
