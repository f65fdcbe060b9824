import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setImmediate as nextTick } from 'node:timers/promises';
import {
  type ForwardedBatch,
  ForwardedBatches,
  type ForwardedBatchesOptions,
  type Forwarder,
  type Report,
  returnMs,
  type SentOutcome,
} from '../../../src/crm/scheduling/forwarded-batches.ts';
import { createMemoryCache } from '../../../src/platform/cache/memory.ts';
import { CacheUnavailable } from '../../../src/platform/cache/shared-cache.ts';

/** That a receiver has for a batch. */
const receiverMs = 10_000;
const done: SentOutcome = { result: { nativeId: 'a0' } };

type Announcements = ForwardedBatchesOptions['cache'];

/** One replica's requests with one batch key: so many wait, and it does for others what a test says. */
class TestForwarder implements Forwarder {
  readonly #waiting: number;
  readonly settled: [number, SentOutcome][] = [];
  /** What became of its batch as a whole. */
  end: 'given back' | 'lost' | undefined;
  /** Batches of others. */
  readonly received: { requests: readonly unknown[]; report: Report; end: () => void }[] = [];

  constructor(waiting = 0) {
    this.#waiting = waiting;
  }

  forward(most: number): ForwardedBatch | undefined {
    const count = Math.min(most, this.#waiting);
    if (count === 0) return undefined;
    return {
      requests: Array.from({ length: count }, (_, item) => ({ item, isWrite: true, waitedMs: 1 })),
      ms: receiverMs,
      settle: (index, outcome) => {
        const isLast = this.settled.push([index, outcome]) === count;
        if (this.settled.every(([, each]) => each === 'not executed') && isLast) this.end = 'given back';
        return isLast;
      },
      lose: () => {
        this.end = 'lost';
      },
    };
  }

  receive(requests: readonly unknown[], _ms: number, report: Report): Promise<void> {
    const { promise, resolve: end } = Promise.withResolvers<void>();
    this.received.push({ requests, report, end });
    return promise;
  }
}

/** Until announcements, and what follows from them, have been delivered. */
async function untilDelivered(): Promise<void> {
  for (let count = 0; count < 10; count++) await nextTick();
}

function start(forwarder: TestForwarder, cache: Announcements, connectionHash = 'one org'): ForwardedBatches {
  const forwarded = new ForwardedBatches({ cache, environment: 'dev', connectionHash });
  forwarded.register('quote create', forwarder);
  return forwarded;
}

/** The same, with another way to announce. */
function withPublish(cache: Announcements, publish: Announcements['publish']): Announcements {
  return { publish, subscribe: (...listener) => cache.subscribe(...listener) };
}

describe('replicas that share a call', () => {
  let cache: Announcements;
  let receiver: TestForwarder;
  let sender: TestForwarder;
  let replica: ForwardedBatches;
  const invite = () => replica.invite('quote create', 100, 1);

  // No wait ends by itself.
  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.now() });
    const startedAt = performance.now();
    mock.method(performance, 'now', () => startedAt);
    cache = createMemoryCache();
    receiver = new TestForwarder();
    sender = new TestForwarder(3);
    replica = start(receiver, cache);
  });
  afterEach(() => {
    mock.restoreAll();
    mock.timers.reset();
  });

  it('forward to the one that has a call, and get each outcome when it is there', async () => {
    start(sender, cache);
    await invite();
    const [{ requests, report } = assert.fail()] = receiver.received;
    assert.equal(requests.length, 3);
    report(1, done);
    await untilDelivered();
    assert.deepEqual(sender.settled, [[1, done]]);
    report(2, done);
    report(0, done);
    await untilDelivered();
    assert.deepEqual(
      sender.settled.map(([index]) => index),
      [1, 2, 0],
    );
    mock.timers.tick(receiverMs + returnMs);
    assert.equal(sender.end, undefined);
  });

  it('share its capacity, and wait for none that has nothing or is gone', async () => {
    const senders = [sender, new TestForwarder(3), new TestForwarder()];
    for (const one of senders) start(one, cache);
    // A replica that was killed is counted for a while.
    await replica.invite('quote create', 8, 4);
    assert.deepEqual(
      receiver.received.map(({ requests }) => requests.length),
      [2, 2],
    );
    await replica.invite('booking create', 8, 4);
    assert.equal(receiver.received.length, 2);
  });

  it('get back what arrives when the call has started, and it is not executed', async () => {
    const held = Promise.withResolvers<void>();
    const slow = withPublish(cache, async (channel, message) => {
      await held.promise;
      return cache.publish(channel, message);
    });
    start(sender, slow);
    const invited = invite();
    await untilDelivered();
    mock.timers.tick(40);
    await invited;
    held.resolve();
    await untilDelivered();
    assert.equal(sender.end, 'given back');
    assert.deepEqual(receiver.received, []);
  });

  it('get back what arrives at a suspended process whose timer has not run yet', async () => {
    const real = Date.now.bind(Date);
    const publish: Announcements['publish'] = (channel, message) => {
      if (message.includes('"type":"batch"')) mock.method(Date, 'now', () => real() + 20_000);
      return cache.publish(channel, message);
    };
    start(sender, withPublish(cache, publish));
    void invite();
    await untilDelivered();
    mock.restoreAll();
    assert.equal(sender.end, 'given back');
    assert.deepEqual(receiver.received, []);
  });

  it('leave to the receiver what it has accepted, however often and late the message arrives again', async () => {
    const sent: [string, string][] = [];
    const publish: Announcements['publish'] = (channel, message) => {
      if (message.includes('"type":"batch"')) sent.push([channel, message]);
      return cache.publish(channel, message);
    };
    start(sender, withPublish(cache, publish));
    await invite();
    const [[channel, message] = assert.fail()] = sent;
    // The invitation is over.
    await cache.publish(channel, message);
    await untilDelivered();
    assert.equal(sender.end, undefined);
    void replica.stop();
    await cache.publish(channel, message);
    await untilDelivered();
    assert.equal(sender.end, undefined);
    assert.equal(receiver.received.length, 1);
    for (const { end } of receiver.received) end();
  });

  it('get back at once what a replica that has stopped does not receive', async () => {
    start(sender, cache);
    const invited = invite();
    await replica.stop();
    await untilDelivered();
    assert.equal(sender.end, 'given back');
    mock.timers.tick(40);
    await invited;
    // It invites nobody any more.
    await invite();
    assert.deepEqual(receiver.received, []);
  });

  it('count as lost what is not answered in time, and ignore answers after that', async () => {
    start(sender, cache);
    await invite();
    const [{ report } = assert.fail()] = receiver.received;
    report(0, done);
    await untilDelivered();
    mock.timers.tick(receiverMs + returnMs - 1);
    assert.equal(sender.end, undefined);
    mock.timers.tick(1);
    assert.equal(sender.end, 'lost');
    report(1, done);
    await untilDelivered();
    assert.deepEqual(sender.settled, [[0, done]]);
  });

  it('count as lost what may or may not have been delivered', async () => {
    const failing = withPublish(cache, async (channel, message) => {
      await cache.publish(channel, message);
      throw new CacheUnavailable('no answer');
    });
    start(sender, failing);
    await invite();
    await untilDelivered();
    assert.equal(sender.end, 'lost');
    assert.equal(receiver.received.length, 1);
  });

  it('wait for nobody where the invitation cannot be sent', async () => {
    const unavailable = withPublish(cache, () => Promise.reject(new CacheUnavailable('unavailable')));
    await start(receiver, unavailable).invite('quote create', 100, 3);
  });

  it('stop when they have executed the batches of others', async () => {
    start(sender, cache);
    await invite();
    const [{ report, end } = assert.fail()] = receiver.received;
    let isStopped = false;
    const stop = async () => {
      await replica.stop();
      isStopped = true;
    };
    const stopped = stop();
    for (const index of [0, 1, 2]) report(index, done);
    await untilDelivered();
    assert.equal(isStopped, false);
    assert.equal(sender.settled.length, 3);
    end();
    await stopped;
  });

  it('get back what arrives while the receiver stops', async () => {
    const held = Promise.withResolvers<void>();
    const slow = withPublish(cache, async (channel, message) => {
      await held.promise;
      return cache.publish(channel, message);
    });
    start(new TestForwarder(1), cache);
    start(sender, slow);
    const invited = replica.invite('quote create', 100, 2);
    await untilDelivered();
    const stopped = replica.stop();
    held.resolve();
    await untilDelivered();
    assert.equal(sender.end, 'given back');
    for (const { end } of receiver.received) end();
    mock.timers.tick(40);
    await Promise.all([stopped, invited]);
  });

  it('count as lost what they have forwarded when they stop', async () => {
    const sending = start(sender, cache);
    await invite();
    await sending.stop();
    assert.equal(sender.end, 'lost');
  });

  it('ignore replicas of another org', async () => {
    start(sender, cache, 'another org');
    await replica.invite('quote create', 100, 1);
    assert.deepEqual(receiver.received, []);
  });
});
