import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Bucket, type BudgetLimits, parseBucket, sync, usedIn } from '../../../src/crm/budget/bucket.ts';
import { CallBudget } from '../../../src/crm/budget/call-budget.ts';
import { type CallKind, CallQueue } from '../../../src/crm/budget/call-queue.ts';
import type { BudgetStore } from '../../../src/crm/budget/shared-bucket.ts';
import { type Chance, replaceChance } from '../../../src/platform/base/chance.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { recordLog } from '../../support/log.ts';

/** A call each second. */
const perSecond = { rate: 0.001, burst: 30, maxWaitMs: 60_000 };
const dailyCalls = 86_400;
/** A hundred. */
const hundred = { ...perSecond, rate: 0.1 };

/** Time that passes only when a test says so. */
class Clock {
  ms = 1_000_000;
  #timers = new Map<object, { at: number; run: () => void }>();

  chance(real: Chance): Chance {
    return {
      ...real,
      monotonicMs: () => this.ms,
      setTimeout: (run, ms = 0) => {
        const timer = { unref() {} };
        this.#timers.set(timer, { at: this.ms + ms, run });
        return timer as unknown as NodeJS.Timeout;
      },
      clearTimeout: (timer) => void (timer && this.#timers.delete(timer)),
      sleep: async (ms) => void (this.ms += ms),
    };
  }

  async advance(ms: number): Promise<void> {
    const end = this.ms + ms;
    for (;;) {
      await settle();
      const [next] = [...this.#timers].toSorted(([, a], [, b]) => a.at - b.at);
      if (next === undefined || next[1].at > end) break;
      this.ms = Math.max(this.ms, next[1].at);
      this.#timers.delete(next[0]);
      next[1].run();
    }
    this.ms = end;
  }
}

/** Until all that waits for nothing but promises has happened. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await nextTurn();
}

class Store implements BudgetStore {
  text: string | undefined;
  /** So many of the next reads fail. */
  failures = 0;
  /** So many of the next changes are made, and not confirmed. */
  lostAnswers = 0;
  reads = 0;

  async read() {
    this.reads += 1;
    assert.ok(this.reads < 1000, 'the store is asked all the time');
    if (this.failures > 0) {
      this.failures -= 1;
      throw new Error('unavailable');
    }
    return { text: this.text, now: clock.ms };
  }

  async replace(expected: string | undefined, text: string) {
    if (this.text !== expected) return false;
    this.text = text;
    if (this.lostAnswers > 0) {
      this.lostAnswers -= 1;
      throw new Error('unavailable');
    }
    return true;
  }

  get bucket(): Bucket {
    return parseBucket(this.text) ?? assert.fail();
  }

  get used(): number {
    return usedIn(this.bucket, clock.ms);
  }
}

let clock: Clock;
let store: Store;
let real: Chance;

function addReplica(
  orgUse?: () => { used: number; limit: number; at: number },
  limits: BudgetLimits = perSecond,
) {
  const { log, lines } = recordLog();
  const queue = new CallQueue(limits, () => 0);
  const metrics = createMetrics();
  const budget = new CallBudget({
    dailyCalls,
    limits,
    store,
    queue,
    log,
    metrics,
    ...(orgUse && { orgUse }),
  });
  const made = { calls: 0 };
  const want = (kind: CallKind, count = 1) => {
    const call = () => void (made.calls += 1);
    for (let nth = 0; nth < count; nth++)
      queue.add(kind, { tenant: 'one', requesters: () => [] }, clock.ms, call);
    budget.serve();
    return settle();
  };
  return { budget, made, want, lines };
}

describe('the budget of a replica, as time passes', () => {
  // Here and not for the whole process: other files run in it too, on the real clock.
  beforeEach(() => {
    [clock, store] = [new Clock(), new Store()];
    real = replaceChance({} as Chance);
    replaceChance(clock.chance(real));
  });
  afterEach(() => void replaceChance(real));

  it('tries ten times to reach the store, and then says that it keeps to a quarter', async () => {
    store.failures = 20;
    const { budget, lines } = addReplica();
    await budget.start();
    assert.equal(store.reads, 10);
    assert.deepEqual(
      lines.map(({ level, facts }) => ({ level, facts })),
      [{ level: 'warn', facts: { replicas: 4 } }],
    );
    store.failures = 0;
    await clock.advance(1000);
    assert.match(lines[1]?.message ?? '', /shared again/);
  });

  it('says nothing of a store that comes while it starts, and that stays', async () => {
    store.failures = 2;
    const { budget, lines, want } = addReplica();
    await budget.start();
    await want('read');
    await clock.advance(60_000);
    assert.deepEqual(lines, []);
  });

  it('says why it does not share, once', async () => {
    const { budget, lines } = addReplica();
    await budget.start();
    store.failures = 5;
    await clock.advance(24_000);
    const facts = lines.map((line) => line.facts as { err: Error; replicas: number });
    assert.deepEqual(
      facts.map(({ err, replicas }) => [err.message, replicas]),
      [['unavailable', 1]],
    );
  });

  it('takes a call of its share for a request that waits, and none where nobody does', async () => {
    const { budget, made, want } = addReplica();
    await budget.start();
    store.failures = Number.POSITIVE_INFINITY;
    await clock.advance(60_000);
    await want('read', 3);
    assert.equal(made.calls, 1);
    await clock.advance(1000);
    assert.equal(made.calls, 2);
    store.failures = 0;
    await clock.advance(1000);
    assert.equal(made.calls, 3);
    await budget.stop();
    assert.equal(store.used, 3);
  });

  it('reads the store for its status once a second, and not once it has stopped', async () => {
    const { budget } = addReplica();
    await budget.start();
    const before = store.reads;
    await budget.status();
    await clock.advance(1000);
    await budget.status();
    assert.equal(store.reads, before);
    await clock.advance(1);
    await budget.status();
    assert.equal(store.reads, before + 1);
    await budget.stop();
    await clock.advance(5000);
    await budget.status();
    assert.equal(store.reads, before + 2);
  });

  it('shows the use of the org as any replica learnt it last', async () => {
    const tellers = [5000, 60_000].map((ageMs) =>
      addReplica(() => ({ used: 200_000 - ageMs, limit: 300_000, at: clock.ms - ageMs })),
    );
    const { budget } = addReplica();
    for (const teller of tellers) await teller.budget.start();
    await budget.start();
    assert.deepEqual(await budget.status(), {
      ...{ used: 195_000, limit: 300_000 },
      ...{ budget: dailyCalls, budget_used: 0 },
    });
  });

  it('counts a call for which it held none', async () => {
    const { budget } = addReplica();
    await budget.start();
    budget.charge();
    assert.equal((await budget.status()).budget_used, 1);
    await budget.stop();
    assert.equal(store.used, 1);
  });

  it('tells the bucket of such a call at once', async () => {
    const { budget } = addReplica();
    await budget.start();
    budget.charge();
    await settle();
    assert.equal(store.used, 1);
    await budget.stop();
  });

  it('counts a call that it holds once', async () => {
    const { budget, made, want } = addReplica();
    await budget.start();
    await want('read');
    assert.equal(made.calls, 1);
    budget.giveBack();
    budget.charge();
    await budget.stop();
    assert.equal(store.used, 1);
  });

  it('knows when it is short, and how long a call takes to come', async () => {
    const { budget, made, want } = addReplica();
    await budget.start();
    assert.deepEqual([budget.isShort, budget.mustWait], [false, false]);
    assert.equal(budget.untilCallsMs(30), 0);
    await want('read', 29);
    assert.deepEqual([budget.isShort, budget.mustWait], [false, false]);
    await want('read');
    assert.equal(made.calls, 30);
    assert.deepEqual([budget.isShort, budget.mustWait], [true, true]);
    assert.equal(Math.round(budget.untilCallsMs(2)), 2000);
    budget.giveBack();
    assert.deepEqual([budget.isShort, budget.mustWait], [true, false]);
    assert.equal(budget.untilCallsMs(1), 0);
    assert.equal(Math.round(budget.untilCallsMs(2)), 1000);
  });

  it('makes nobody wait who has a call, however many too many were made', async () => {
    const { budget, want } = addReplica();
    await budget.start();
    await want('read', 30);
    for (let calls = 0; calls < 3; calls++) budget.charge();
    assert.ok(budget.mustWait);
    await clock.advance(1001);
    await budget.status();
    assert.equal(store.used, 33);
    budget.giveBack();
    assert.equal(budget.untilCallsMs(1), 0);
  });

  it('asks the store once for a write that gets its call', async () => {
    const { budget, made, want } = addReplica();
    await budget.start();
    const [before, { ms }] = [store.reads, clock];
    await want('write');
    assert.deepEqual([made.calls, store.reads - before, clock.ms], [1, 1, ms]);
  });

  it('makes the first request of a replica wait for no other, where there are two', async () => {
    await addReplica().budget.start();
    const { budget, made, want } = addReplica();
    await budget.start();
    await want('read');
    assert.equal(made.calls, 1);
  });

  it('tries to reach the store once a second, also while a write waits', async () => {
    const { budget, want } = addReplica();
    await budget.start();
    assert.equal(clock.ms, 1_000_000);
    await want('write', 30);
    store.failures = Number.POSITIVE_INFINITY;
    await want('write', 5);
    const before = store.reads;
    await clock.advance(4000);
    assert.ok(store.reads - before <= 8, String(store.reads - before));
  });

  it('gives back a call that nobody needed for a second', async () => {
    const { budget, want } = addReplica();
    await budget.start();
    await want('read', 30);
    budget.giveBack();
    await clock.advance(999);
    assert.equal(store.used, 30);
    await clock.advance(1);
    await settle();
    assert.equal(store.used, 29);
  });

  it('does not make a call that it may have given back', async () => {
    const { budget, made, want } = addReplica();
    await budget.start();
    await want('read', 30);
    budget.giveBack();
    store.lostAnswers = 1;
    await clock.advance(1000);
    await want('read');
    await clock.advance(2000);
    assert.equal(made.calls, 31);
    await budget.stop();
    assert.equal(store.used, 30);
  });

  for (const limits of [perSecond, hundred])
    it(`gives the call that comes to who waits, as soon as it comes, at ${limits.rate} calls a millisecond`, async () => {
      const { budget, made, want } = addReplica(undefined, limits);
      await budget.start();
      await want('write', 31);
      assert.equal(made.calls, 30);
      await clock.advance(1 / limits.rate - 1);
      assert.equal(made.calls, 30);
      await clock.advance(2);
      assert.equal(made.calls, 31);
    });

  it('takes as many calls ahead as it made in the last second, while there are plenty', async () => {
    const { budget, want } = addReplica();
    await budget.start();
    await want('read');
    assert.equal(store.used, 1);
    await want('read', 5);
    // Six were made, and six are held.
    assert.equal(store.used, 12);
    assert.equal((await budget.status()).budget_used, 6);
    const { reads } = store;
    await want('read');
    assert.equal(store.reads, reads);
    await clock.advance(1000);
    await settle();
    assert.equal(store.used, 7);
  });

  it('asks some times a second, not all the time, while the call is for the write of another', async () => {
    const reader = addReplica();
    await reader.budget.start();
    // The writer does not come for the call that is there in a second.
    const writer = { replica: 'writer', writes: 1, writeWaitedMs: 0, unleased: 30 };
    const none = { returned: 0, reads: 0, polls: 0, ahead: 0, most: 0 };
    const { bucket } = sync(store.bucket, { ...none, ...writer }, clock.ms, perSecond);
    store.text = JSON.stringify(bucket);
    await reader.want('read');
    const before = store.reads;
    await clock.advance(1400);
    assert.equal(reader.made.calls, 0);
    const asked = store.reads - before;
    assert.ok(asked >= 5 && asked <= 30, String(asked));
  });

  it('asks some times a second where replicas share a budget that has many calls a second', async () => {
    const replicas = [addReplica(undefined, hundred), addReplica(undefined, hundred)];
    for (const { budget } of replicas) await budget.start();
    for (const { want } of replicas) {
      await want('read', 200);
      await clock.advance(25);
    }
    const before = store.reads;
    await clock.advance(1000);
    for (const { made } of replicas) assert.ok(made.calls >= 40, String(made.calls));
    assert.ok(store.reads - before <= 50, String(store.reads - before));
  });
});
