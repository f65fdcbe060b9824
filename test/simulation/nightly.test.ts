import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describeFailure, simulateAll } from '../../simulation/main.ts';
import { undone } from '../../simulation/undone.ts';

const seeds = process.env['SIMULATION_SEEDS'] ?? '2000';
/** Each night others: the date says which. */
const from = String(10_000 + Math.floor(Date.now() / 86_400_000) * Number(seeds));

test('the simulation finds nothing in thousands of seeds', async () => {
  const args = ['--seeds', seeds, '--from', from, '--steps', '150', '--once'];
  const failures: string[] = [];
  await simulateAll(args, (report) => {
    if (report.violations.length > 0) failures.push(describeFailure(report, args));
    return failures.length < 3;
  });
  assert.deepEqual(failures, []);
});

describe('within 300 seeds the simulation notices that', () => {
  for (const [name, { fault }] of Object.entries(undone)) {
    test(`${name} is taken back: ${fault}`, async (context) => {
      const args = ['--seeds', '300', '--steps', '400', '--once', '--undo', name];
      let found: number | undefined;
      await simulateAll(args, ({ seed, violations }) => {
        if (violations.length > 0) found ??= seed;
        return found === undefined;
      });
      assert.ok(found !== undefined);
      context.diagnostic(`seed ${found}`);
    });
  }
});
