import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { FairLimiter } from '../../../src/platform/base/concurrency.ts';

describe('tasks of several tenants', () => {
  it('run one after the other for each tenant, and for few tenants at once', async () => {
    const limiter = new FairLimiter(2, 1);
    const ends: (() => void)[] = [];
    const begun: string[] = [];
    const begin = (tenant: string, name: string) =>
      limiter.run(tenant, async () => {
        begun.push(name);
        await new Promise<void>((resolve) => ends.push(resolve));
        return name;
      });
    const all = [begin('a', 'a1'), begin('a', 'a2'), begin('b', 'b1'), begin('c', 'c1')];
    assert.deepEqual(begun, ['a1', 'b1']);
    assert.equal(limiter.waitingOf('a'), 1);
    ends[1]?.();
    await all[2];
    await nextTurn();
    assert.deepEqual(begun, ['a1', 'b1', 'c1']);
    ends[0]?.();
    await all[0];
    await nextTurn();
    assert.deepEqual(begun, ['a1', 'b1', 'c1', 'a2']);
    for (const end of ends) end();
    assert.deepEqual(await Promise.all(all), ['a1', 'a2', 'b1', 'c1']);
    assert.equal(limiter.waitingOf('a'), 0);
  });

  it('go on after a failure', async () => {
    const limiter = new FairLimiter(1);
    await assert.rejects(
      limiter.run('a', () => Promise.reject(new Error('no'))),
      /no/,
    );
    assert.equal(await limiter.run('a', async () => 1), 1);
  });
});

const refusal = () => new Error('too many wait');

/** Does the work while it holds a slot. */
async function run<T>(
  slots: FairLimiter,
  tenant: string,
  work: () => Promise<T>,
  mostMs = 25_000,
): Promise<T> {
  const release = await slots.take(tenant, { ms: mostMs, refusal });
  return work().finally(release);
}

/** Work that ends when the test says so. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { work: () => promise, open: resolve };
}

it('lets so many work at a time, first come first served', async () => {
  const slots = new FairLimiter(2);
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
  const slots = new FairLimiter(1);
  await assert.rejects(
    run(slots, '', () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  assert.equal(await run(slots, '', async () => 'worked'), 'worked');
});

it('alternates between tenants, so that a flood of one does not hold up another', async () => {
  const slots = new FairLimiter(1);
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
  const slots = new FairLimiter(1);
  const { work, open } = gate();
  const first = run(slots, '', work);
  const late = run(slots, '', async () => 'never', 20);
  const waiting = run(slots, '', async () => 'worked');
  await assert.rejects(late, /too many wait/);
  open();
  await first;
  assert.equal(await waiting, 'worked');
});

it('has so many slots for any one tenant; those that are given back alternate between tenants', async () => {
  const pages = new FairLimiter(16, 4);
  const came: string[] = [];
  const enter = async (name: string) => {
    const leave = await pages.take(name.slice(0, 1), { ms: 25_000, refusal });
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
