import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { CallDivision } from '../../src/crm/batching/call-division.ts';

/** The counts of a call of `a`'s requests, to which others are added as far as they may. */
function fill(division: CallDivision, ofA: number, others: readonly string[]): Map<string, number> {
  for (let n = 0; n < ofA; n++) division.note('a');
  const counts = new Map([['a', ofA]]);
  for (const consumer of others) {
    if (!division.mayHaveNext(consumer)) continue;
    division.note(consumer);
    counts.set(consumer, (counts.get(consumer) ?? 0) + 1);
  }
  return counts;
}

it('leaves a consumer with more to send its part of the call, but for five points', () => {
  const parts = new Map([
    ['a', 0.5],
    ['b', 0.5],
  ]);
  fc.assert(
    fc.property(fc.integer({ min: 20, max: 200 }), (ofA) => {
      const { a, b } = Object.fromEntries(
        fill(new CallDivision(parts, new Set(['a'])), ofA, Array(800).fill('b')),
      ) as { a: number; b: number };
      assert.ok(a / (a + b) >= 0.45);
      // As much as that allows.
      assert.ok(a / (a + b + 1) < 0.45);
    }),
  );
});

it('lets everything go along where nobody has more to send, or nobody else asks', () => {
  const even = new Map([
    ['a', 0.5],
    ['b', 0.5],
  ]);
  const others = Array<string>(800).fill('b');
  assert.equal(fill(new CallDivision(even, new Set()), 10, others).get('b'), 800);
  assert.equal(fill(new CallDivision(undefined, new Set(['a'])), 10, others).get('b'), 800);
  const alone = fill(new CallDivision(new Map([['a', 1]]), new Set(['a'])), 200, Array(800).fill('a'));
  assert.equal(alone.get('a'), 1000);
});
