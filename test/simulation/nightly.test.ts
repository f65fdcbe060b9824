import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describeFailure, simulateAll } from '../../simulation/main.ts';
import { undone } from '../../simulation/undone.ts';
import { failuresOf } from './failures.ts';

const minutes = process.env['SIMULATION_MINUTES'] ?? '10';
const steps = '150';
/** Each night others: the date says which. */
const from = String(10_000 + Math.floor(Date.now() / 86_400_000) * 2000);
/**
 * Seeds that once failed: a call arrives late at the org, whose people have deleted or moved its record meanwhile (three), and a token
 * that has expired is shown at the end.
 */
const onceFailed = [339, 41_580_013, 41_580_058, 41_580_086];
/** For the seeds after the one that has found a fault: another change may have moved what it meets. */
const searchMinutes = '3';

test(`the simulation finds nothing in the seeds of ${minutes} minutes`, async (context) => {
  const args = ['--minutes', minutes, '--from', from, '--steps', steps, '--once'];
  const failures: string[] = [];
  let seeds = 0;
  await simulateAll(args, (report) => {
    seeds += 1;
    if (report.violations.length > 0) failures.push(describeFailure(report, args));
    return failures.length < 3;
  });
  context.diagnostic(`${seeds} seeds from ${from}`);
  assert.deepEqual(failures, []);
});

for (const seed of onceFailed)
  test(`the simulation finds nothing in seed ${seed}`, async () => {
    assert.deepEqual(await failuresOf(['--seed', String(seed), '--steps', steps, '--once']), []);
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
