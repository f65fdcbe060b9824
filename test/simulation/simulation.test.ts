import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { describeFailure, simulateAll } from '../../simulation/main.ts';
import { undone } from '../../simulation/undone.ts';
import type { Report } from '../../simulation/worker.ts';
import { failuresOf } from './failures.ts';

const root = join(import.meta.dirname, '../..');

describe('the simulation', () => {
  test('finds nothing in forty short seeds', async () => {
    assert.deepEqual(await failuresOf(['--seeds', '40', '--steps', '30', '--replicas', '2', '--once']), []);
  });

  test('does the same twice', async () => {
    assert.deepEqual(
      await failuresOf(['--seeds', '2', '--from', '42000001', '--steps', '75', '--workers', '1']),
      [],
    );
  });

  test('ends what threads do in the order in which it began', async () => {
    const { inTurn } = await import('../../simulation/virtual/preload.ts');
    const ends: string[] = [];
    const first = Promise.withResolvers<void>();
    const both = [
      inTurn(() => first.promise).then(() => ends.push('first')),
      inTurn(async () => {}).then(() => ends.push('second')),
    ];
    setImmediate(first.resolve);
    await Promise.all(both);
    assert.deepEqual(ends, ['first', 'second']);
  });

  test('notices that a fix is taken back, and shows a person why', async () => {
    const { seed, theme } = undone['visible-by-either']?.foundBy ?? assert.fail();
    const args = [
      ...['--from', String(seed), '--theme', theme, '--seeds', '10', '--steps', '150', '--once'],
      ...['--undo', 'visible-by-either', '--workers', '1'],
    ];
    let failure: Report | undefined;
    await simulateAll(args, (report) => {
      if (report.violations.length > 0) failure = report;
      return failure === undefined;
    });
    assert.ok(failure);
    const text = describeFailure(failure, args);
    assert.match(text, /the endpoint \/agent got \d+ events that aren't its/);
    assert.match(text, /npm run simulate -- --seed \d+ --steps 150 --replicas 3 --undo visible-by-either/);
  });

  test('knows where each fix that it takes back stands', () => {
    for (const [name, { file, now }] of Object.entries(undone)) {
      const times = readFileSync(join(root, file), 'utf8').split(now).length - 1;
      assert.equal(times, 1, `simulation/undone.ts, ${name}: ${file} has ${times} times what is taken back`);
    }
  });
});
