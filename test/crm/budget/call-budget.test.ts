import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { setImmediate as nextTick } from 'node:timers/promises';
import {
  availableIn,
  type Bucket,
  limitsOf,
  newBucket,
  parseBucket,
  rateIn,
  sync,
} from '../../../src/crm/budget/bucket.ts';
import { CallBudget } from '../../../src/crm/budget/call-budget.ts';
import { type CallKind, CallQueue } from '../../../src/crm/budget/call-queue.ts';
import type { BudgetStore } from '../../../src/crm/budget/shared-bucket.ts';
import { CrmFailure } from '../../../src/crm/failure.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';

/** One call in 36 minutes: only the 30 calls of the burst come while a test runs. */
const dailyCalls = 40;
const limits = limitsOf(dailyCalls, 2000);

class MemoryStore implements BudgetStore {
  text: string | undefined;
  isUnavailable = false;
  /** Milliseconds that its clock is ahead of this machine's. */
  aheadMs = 0;
  reads = 0;

  async read() {
    this.reads += 1;
    this.#check();
    return { text: this.text, now: Date.now() + this.aheadMs };
  }

  async replace(expected: string | undefined, text: string) {
    this.#check();
    if (this.text !== expected) return false;
    this.text = text;
    return true;
  }

  get bucket(): Bucket {
    return parseBucket(this.text) ?? assert.fail();
  }

  get available(): number {
    return Math.floor(availableIn(this.bucket, Date.now(), limits) + 0.01);
  }

  #check(): void {
    if (this.isUnavailable) throw new Error('unavailable');
  }
}

const nobody = { replica: 'one', returned: 0, writes: 0, reads: 0, polls: 0, ahead: 0, most: 0 };

const running: CallBudget[] = [];
after(() => Promise.all(running.map((budget) => budget.stop())));

/** A replica's part of the budget, and who gets its calls. */
function addReplica(store: BudgetStore) {
  const { log } = recordLog();
  const metrics = createMetrics();
  const queue = new CallQueue(limits, () => 0);
  const budget = new CallBudget({ dailyCalls, limits, store, queue, log, metrics });
  running.push(budget);
  const wait = (kind: CallKind, tenant: string, mostMs?: number) =>
    budget.waitForCall(kind, { tenant, requesters: () => [] }, mostMs);
  const check = (kind: CallKind) => budget.admit(kind, { tenant: '', consumer: '' });
  return Object.assign(budget, { wait, check });
}

type Replica = ReturnType<typeof addReplica>;

/** The refusal of what waits too long, which names the seconds until a call. */
const isRefusal = (error: unknown) => error instanceof CrmFailure && error.kind === 'budget_exhausted';

const take = (budget: Replica) => budget.wait('read', 'tenant').paid;
const takeAll = (budget: Replica, count: number) =>
  Promise.all(Array.from({ length: count }, () => take(budget)));

describe('one replica of a budget of calls', () => {
  it('gives the burst to replicas as they come, and refuses what would wait too long', async () => {
    const store = new MemoryStore();
    const [one, other] = [addReplica(store), addReplica(store)];
    await Promise.all([one.start(), other.start()]);
    assert.equal(one.replicas, 1);
    await takeAll(one, 17);
    await takeAll(other, 13);
    assert.equal(other.replicas, 2);
    assert.equal(store.available, 0);
    assert.throws(() => other.check('write'), isRefusal);
    assert.deepEqual(await other.status(), { used: 30, limit: 40, budget: 40, budget_used: 30 });
  });

  it('forecasts when it will be used up at the present rate', async () => {
    const budget = addReplica(new MemoryStore());
    await budget.start();
    assert.equal(await budget.exhaustedInMs(), Number.POSITIVE_INFINITY);
    await takeAll(budget, 20);
    // Ten calls are left, and twenty were made within the hour that counts: its last quarter has just begun, or ends.
    const minutes = (await budget.exhaustedInMs()) / 60_000;
    assert.ok(minutes > 23 && minutes < 34, String(minutes));
    await takeAll(budget, 10);
    assert.equal(await budget.exhaustedInMs(), 0);
  });

  it('takes no rate from the calls of one moment', async () => {
    const bucket = { ...newBucket('one', Date.now()), level: 45, counts: {} };
    const large = limitsOf(5000, 2000);
    const { bucket: after } = sync(bucket, { ...nobody, unleased: 90 }, bucket.at, large);
    assert.ok(rateIn(after, bucket.at) < large.rate);
    // What an hour has seen goes on.
    const { bucket: busy } = sync(after, { ...nobody, unleased: 160 }, bucket.at, large);
    assert.ok(rateIn(busy, bucket.at) > large.rate);
    assert.equal(rateIn(busy, bucket.at + 3_600_000), 0);
  });

  it('has a call again that was not sent, and gives it to the next one that waits', async () => {
    const store = new MemoryStore();
    const budget = addReplica(store);
    await budget.start();
    const calls = await takeAll(budget, 30);
    const next = budget.wait('read', 'other');
    const write = budget.wait('write', 'other');
    calls[0]?.giveBack();
    calls[0]?.giveBack();
    assert.ok(await write.paid);
    next.giveUp();
    assert.equal(await next.paid, undefined);
    assert.equal((await budget.status()).budget_used, 30);
  });

  it('serves one that became a write before others', async () => {
    const budget = addReplica(new MemoryStore());
    await budget.start();
    const calls = await takeAll(budget, 30);
    const first = budget.wait('read', 'one');
    const second = budget.wait('read', 'other');
    second.becomeWrite();
    calls[0]?.giveBack();
    assert.ok(await second.paid);
    first.giveUp();
  });

  it('serves one write before another that came later, however much joins the first', async () => {
    const budget = addReplica(new MemoryStore());
    await budget.start();
    const calls = await takeAll(budget, 30);
    const first = budget.wait('write', 'one');
    const second = budget.wait('write', 'other');
    first.becomeWrite();
    const isFirst = Promise.race([first.paid.then(() => true), second.paid.then(() => false)]);
    calls[0]?.giveBack();
    assert.ok(await isFirst);
    second.giveUp();
  });

  it('reports when the write is gone for which others hold back', async () => {
    const store = new MemoryStore();
    const [one, other] = [addReplica(store), addReplica(store)];
    await Promise.all([one.start(), other.start()]);
    const marks = () =>
      Object.values(store.bucket.replicas).filter(({ writeSince }) => writeSince !== undefined).length;
    await takeAll(one, 20);
    await takeAll(other, 10);
    // It does not know yet that none is left.
    const write = one.wait('write', 'tenant');
    await eventually(() => assert.notEqual(marks(), 0), { pause: nextTick });
    write.giveUp();
    await eventually(() => assert.ok(marks() <= 0), { pause: nextTick });
  });

  it('does not report so again and again while the store is unavailable', async () => {
    const store = new MemoryStore();
    const [one, other] = [addReplica(store), addReplica(store)];
    await Promise.all([one.start(), other.start()]);
    await takeAll(one, 20);
    await takeAll(other, 10);
    const write = one.wait('write', 'tenant');
    await eventually(() => assert.ok(JSON.stringify(store.bucket.replicas).includes('writeSince')), {
      pause: nextTick,
    });
    store.isUnavailable = true;
    const before = store.reads;
    write.giveUp();
    for (let count = 0; count < 20; count++) await nextTick();
    assert.equal(store.reads - before, 1);
  });

  it('refuses one that has waited too long, with the time until a call', async () => {
    const budget = addReplica(new MemoryStore());
    await budget.start();
    await takeAll(budget, 30);
    await assert.rejects(
      budget.wait('read', 'tenant', 5).paid,
      (error: CrmFailure) => isRefusal(error) && Number(error.facts.retryAfter) > 2000,
    );
  });

  it('refers a write to when it may wait for the call, and a read to when the call is available', async () => {
    const budget = addReplica(new MemoryStore());
    await budget.start();
    await takeAll(budget, 30);
    const secondsOf = (kind: 'write' | 'read') => {
      try {
        budget.check(kind);
      } catch (error) {
        return Number((error as CrmFailure).facts.retryAfter);
      }
      return assert.fail();
    };
    assert.ok(secondsOf('write') < secondsOf('read'));
  });

  it('has no burst while the store is unavailable, and adds what it spent when it is back', async () => {
    const store = new MemoryStore();
    const budget = addReplica(store);
    await budget.start();
    await takeAll(budget, 20);
    store.isUnavailable = true;
    const waiting = budget.wait('read', 'tenant', 50);
    await assert.rejects(waiting.paid, isRefusal);
    budget.charge();
    store.isUnavailable = false;
    await takeAll(budget, 9);
    assert.throws(() => budget.check('read'), isRefusal);
    assert.equal((await budget.status()).budget_used, 30);
  });

  it('adds what was spent to a store that has lost the bucket, or has got another one', async () => {
    const store = new MemoryStore();
    const budget = addReplica(store);
    await budget.start();
    await takeAll(budget, 20);
    store.text = undefined;
    await takeAll(budget, 5);
    assert.equal(store.available, 5);
    store.text = JSON.stringify(newBucket('another', Date.now()));
    await takeAll(budget, 5);
    assert.equal(store.available, 0);
    store.text = 'no bucket';
    assert.throws(() => budget.check('read'), isRefusal);
  });

  it('adds what was spent since to a store that went back to an earlier bucket', async () => {
    const store = new MemoryStore();
    const budget = addReplica(store);
    await budget.start();
    await takeAll(budget, 5);
    const earlier = store.text;
    store.aheadMs = 1000;
    await takeAll(budget, 20);
    store.text = earlier;
    await takeAll(budget, 2);
    assert.deepEqual(await budget.status(), { used: 27, limit: 40, budget: 40, budget_used: 27 });
    // The two may have come out of what it held; then it reports them with its next synchronization.
    await budget.stop();
    assert.equal(store.available, 3);
  });

  it('gives back what it holds when it stops, and is no replica any more', async () => {
    const store = new MemoryStore();
    const budget = addReplica(store);
    await budget.start();
    const [call] = await takeAll(budget, 3);
    call?.giveBack();
    await budget.stop();
    assert.equal(store.available, 28);
    assert.deepEqual(store.bucket.replicas, {});
  });
});
