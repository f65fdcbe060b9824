import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { simulateAll } from '../../simulation/main.ts';
import { undone } from '../../simulation/undone.ts';
import { failuresOf } from './failures.ts';

const steps = '150';
/** The same each time: a change that makes one of them fail is at fault. Other seeds are searched by `npm run simulate`. */
const range = ['--from', '42000000', '--seeds', '200'];
/**
 * Seeds that once failed, with their steps: a pair that was over came back by the change of a replica whose clock was behind; an update
 * was refused that may have been made; a trip was refused for records that another request made meanwhile (two); a call arrives late at
 * the org, whose people have deleted or moved its record meanwhile (three); a token that has expired is shown at the end; a trip that was
 * partly stored is refused.
 */
const onceFailed = [
  ...[7041, 7047, 339, 41_580_013, 41_580_058, 41_580_086, 1001].map((seed) => ({ seed, steps })),
  ...[202_611_280_031, 202_611_280_088].map((seed) => ({ seed, steps: '300' })),
];
/** For the seeds after the one that has found a fault: another change may have moved what it meets. */
const searchMinutes = '3';

test('the simulation finds nothing in two hundred seeds', async () => {
  assert.deepEqual(await failuresOf([...range, '--steps', steps, '--once']), []);
});

for (const once of onceFailed)
  test(`the simulation finds nothing in seed ${once.seed}`, async () => {
    const args = ['--seed', String(once.seed), '--steps', once.steps, '--once'];
    assert.deepEqual(await failuresOf(args), []);
  });

describe('the simulation notices that', () => {
  for (const [name, { fault, foundBy }] of Object.entries(undone)) {
    test(`${name} is taken back: ${fault}`, async (context) => {
      const { seed, theme } = foundBy;
      const args = [
        ...['--from', String(seed), '--minutes', searchMinutes, '--steps', steps, '--once'],
        ...['--theme', theme, '--workers', '1', '--undo', name],
      ];
      let found: number | undefined;
      await simulateAll(args, (report) => {
        if (report.violations.length > 0) found ??= report.seed;
        return found === undefined;
      });
      context.diagnostic(`seed ${found}`);
      assert.ok(found !== undefined, `no seed from ${seed} on finds it within ${searchMinutes} minutes`);
    });
  }
});
