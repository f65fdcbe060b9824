import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { it } from 'node:test';
import type { Locks } from '../../src/platform/base/lock.ts';

export interface LocksUnderTest {
  locks: Locks;
  /** Lets this time pass for the locks: a moved clock, or a real wait. */
  elapse(ms: number): Promise<void>;
}

const newKey = () => `conformance:${randomUUID()}`;

/** What locks promise, whatever store they are in. Keys are random. */
export function locksConformance(underTest: () => LocksUnderTest): void {
  it('gives the lock to exactly one of many', async () => {
    const { locks } = underTest();
    const key = newKey();
    const got = await Promise.all(Array.from({ length: 20 }, () => locks.acquireLock(key, 60_000)));
    assert.equal(got.filter((lock) => lock !== undefined).length, 1);
  });

  it('gives it again after release, with a larger fence', async () => {
    const { locks } = underTest();
    const key = newKey();
    const first = await locks.acquireLock(key, 60_000);
    assert.ok(first);
    assert.equal(await first.isHeld(), true);
    await first.release();
    assert.equal(await first.isHeld(), false);
    const second = await locks.acquireLock(key, 60_000);
    assert.ok(second);
    assert.ok(second.fence > first.fence);
  });

  it('gives it to another when its time is over, and the former holder knows and takes nothing back', async () => {
    const { locks, elapse } = underTest();
    const key = newKey();
    const late = await locks.acquireLock(key, 100);
    assert.ok(late);
    await elapse(150);
    assert.equal(await late.isHeld(), false);
    const next = await locks.acquireLock(key, 60_000);
    assert.ok(next);
    await late.release();
    assert.equal(await late.isHeld(), false);
    assert.equal(await next.isHeld(), true);
    assert.equal(await locks.acquireLock(key, 60_000), undefined);
  });

  it('keeps locks of different names apart', async () => {
    const { locks } = underTest();
    assert.ok(await locks.acquireLock(newKey(), 60_000));
    assert.ok(await locks.acquireLock(newKey(), 60_000));
  });
}
