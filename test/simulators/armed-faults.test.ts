import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createArmedFaults } from '../../simulators/shared/armed-faults.ts';

test('a call that was struck before its fault was removed is not held any more', async () => {
  const faults = createArmedFaults<{ match: object; effect: { kind: string } }>();
  faults.arm({ match: {}, effect: { kind: 'hold' } });
  const struck = faults.strike(() => true);
  faults.clear();
  await struck?.hold();
  assert.equal(struck?.effect.kind, 'hold');
});
