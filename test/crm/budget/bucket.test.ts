import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  availableIn,
  type Bucket,
  largestLease,
  limitsOf,
  merge,
  newBucket,
  parseBucket,
  replicasIn,
  type SyncRequest,
  sync,
  usedIn,
} from '../../../src/crm/budget/bucket.ts';

const limits = limitsOf(86_400, 2000);
const start = 1_800_000_000_000;

function aRequest(changes: Partial<SyncRequest> = {}): SyncRequest {
  return {
    replica: 'a',
    returned: 0,
    unleased: 0,
    writes: 0,
    reads: 0,
    polls: 0,
    ahead: 0,
    most: largestLease,
    ...changes,
  };
}

/** The same request again and again, until nothing is granted. */
function takeAll(bucket: Bucket, request: SyncRequest, now: number): { bucket: Bucket; taken: number } {
  let [found, taken] = [bucket, 0];
  for (;;) {
    const { bucket: next, grant } = sync(found, request, now, limits);
    const granted = grant.writes + grant.reads + grant.ahead;
    if (granted === 0) return { bucket: next, taken };
    [found, taken] = [next, taken + granted];
  }
}

describe('the bucket of calls', () => {
  it('has a burst of a hundredth of the budget, and of 30 calls at least', () => {
    assert.equal(limitsOf(100_000, 2000).burst, 1000);
    assert.equal(limitsOf(40, 2000).burst, 30);
    assert.ok(Math.abs(limits.rate - 0.001) < 1e-12);
  });

  it('never gives more than burst + rate * time, whatever replicas ask for, return and overdraw', () => {
    const step = fc.record({
      pauseMs: fc.nat(20_000),
      replica: fc.constantFrom('a', 'b', 'c'),
      writes: fc.nat(25),
      reads: fc.nat(25),
      polls: fc.nat(5),
      ahead: fc.nat(25),
      returns: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const held = new Map<string, number>();
        let [bucket, now, taken] = [newBucket('x', start), start, 0];
        for (const { pauseMs, replica, writes, reads, polls, ahead, returns } of steps) {
          now += pauseMs;
          const returned = returns ? (held.get(replica) ?? 0) : 0;
          const writeWaitedMs = writes > 0 ? 10 : undefined;
          const request = aRequest({ replica, returned, writes, reads, polls, ahead, writeWaitedMs });
          const { bucket: next, grant } = sync(bucket, request, now, limits);
          const granted = grant.writes + grant.reads + grant.ahead;
          assert.ok(grant.writes <= writes && grant.reads <= reads + polls && granted <= largestLease);
          held.set(replica, granted);
          taken += granted - returned;
          bucket = parseBucket(JSON.stringify(next)) as Bucket;
          assert.ok(taken <= limits.burst + limits.rate * (now - start) + 0.001);
          assert.ok(availableIn(bucket, now, limits) <= limits.burst + 0.001);
          assert.equal(usedIn(bucket, now), taken);
        }
      }),
    );
  });

  it('gives the burst, then one call at a time at the rate, and calls made without a lease are deducted first', () => {
    const { bucket, taken } = takeAll(newBucket('x', start), aRequest({ reads: 50 }), start);
    assert.equal(taken, 864);
    assert.equal(takeAll(bucket, aRequest({ reads: 50 }), start + 999).taken, 0);
    assert.equal(takeAll(bucket, aRequest({ reads: 50 }), start + 1000).taken, 1);
    const synced = sync(bucket, aRequest({ unleased: 3 }), start + 1000, limits).bucket;
    assert.equal(takeAll(synced, aRequest({ reads: 50 }), start + 3000).taken, 0);
    assert.equal(takeAll(synced, aRequest({ reads: 50 }), start + 4000).taken, 1);
  });

  it('gives writes their call before reads, over all replicas, and a read one after each write', () => {
    const empty = takeAll(newBucket('x', start), aRequest({ reads: 50 }), start).bucket;
    const waiting = sync(
      empty,
      aRequest({ replica: 'b', writes: 1, writeWaitedMs: 0 }),
      start + 500,
      limits,
    ).bucket;
    assert.equal(sync(waiting, aRequest({ reads: 5 }), start + 1000, limits).grant.reads, 0);
    const both = { writes: 1, reads: 1, writeWaitedMs: 500 };
    const first = sync(waiting, aRequest({ replica: 'b', ...both }), start + 1000, limits);
    assert.deepEqual([first.grant.writes, first.grant.reads], [1, 0]);
    const second = sync(first.bucket, aRequest(both), start + 2000, limits);
    assert.deepEqual([second.grant.writes, second.grant.reads], [0, 1]);
    const urgent = sync(first.bucket, aRequest({ ...both, writeWaitedMs: 1000 }), start + 2000, limits);
    assert.deepEqual([urgent.grant.writes, urgent.grant.reads], [1, 0]);
  });

  it('gives the oldest write its call first, over all replicas, unless that one does not take it', () => {
    const empty = takeAll(newBucket('x', start), aRequest({ reads: 50 }), start).bucket;
    const aWrite = (replica: string, writeWaitedMs: number) =>
      aRequest({ replica, writes: 1, writeWaitedMs });
    const older = sync(empty, aWrite('b', 600), start + 600, limits).bucket;
    assert.equal(sync(older, aWrite('a', 100), start + 1000, limits).grant.writes, 0);
    assert.equal(sync(older, aWrite('b', 1000), start + 1000, limits).grant.writes, 1);
    assert.equal(sync(older, aWrite('a', 200), start + 1100, limits).grant.writes, 1);
  });

  it('gives polls a call after a write, unless a write of any replica would be refused for that', () => {
    const empty = takeAll(newBucket('x', start), aRequest({ reads: 50 }), start).bucket;
    const aWrite = (replica: string, writeWaitedMs: number) =>
      aRequest({ replica, writes: 1, writeWaitedMs });
    const written = sync(empty, aWrite('b', 1000), start + 1000, limits).bucket;
    const readAfter = (
      writeWaitedMs: number,
      maxWaitMs = limits.maxWaitMs,
      asked: Partial<SyncRequest> = { polls: 1 },
    ) => {
      const waiting = sync(written, aWrite('b', writeWaitedMs - 100), start + 1900, limits).bucket;
      return sync(waiting, aRequest(asked), start + 2000, { ...limits, maxWaitMs }).grant.reads;
    };
    assert.equal(readAfter(500), 1);
    assert.equal(readAfter(1500), 0);
    // Calls are further apart than a write may wait: each would be refused.
    assert.equal(readAfter(500, 900), 1);
    assert.equal(readAfter(500, 900, { reads: 1 }), 0);
    assert.equal(sync(written, aRequest({ polls: 1 }), start + 2000, limits).grant.reads, 1);
    assert.equal(sync(empty, aRequest({ polls: 1 }), start + 1000, limits).grant.reads, 1);
  });

  it('keeps since when a write waits where it is another one than before', () => {
    const empty = takeAll(newBucket('x', start), aRequest({ reads: 50 }), start).bucket;
    const aWrite = (writeWaitedMs: number) => aRequest({ replica: 'b', writes: 1, writeWaitedMs });
    const waiting = sync(empty, aWrite(500), start + 500, limits).bucket;
    assert.equal(sync(waiting, aWrite(600), start + 600, limits).isChanged, false);
    const { bucket, isChanged } = sync(waiting, aWrite(0), start + 600, limits);
    assert.deepEqual([isChanged, bucket.replicas['b']?.writeSince], [true, start + 600]);
  });

  it('forgets a replica that is silent, and calls of the day before', () => {
    const one = sync(newBucket('x', start), aRequest({ replica: 'b', reads: 7 }), start, limits).bucket;
    const two = sync(one, aRequest({ reads: 1 }), start + 59_000, limits).bucket;
    assert.equal(replicasIn(two, start + 59_000), 2);
    assert.equal(replicasIn(two, start + 60_000), 1);
    const left = sync(two, aRequest({ leaves: true }), start + 59_000, limits).bucket;
    assert.equal(replicasIn(left, start + 59_000), 1);
    assert.equal(usedIn(two, start + 23 * 3_600_000), 8);
    assert.equal(usedIn(two, start + 24 * 3_600_000), 0);
  });

  it('counts what either of two buckets knows of, and survives a clock that is set back', () => {
    const known = takeAll(newBucket('x', start), aRequest({ reads: 50 }), start).bucket;
    const fresh = sync(newBucket('y', start), aRequest({ replica: 'b', reads: 5 }), start, limits).bucket;
    const merged = merge(fresh, known, start, limits);
    assert.equal(takeAll(merged, aRequest({ reads: 5 }), start).taken, 0);
    assert.equal(usedIn(merged, start), 864);
    const back = sync(known, aRequest({ reads: 5 }), start - 3_600_000, limits);
    assert.equal(back.grant.reads, 0);
    assert.equal(sync(back.bucket, aRequest({ reads: 5 }), start - 3_599_000, limits).grant.reads, 1);
  });

  it('is nothing else', () => {
    const withoutCounts = JSON.stringify({ ...newBucket('x', start), counts: null });
    for (const text of [undefined, '', '{', 'null', '[]', '{"id":"x"}', '7', withoutCounts])
      assert.equal(parseBucket(text), undefined);
  });
});
