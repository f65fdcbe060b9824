import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { createTurns } from '../../../src/platform/base/turns.ts';

describe('work in turns', () => {
  it('is done one after the other for each tenant, and for few tenants at once', async () => {
    const turns = createTurns(2);
    const ends: (() => void)[] = [];
    const begun: string[] = [];
    const begin = (tenant: string, name: string) =>
      turns.run(tenant, async () => {
        begun.push(name);
        await new Promise<void>((resolve) => ends.push(resolve));
        return name;
      });
    const all = [begin('a', 'a1'), begin('a', 'a2'), begin('b', 'b1'), begin('c', 'c1')];
    assert.deepEqual(begun, ['a1', 'b1']);
    assert.equal(turns.waitingOf('a'), 1);
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
    assert.equal(turns.waitingOf('a'), 0);
  });

  it('goes on after a failure', async () => {
    const turns = createTurns(1);
    await assert.rejects(
      turns.run('a', () => Promise.reject(new Error('no'))),
      /no/,
    );
    assert.equal(await turns.run('a', async () => 1), 1);
  });
});
