import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pauseAfter } from '../../../src/platform/base/waiting.ts';

const after = (failures: readonly number[], pauses: Parameters<typeof pauseAfter>[1]) =>
  failures.map((count) => pauseAfter(count, pauses));

test('pauses double from the first to the longest', () => {
  assert.deepEqual(after([1, 2, 3, 4, 5, 6], { first: 1, most: 10 }), [1, 2, 4, 8, 10, 10]);
});

test('pauses grow by another factor where one is given', () => {
  assert.deepEqual(after([1, 2, 3, 4], { first: 15, most: 500, factor: 4 }), [15, 60, 240, 500]);
});

test('a pause stays a number, however many failures there were', () => {
  assert.deepEqual(after([100, 10_000], { first: 1000, most: 300_000 }), [300_000, 300_000]);
  assert.equal(pauseAfter(10_000, { first: 0, most: 60 }), 0);
});
