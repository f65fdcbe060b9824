import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createClock } from '../../../src/platform/base/chance.ts';

/** Two clocks of a machine, in milliseconds, and the clock that is made of them. */
function startMachine() {
  let monotonic = 5000;
  let wall = Date.UTC(2027, 0, 1);
  const now = createClock(
    () => monotonic,
    () => wall,
  );
  return {
    now,
    run: (ms: number) => {
      monotonic += ms;
      wall += ms;
    },
    suspend: (ms: number) => void (wall += ms),
    setWall: (byMs: number) => void (wall += byMs),
  };
}

test('goes as time does, through a suspension too', () => {
  const machine = startMachine();
  const started = machine.now();
  machine.run(1000);
  machine.suspend(40_000);
  assert.equal(machine.now() - started, 41_000);
  machine.run(10);
  assert.equal(machine.now() - started, 41_010);
});

test('notices a suspension after the wall clock was set back', () => {
  const machine = startMachine();
  const started = machine.now();
  machine.setWall(-3_600_000);
  assert.equal(machine.now(), started);
  machine.suspend(40_000);
  assert.equal(machine.now() - started, 40_000);
});

test('never goes back, is never slow by what can be noticed, and jitter does not hurry it', () => {
  const step = fc.record({
    kind: fc.constantFrom('run' as const, 'suspend' as const, 'setWall' as const, 'jitter' as const),
    ms: fc.nat(100_000),
  });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const machine = startMachine();
      const started = machine.now();
      let passed = 0;
      let before = started;
      for (const { kind, ms } of steps) {
        if (kind === 'run') machine.run(ms);
        else if (kind === 'suspend') machine.suspend(ms);
        else if (kind === 'setWall') machine.setWall(-ms);
        else machine.setWall(ms % 2 === 0 ? 1 : -1);
        if (kind === 'run' || kind === 'suspend') passed += ms;
        const now = machine.now();
        assert.ok(now >= before);
        before = now;
      }
      const late = passed - (before - started);
      const shortOnes = steps.length * 251;
      assert.ok(late <= shortOnes && late >= -shortOnes, `it is ${late} ms late`);
    }),
  );
});
