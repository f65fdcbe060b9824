import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import {
  Company,
  type CompanyOptions,
  type Loan,
  returnMs,
  type SentOutcome,
  type Tell,
} from '../../src/crm/batching/company.ts';
import { createMemoryCache } from '../../src/platform/cache/memory.ts';
import { CacheUnavailable } from '../../src/platform/cache/shared-cache.ts';

/** That a host has for what it is lent. */
const hostMs = 10_000;
const done: SentOutcome = { result: { nativeId: 'a0' } };

type Announcements = CompanyOptions['cache'];

/** What one replica has of a kind: so many requests wait, and it does for others what a test says. */
class TestParty {
  readonly #waiting: number;
  readonly settled: [number, SentOutcome][] = [];
  /** What became of the loan as a whole. */
  end: 'given back' | 'lost' | undefined;
  /** What it was lent. */
  readonly hosted: { items: readonly unknown[]; tell: Tell; end: () => void }[] = [];

  constructor(waiting = 0) {
    this.#waiting = waiting;
  }

  lend(room: number): Loan | undefined {
    const count = Math.min(room, this.#waiting);
    if (count === 0) return undefined;
    return {
      items: Array.from({ length: count }, (_, item) => ({ item, isWrite: true, waitedMs: 1 })),
      ms: hostMs,
      settle: (index, outcome) => this.settled.push([index, outcome]) === count,
      giveBack: () => {
        this.end = 'given back';
      },
      lose: () => {
        this.end = 'lost';
      },
    };
  }

  host(items: readonly unknown[], _ms: number, tell: Tell): Promise<void> {
    const { promise, resolve: end } = Promise.withResolvers<void>();
    this.hosted.push({ items, tell, end });
    return promise;
  }
}

/** Until announcements, and what they bring about, have been heard. */
async function untilHeard(): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn();
}

function join(party: TestParty, cache: Announcements, connectionHash = 'one org'): Company {
  const company = new Company({ cache, environment: 'dev', connectionHash });
  company.join('quote create', party);
  return company;
}

/** The same, with another way to announce. */
function withPublish(cache: Announcements, publish: Announcements['publish']): Announcements {
  return { publish, subscribe: (...listener) => cache.subscribe(...listener) };
}

describe('replicas that gather into one call', () => {
  let cache: Announcements;
  let host: TestParty;
  let guest: TestParty;
  let company: Company;
  const invite = () => company.invite('quote create', 100, 1);

  // No wait ends by itself.
  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] });
    cache = createMemoryCache();
    host = new TestParty();
    guest = new TestParty(3);
    company = join(host, cache);
  });
  afterEach(() => mock.timers.reset());

  it('lend to the one that has a call, and get each outcome when it is there', async () => {
    join(guest, cache);
    await invite();
    const [{ items, tell } = assert.fail()] = host.hosted;
    assert.equal(items.length, 3);
    tell(1, done);
    await untilHeard();
    assert.deepEqual(guest.settled, [[1, done]]);
    tell(2, done);
    tell(0, done);
    await untilHeard();
    assert.deepEqual(
      guest.settled.map(([index]) => index),
      [1, 2, 0],
    );
    mock.timers.tick(hostMs + returnMs);
    assert.equal(guest.end, undefined);
  });

  it('share the room, and wait for none that has nothing or is gone', async () => {
    const guests = [guest, new TestParty(3), new TestParty()];
    for (const one of guests) join(one, cache);
    // A replica that was killed is counted for a while.
    await company.invite('quote create', 8, 4);
    assert.deepEqual(
      host.hosted.map(({ items }) => items.length),
      [2, 2],
    );
    await company.invite('booking create', 8, 4);
    assert.equal(host.hosted.length, 2);
  });

  it('have back what comes when the call has gone, and it is not executed', async () => {
    const held = Promise.withResolvers<void>();
    const slow = withPublish(cache, async (channel, message) => {
      await held.promise;
      return cache.publish(channel, message);
    });
    join(guest, slow);
    const invited = invite();
    await untilHeard();
    mock.timers.tick(40);
    await invited;
    held.resolve();
    await untilHeard();
    assert.equal(guest.end, 'given back');
    assert.deepEqual(host.hosted, []);
  });

  it('have back what comes to a host that stood still: its timer has not closed the call', async () => {
    const real = Date.now.bind(Date);
    const publish: Announcements['publish'] = (channel, message) => {
      if (message.includes('"type":"items"')) mock.method(Date, 'now', () => real() + 20_000);
      return cache.publish(channel, message);
    };
    join(guest, withPublish(cache, publish));
    void invite();
    await untilHeard();
    mock.restoreAll();
    assert.equal(guest.end, 'given back');
    assert.deepEqual(host.hosted, []);
  });

  it('keep to the host what it has taken in, however often and late the message comes again', async () => {
    const sent: [string, string][] = [];
    const publish: Announcements['publish'] = (channel, message) => {
      if (message.includes('"type":"items"')) sent.push([channel, message]);
      return cache.publish(channel, message);
    };
    join(guest, withPublish(cache, publish));
    await invite();
    const [[channel, message] = assert.fail()] = sent;
    // The invitation is over.
    await cache.publish(channel, message);
    await untilHeard();
    assert.equal(guest.end, undefined);
    void company.stop();
    await cache.publish(channel, message);
    await untilHeard();
    assert.equal(guest.end, undefined);
    assert.equal(host.hosted.length, 1);
    for (const { end } of host.hosted) end();
  });

  it('have back at once what a replica that has left does not hear', async () => {
    join(guest, cache);
    const invited = invite();
    await company.stop();
    await untilHeard();
    assert.equal(guest.end, 'given back');
    mock.timers.tick(40);
    await invited;
    // It invites nobody any more.
    await invite();
    assert.deepEqual(host.hosted, []);
  });

  it('count as lost what a host does not answer in its time, and hear no answer after that', async () => {
    join(guest, cache);
    await invite();
    const [{ tell } = assert.fail()] = host.hosted;
    tell(0, done);
    await untilHeard();
    mock.timers.tick(hostMs + returnMs - 1);
    assert.equal(guest.end, undefined);
    mock.timers.tick(1);
    assert.equal(guest.end, 'lost');
    tell(1, done);
    await untilHeard();
    assert.deepEqual(guest.settled, [[0, done]]);
  });

  it('count as lost what may or may not have been passed on', async () => {
    const failing = withPublish(cache, async (channel, message) => {
      await cache.publish(channel, message);
      throw new CacheUnavailable('no answer');
    });
    join(guest, failing);
    await invite();
    await untilHeard();
    assert.equal(guest.end, 'lost');
    assert.equal(host.hosted.length, 1);
  });

  it('wait for nobody where the invitation cannot be sent', async () => {
    const away = withPublish(cache, () => Promise.reject(new CacheUnavailable('away')));
    await join(host, away).invite('quote create', 100, 3);
  });

  it('stop when they have ended what they do for others', async () => {
    join(guest, cache);
    await invite();
    const [{ tell, end } = assert.fail()] = host.hosted;
    let isStopped = false;
    const stop = async () => {
      await company.stop();
      isStopped = true;
    };
    const stopped = stop();
    for (const index of [0, 1, 2]) tell(index, done);
    await untilHeard();
    assert.equal(isStopped, false);
    assert.equal(guest.settled.length, 3);
    end();
    await stopped;
  });

  it('give up what they have lent when they stop', async () => {
    const lender = join(guest, cache);
    await invite();
    await lender.stop();
    assert.equal(guest.end, 'lost');
  });

  it('do not hear replicas of another org', async () => {
    join(guest, cache, 'another org');
    await company.invite('quote create', 100, 1);
    assert.deepEqual(host.hosted, []);
  });
});
