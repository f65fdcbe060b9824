import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readMoment } from '../../../src/platform/base/moment.ts';

test('a time has any number of digits after the second', () => {
  const whole = Date.UTC(2030, 0, 1);
  assert.equal(readMoment('2030-01-01T00:00:00Z'), whole);
  assert.equal(readMoment('2030-01-01T00:00:00.5+00:00'), whole + 500);
  assert.equal(readMoment('2030-01-01T00:00:00.123456789123Z'), whole + 123);
  for (const text of ['2030-01-01T00:00:00.Z', '2030-01-01T24:00:00Z', '2030-02-30T00:00:00Z', '2030-01-01'])
    assert.equal(readMoment(text), undefined, text);
});
