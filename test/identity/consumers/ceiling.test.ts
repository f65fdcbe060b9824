import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requireWithin } from '../../../src/identity/consumers/ceiling.ts';
import type { Allowance, Consumer } from '../../../src/identity/consumers/consumer.ts';

test('who has an allowance gives none that may come to more, however long the month is', () => {
  const isWithin = (own: Allowance | null, bound: Allowance) => {
    const caller = { permissions: [], allowance: bound } as unknown as Consumer;
    try {
      requireWithin(caller, { permissions: [], allowance: own });
    } catch {
      return false;
    }
    return true;
  };
  const day = (requests: number): Allowance => ({ requests, per: 'day' });
  const month = (requests: number): Allowance => ({ requests, per: 'month' });
  const cases: [own: Allowance | null, bound: Allowance, isWithin: boolean][] = [
    [null, day(5), false],
    [day(5), day(5), true],
    [day(6), day(5), false],
    [month(5), month(5), true],
    [month(6), month(5), false],
    // All of a month may be asked for in one day.
    [month(5), day(5), true],
    [month(6), day(5), false],
    [day(5), month(155), true],
    [day(5), month(154), false],
  ];
  for (const [own, bound, expected] of cases)
    assert.equal(isWithin(own, bound), expected, JSON.stringify([own, bound]));
});
