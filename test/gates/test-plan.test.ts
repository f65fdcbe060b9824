import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { isInRun, mayFailByChance, uselessPatterns } from '../../scripts/test-plan.ts';
import { findTests, findUnitTests } from '../../scripts/unit-tests.ts';

const all = findTests();

test('the unit tests are those that start nothing', () => {
  const found = new Set(findUnitTests());
  for (const file of ['architecture/architecture', 'platform/base/chance', 'crm/split', 'docs/docs'])
    assert.ok(found.has(`test/${file}.test.ts`), file);
  // By itself, by what it imports, and by what that imports.
  for (const file of ['gates/run-child', 'api/health', 'features/partner-webhooks/deliveries'])
    assert.ok(all.includes(`test/${file}.test.ts`) && !found.has(`test/${file}.test.ts`), file);
});

describe('the plan of the runs', () => {
  const isPlanned = (file: string, isNightly: boolean, changed: string[] = []) =>
    isInRun(`test/${file}.test.ts`, { isNightly, changed });

  test('names test files that there are', () => assert.deepEqual(uselessPatterns(all), []));

  test('has every file in one of the runs, whatever has changed', () => {
    for (const changed of [[], ['src/platform/store/postgres.ts', 'docs/backup.md', 'package.json']])
      for (const file of all)
        assert.ok(
          [false, true].some((isNightly) => isInRun(file, { isNightly, changed })),
          file,
        );
  });

  test('runs what takes long where its inputs have changed, and each night', () => {
    const file = 'features/read-copy/faults/copy';
    assert.equal(isPlanned(file, false), false);
    assert.equal(isPlanned(file, false, ['src/features/handoff/feature.ts']), false);
    assert.equal(isPlanned(file, false, ['src/features/read-copy/copy.ts']), true);
    assert.equal(isPlanned(file, false, [`test/${file}.test.ts`]), true);
    assert.equal(isPlanned(file, true, ['src/features/read-copy/copy.ts']), true);
  });

  test('runs the tests of a feature where it has changed, or what all features stand on', () => {
    const file = 'features/partner-webhooks/deliveries';
    assert.equal(isPlanned(file, false), false);
    assert.equal(isPlanned(file, false, ['src/features/trips/feature.ts']), false);
    for (const path of ['src/features/partner-webhooks/deliverer.ts', 'src/platform/store/leases.ts'])
      assert.equal(isPlanned(file, false, [path]), true, path);
  });

  test('always speaks HTTP with each feature, and opens the console', () => {
    const features = readdirSync('test/features').filter((name) => name !== 'console');
    for (const name of features)
      assert.ok(
        all.some(
          (file) =>
            file.startsWith(`test/features/${name}/`) && isInRun(file, { isNightly: false, changed: [] }),
        ),
        name,
      );
    assert.equal(isPlanned('features/console/hand-off', false), true);
  });

  test('tries processes and browsers again, and nothing that is random or in one process', () => {
    for (const file of ['faults/process', 'features/console/hand-off'])
      assert.equal(mayFailByChance(`test/${file}.test.ts`), true, file);
    for (const file of ['faults/chaos', 'features/mcp/faults/intents', 'api/odd-parameters', 'api/health'])
      assert.equal(mayFailByChance(`test/${file}.test.ts`), false, file);
  });
});
