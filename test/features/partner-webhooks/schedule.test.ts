import assert from 'node:assert/strict';
import { test } from 'node:test';
import { delayAfter } from '../../../src/features/partner-webhooks/deliverer.ts';

const now = Date.parse('2027-03-01T08:00:00Z');
const minute = 60;
const hour = 3600;
const delays = [
  5,
  minute,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
];

test('ten delays follow ten failures, each within a fifth, and then there is no other attempt', () => {
  for (const [at, delay] of delays.entries()) {
    for (const random of [0, 0.25, 0.5, 0.75, 1]) {
      const seconds = delayAfter(at + 1, undefined, { random, now }) ?? 0;
      assert.ok(seconds >= delay * 0.8 && seconds <= delay * 1.2, `${seconds} for ${delay}`);
    }
    assert.equal(delayAfter(at + 1, undefined, { random: 0.5, now }), delay);
  }
  assert.equal(delayAfter(delays.length + 1, '60', { now }), undefined);
});

test('Retry-After lengthens a delay, to an hour at most, and shortens none', () => {
  const after = (header: string, failed = 1) => delayAfter(failed, header, { random: 0.5, now });
  assert.equal(after('120'), 120);
  assert.equal(after('1'), 5);
  assert.equal(after('86400'), hour);
  assert.equal(after('86400', 6), 5 * hour);
  assert.equal(after('Mon, 01 Mar 2027 08:10:00 GMT'), 600);
  for (const odd of ['', '-5', '1e9', 'soon', '12345678901', '2027-03-01', 'Mon, 99 Mar 2027 08:10:00 GMT'])
    assert.equal(after(odd), 5);
});
