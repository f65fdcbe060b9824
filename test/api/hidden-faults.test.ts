import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutHiddenFaults } from '../../src/api/pipeline/answer.ts';
import { Problem } from '../../src/platform/base/problem.ts';

const errors = [
  { pointer: '#/result/name', message: 'is too long.' },
  { pointer: '#/status', message: "isn't one of the values that the CRM allows." },
  { pointer: '', message: 'Status and source do not go together.' },
];
const refusal = new Problem('crm_rejected', 'The CRM refused the record: status: is secret', { errors });

test('a refusal of the CRM says nothing about hidden fields', () => {
  const shown = withoutHiddenFaults(refusal, ['name']) as Problem;
  assert.deepEqual(shown.facts.errors?.[0], errors[0]);
  assert.doesNotMatch(JSON.stringify([shown.message, shown.facts]), /status|source/i);
  assert.equal(shown.facts.errors?.length, 2);
});

test('all other problems, and those for who sees all, stay as they are', () => {
  assert.equal(withoutHiddenFaults(refusal, undefined), refusal);
  const named = new Problem('crm_rejected', 'x', { errors: errors.slice(0, 1) });
  assert.equal(withoutHiddenFaults(named, ['name']), named);
  const other = new Problem('conflict', 'x', { errors });
  assert.equal(withoutHiddenFaults(other, []), other);
});
