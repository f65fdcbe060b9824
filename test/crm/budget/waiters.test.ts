import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CallKind, Waiters } from '../../../src/crm/budget/waiters.ts';

/** Who gets a call, one after the other, of those who came in this order. */
function served(kinds: readonly CallKind[]): string[] {
  // One call in a day: what polls may have beyond their first five comes too late for this test.
  const waiters = new Waiters(1 / 86_400_000);
  const order: string[] = [];
  for (const kind of kinds) waiters.add(kind, 'tenant', performance.now(), () => order.push(kind));
  for (let take = waiters.next(false); take !== undefined; take = waiters.next(false)) take();
  return order;
}

test('polls take turns with writes, and go before reads', () => {
  assert.deepEqual(served(['read', 'poll', 'poll', 'poll', 'write', 'write']), [
    ...['poll', 'write', 'poll', 'write', 'poll', 'read'],
  ]);
});

test('polls that nobody waits beside are served one after the other, as far as their share goes', () => {
  assert.deepEqual(served(Array.from({ length: 7 }, () => 'poll' as const)), Array(5).fill('poll'));
});
