import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CallKind, CallQueue, CallShares } from '../../../src/crm/budget/call-queue.ts';

interface Asking {
  /** Per cent. */
  share?: number;
  kind?: CallKind;
  /** What of a thousand calls it asks for; all where left out. */
  most?: number;
}

/** Of a thousand calls, those that each got who asked for them all the time. */
function divided(consumers: Record<string, Asking>): Record<string, number> {
  const limits = { rate: 1e-12, maxWaitMs: 2000 };
  const queue = new CallQueue(limits, (id) => (consumers[id]?.share ?? 0) / 100);
  const { shares } = queue;
  const got: Record<string, number> = {};
  const ask = (id: string) => {
    const requests = new Map([[id, 1]]);
    shares.asks(id);
    queue.add(
      consumers[id]?.kind ?? 'read',
      { tenant: id, requesters: () => requests },
      performance.now(),
      () => {
        shares.charge(requests);
        got[id] = (got[id] ?? 0) + 1;
        if ((got[id] ?? 0) < (consumers[id]?.most ?? Number.POSITIVE_INFINITY)) ask(id);
      },
    );
  };
  for (const id of Object.keys(consumers)) for (let n = 0; n < 3; n++) ask(id);
  for (let calls = 0; calls < 1000; calls++) {
    // As the bucket grants them: a write and a read alternately.
    if (calls % 2 === 0) queue.serveReadsFirst(1);
    queue.next(false)?.();
  }
  return got;
}

function near(got: Record<string, number>, expected: Record<string, number>): void {
  for (const [id, calls] of Object.entries(expected))
    assert.ok(Math.abs((got[id] ?? 0) - calls) <= 50, `${id}: ${got[id]} for ${calls}`);
}

test('those without shares have equal parts', () => {
  near(divided({ a: {}, b: {}, c: {}, d: {} }), { a: 250, b: 250, c: 250, d: 250 });
});

test('who has a share has that at least, and the rest is divided evenly between all who ask', () => {
  near(divided({ a: { share: 50 }, b: {}, c: {} }), { a: 667, b: 167, c: 167 });
  near(divided({ a: { share: 70 }, b: { share: 30 }, c: {} }), { a: 700, b: 300, c: 0 });
  near(divided({ a: { share: 100 }, b: {}, c: {}, d: {} }), { a: 1000 });
});

test('what nobody asks for is anybody’s', () => {
  near(divided({ a: { share: 80, most: 10 }, b: {}, c: {} }), { a: 10, b: 495, c: 495 });
});

test('writes do not take the share of who reads, nor reads that of who writes', () => {
  near(divided({ a: { share: 80, kind: 'read' }, b: { kind: 'write' } }), { a: 900, b: 100 });
  near(divided({ a: { share: 80, kind: 'write' }, b: { kind: 'read' } }), { a: 900, b: 100 });
});

test('a call that several share is charged to each for its requests', () => {
  const shares = new CallShares(() => 0, 60_000);
  for (const id of ['a', 'b']) shares.asks(id);
  shares.charge([
    ['a', 9],
    ['b', 1],
  ]);
  assert.ok(Math.abs(shares.creditOf([['b', 1]]) - 0.4) < 1e-9);
  assert.ok(shares.callsUntil('b', 0) < shares.callsUntil('a', 0));
});
