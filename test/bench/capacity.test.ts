import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { callsFor, tables, underBudget } from '../../bench/capacity.ts';
import { largestLease, limitsOf, newBucket, sync } from '../../src/crm/budget/bucket.ts';
import { readPage } from '../docs/pages.ts';

const stepMs = 5;

/** Numbers from 0 to 1, the same in every run. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Removes what goes into a call of one kind; the other kind goes along. */
function takeTogether(waiting: Record<'reads' | 'writes', number[]>, kind: 'reads' | 'writes') {
  const first = waiting[kind].splice(0, 200).length;
  const other = kind === 'reads' ? 'writes' : 'reads';
  const along = waiting[other].splice(0, 200 - first).length;
  return kind === 'reads' ? { reads: first, writes: along } : { reads: along, writes: first };
}

/** Four replicas that gather, on the real bucket, in a time of our own. */
function simulate(reads: number, writes: number, dailyCalls: number, seconds: number) {
  const maxWaitMs = 2000;
  const limits = limitsOf(dailyCalls, maxWaitMs);
  const random = createRandom(1);
  let bucket = { ...newBucket('x', 0), level: limits.burst };
  const waiting = { reads: [] as number[], writes: [] as number[] };
  const served = { reads: 0, writes: 0 };
  const due = { reads: 0, writes: 0 };
  let [calls, longestWait] = [0, 0];
  for (let now = 0; now < seconds * 1000; now += stepMs) {
    for (const [kind, perSecond] of [
      ['reads', reads],
      ['writes', writes],
    ] as const) {
      for (due[kind] += (perSecond * stepMs) / 1000; due[kind] > random(); due[kind] -= 1)
        waiting[kind].push(now);
      const inTime = waiting[kind].findIndex((since) => now - since <= maxWaitMs);
      waiting[kind].splice(0, inTime < 0 ? Infinity : inTime);
    }
    const request = {
      ...{ replica: `${Math.floor(random() * 4)}`, returned: 0, unleased: 0, ahead: 0, most: largestLease },
      ...{ reads: Math.sign(waiting.reads.length), writes: Math.sign(waiting.writes.length), polls: 0 },
      writeWaitedMs: waiting.writes[0] === undefined ? undefined : now - waiting.writes[0],
    };
    const { bucket: after, grant } = sync(bucket, request, now, limits);
    bucket = after;
    calls += grant.reads + grant.writes;
    for (const kind of ['reads', 'writes'] as const) {
      if (grant[kind] === 0) continue;
      const since = waiting.writes[0] ?? now;
      const taken = takeTogether(waiting, kind);
      served.reads += taken.reads;
      served.writes += taken.writes;
      if (taken.writes > 0) longestWait = Math.max(longestWait, now - since);
    }
  }
  return {
    calls: calls / seconds,
    reads: served.reads / seconds,
    writes: served.writes / seconds,
    writeWait: longestWait / 1000,
  };
}

function assertNear(actual: number, expected: number, part: number, what: string): void {
  assert.ok(
    Math.abs(actual - expected) <= part * Math.max(expected, 0.1),
    `${what}: ${actual}, model ${expected}`,
  );
}

describe('the model of capacity', () => {
  for (const [reads, writes, dailyCalls] of [
    [500, 50, 100_000],
    [0, 50, 100_000],
    [500, 0, 100_000],
    [100, 20, 50_000],
    [600, 60, 250_000],
    [500, 500, 100_000],
    [20, 400, 100_000],
  ] as const) {
    test(`is what the bucket does: ${reads} reads, ${writes} writes a second, ${dailyCalls} calls a day`, () => {
      const found = simulate(reads, writes, dailyCalls, 120);
      const model = underBudget(reads, writes, dailyCalls);
      assertNear(found.calls, model.calls, 0.03, 'calls');
      assertNear(found.reads, model.reads, 0.1, 'reads');
      assertNear(found.writes, model.writes, 0.05, 'writes');
      assert.ok(
        found.writeWait <= model.writeWait + 0.1,
        `wait: ${found.writeWait}, model ${model.writeWait}`,
      );
    });
  }

  test('gives the calls that the benchmark has measured without a budget', () => {
    // bench/last-run.md, "Arrivals at random": reads, calls each.
    assertNear(callsFor(50) / 50, 0.5, 0.1, '50 a second');
    assertNear(callsFor(500) / 500, 0.1, 0.1, '500 a second');
  });

  test('has its tables in the page', () => {
    const page = readPage('docs/capacity.md');
    for (const table of Object.values(tables)) assert.ok(page.includes(table), table);
  });
});
