import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findTests, findUnitTests } from '../../scripts/unit-tests.ts';

test('the unit tests are those that start nothing', () => {
  const found = new Set(findUnitTests());
  for (const file of ['architecture/architecture', 'platform/base/chance', 'crm/split', 'docs/docs'])
    assert.ok(found.has(`test/${file}.test.ts`), file);
  // By itself, by what it imports, and by what that imports.
  const all = new Set(findTests());
  for (const file of ['gates/run-child', 'api/health', 'features/partner-webhooks/deliveries'])
    assert.ok(all.has(`test/${file}.test.ts`) && !found.has(`test/${file}.test.ts`), file);
});
