import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CallKind, CallQueue } from '../../../src/crm/budget/call-queue.ts';

const evenly = () => 0;
const who = { tenant: 'tenant', requesters: () => [] };
const dayMs = 86_400_000;

/** Who gets a call, one after the other, of those who came in this order and have waited for so long. */
function served(kinds: readonly CallKind[], waitedMs = 0): string[] {
  // One call in a day: what polls may have beyond their first five comes too late for this test.
  const queue = new CallQueue({ rate: 1 / dayMs, maxWaitMs: 2 * dayMs }, evenly);
  const since = performance.now() - waitedMs;
  const order: string[] = [];
  for (const kind of kinds) queue.add(kind, who, since, () => order.push(kind));
  for (let take = queue.next(false); take !== undefined; take = queue.next(false)) take();
  return order;
}

test('polls alternate with writes, and go before reads', () => {
  assert.deepEqual(served(['read', 'poll', 'poll', 'poll', 'write', 'write']), [
    ...['poll', 'write', 'poll', 'write', 'poll', 'read'],
  ]);
});

test('polls that nobody waits beside are served one after the other, as far as their share goes', () => {
  assert.deepEqual(served(Array.from({ length: 7 }, () => 'poll' as const)), Array(5).fill('poll'));
});

test('a write that would wait too long goes before polls', () => {
  assert.deepEqual(served(['poll', 'write'], dayMs), ['write', 'poll']);
});

test('a poll that takes the call of a read lets the next write go first', () => {
  const queue = new CallQueue({ rate: 1 / dayMs, maxWaitMs: 2 * dayMs }, evenly);
  const order: string[] = [];
  for (const kind of ['read', 'write', 'poll'] as const)
    queue.add(kind, who, performance.now(), () => order.push(kind));
  queue.serveReadsFirst(1);
  for (let i = 0; i < 3; i++) queue.next(false)?.();
  assert.deepEqual(order, ['poll', 'write', 'read']);
});

test('polls go before writes where calls come more rarely than writes wait', () => {
  const queue = new CallQueue({ rate: 1 / dayMs, maxWaitMs: 2000 }, evenly);
  const order: string[] = [];
  for (const kind of ['write', 'poll'] as const)
    queue.add(kind, who, performance.now() - 1000, () => order.push(kind));
  for (let i = 0; i < 2; i++) queue.next(false)?.();
  assert.deepEqual(order, ['poll', 'write']);
});
