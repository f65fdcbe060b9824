import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { FairLimiter } from '../../../src/platform/base/concurrency.ts';

describe('tasks of several tenants', () => {
  it('run one after the other for each tenant, and for few tenants at once', async () => {
    const limiter = new FairLimiter(2);
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
    await setImmediate();
    assert.deepEqual(begun, ['a1', 'b1', 'c1']);
    ends[0]?.();
    await all[0];
    await setImmediate();
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
