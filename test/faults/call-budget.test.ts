import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { openBudget } from '../support/call-budget.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { startLoad } from '../support/load.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { createRequests } from '../support/requests.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const postgres = await startPostgres();
const redis = await startRedis();
const skip = (!postgres || !redis) && 'there is no PostgreSQL or no Redis';

/** Five calls a second. */
const dailyCalls = 5 * 86_400;
const perMs = 0.005;

describe('four gateways that share a budget of calls', { skip }, () => {
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let proxy: TcpProxy;
  let budget: Awaited<ReturnType<typeof openBudget>>;
  /** Calls that the bucket counts and that nobody made. */
  let neverMade = 0;

  before(async () => {
    const { url } = redis as RedisServer;
    ownOrg = await startOwnOrg();
    proxy = await startTcpProxy(url);
    cluster = await startCluster(4, ownOrg, {
      ...{ DATABASE_URL: postgres?.url, REDIS_URL: proxy.url, RATE_LIMIT_PER_MINUTE: '0' },
      ...{ CRM_DAILY_CALL_BUDGET: String(dailyCalls), CRM_MAX_WAIT_MS: '20000' },
    });
    budget = await openBudget(url, cluster.secretsDir, dailyCalls);
  });
  after(async () => {
    await cluster.remove();
    await budget.close();
    await proxy.close();
    await ownOrg.close();
    await redis?.stop();
    await postgres?.stop();
  });

  const metered = async () => (await cluster.org.counters())['metered'] as number;

  /** Waits until no gateway holds calls: then the bucket has what the org has counted, to the last call. */
  async function untilSettled(): Promise<void> {
    await eventually(async () => assert.equal((await budget.used()) - neverMade, await metered()), {
      everyMs: 50,
    });
  }

  /** Resolves with a time before that, from which on calls come back. */
  async function drain(): Promise<number> {
    await untilSettled();
    const before = await budget.used();
    const drainedAt = performance.now();
    await budget.drain();
    neverMade += (await budget.used()) - before;
    return drainedAt;
  }

  /**
   * So many reads and writes on the first gateways; the calls that they took, and how many there may be since the bucket was
   * drained.
   */
  async function loadOn(
    gateways: number,
    requests: number,
    drainedAt: number,
  ): Promise<{ calls: number; most: number }> {
    const before = await metered();
    const { read, create } = createRequests(cluster);
    const load = startLoad(16, async (client) => {
      const { url } = cluster.gateways[client % gateways] ?? assert.fail();
      await (client < 8 ? read : create)(url);
    });
    await load.successes(requests);
    await load.stop();
    const most = perMs * (performance.now() - drainedAt);
    assert.deepEqual(load.failures, []);
    return { calls: (await metered()) - before, most };
  }

  for (const gateways of [1, 2, 4]) {
    it(`make no more calls than it has, through ${gateways} of them, and lose no request`, async () => {
      const { calls, most } = await loadOn(gateways, 60, await drain());
      // One that was about to come when the bucket was drained.
      assert.ok(calls > 0 && calls <= most + 2, `${calls} of ${most}`);
      await untilSettled();
    });
  }

  const perGateway = 10;

  /** Creates a booking on one of the gateways. */
  async function post(n: number, trip: string = randomUUID()): Promise<void> {
    const { url } = cluster.gateways[n % 4] ?? assert.fail();
    const { apiKey, apiSecret } = cluster.credentials.console;
    const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'content-type': 'application/json' };
    const offer = { trip_id: trip, member_id: cluster.org.memberId, name: `gathered ${n}` };
    const answer = await fetch(`${url}/v1/bookings`, {
      method: 'POST',
      headers: { ...headers, 'idempotency-key': randomUUID() },
      body: JSON.stringify({ ...offer, source: 'x', details: { n } }),
    });
    const { name, details } = (await answer.json()) as { name: string; details: object };
    assert.deepEqual([answer.status, name, details], [201, `gathered ${n}`, { n }]);
  }

  /** The gateway that has put more into calls of its own than it was sent itself. */
  async function findReceiver(before: readonly number[]): Promise<number | undefined> {
    const after = await Promise.all(cluster.gateways.map(createdBy));
    const index = after.findIndex((count, at) => count - (before[at] ?? 0) > perGateway);
    return index < 0 ? undefined : index;
  }

  it('share calls: what waits on one goes with the call of another, and each gets its own answer', async () => {
    let rounds = 0;
    for (let receiver: number | undefined; receiver === undefined; rounds++) {
      await drain();
      const before = await Promise.all(cluster.gateways.map(createdBy));
      await Promise.all(Array.from({ length: 4 * perGateway }, (_, n) => post(n)));
      receiver = await findReceiver(before);
    }
    assert.equal((await cluster.org.records('Booking__c')).length, rounds * 4 * perGateway);
    await untilSettled();
  });

  it('refuse a record that fails the call of all, and no other', async () => {
    const when = { field: 'Name__c', equals: 'gathered 13' };
    const action = { kind: 'throw' };
    const trigger = { name: 'Audit', object: 'Booking__c', on: ['beforeInsert'], when, action };
    await cluster.org.automate({ triggers: [trigger] });
    for (let receiver: number | undefined; receiver === undefined; ) {
      await drain();
      const before = await Promise.all(cluster.gateways.map(createdBy));
      const made = (await cluster.org.records('Booking__c')).length;
      const ends = await Promise.allSettled(Array.from({ length: 4 * perGateway }, (_, n) => post(n)));
      const refused = ends.flatMap((end, n) =>
        end.status === 'rejected' ? [[n, end.reason.actual[0]]] : [],
      );
      assert.deepEqual(refused, [[13, 422]]);
      assert.equal((await cluster.org.records('Booking__c')).length, made + 4 * perGateway - 1);
      receiver = await findReceiver(before);
    }
    await cluster.org.automate({});
    await untilSettled();
  });

  it('keep to their parts while Redis is unavailable, and add up what they spent when it is back', async () => {
    const drainedAt = await drain();
    await proxy.cut();
    const { calls, most } = await loadOn(4, 30, drainedAt);
    // Each has its part come together by itself.
    assert.ok(calls > 0 && calls <= most + cluster.gateways.length, `${calls} of ${most}`);
    await proxy.restore();
    // A call may have been taken in the moment of the cut, and be counted and not made; none is made and not counted.
    await eventually(async () => assert.ok((await budget.used()) - neverMade >= (await metered())), {
      everyMs: 50,
    });
  });

  it('lose no more than the calls that one held when it was killed, and have no new burst after a restart', async () => {
    const [victim = assert.fail()] = cluster.gateways;
    const { read } = createRequests(cluster);
    const drainedAt = performance.now();
    await budget.drain();
    const [before, used] = [await metered(), await budget.used()];
    const cut = Array.from({ length: 5 }, () => read(victim.url).catch(() => undefined));
    await read(victim.url);
    victim.signal('SIGKILL');
    await Promise.all(cut);
    await victim.ended;
    await cluster.start(0);
    await loadOn(4, 30, drainedAt);
    const calls = (await metered()) - before;
    const most = perMs * (performance.now() - drainedAt);
    assert.ok(calls <= most + 2, `${calls} of ${most}`);
    const lost = (await budget.used()) - used - calls;
    assert.ok(Math.abs(lost) <= 20 * 4, `${lost}`);
  });

  it('lose no request and double none when the one is killed whose call they share', async () => {
    const trip = randomUUID();
    const requests: { n: number; ended: Promise<unknown> }[] = [];
    let receiver: number | undefined;
    while (receiver === undefined) {
      await budget.drain();
      const before = await Promise.all(cluster.gateways.map(createdBy));
      const { hit, release } = await cluster.org.arm({
        match: { operation: 'createMany' },
        effect: { kind: 'hold', stage: 'after' },
        times: 1,
      });
      for (let n = 0; n < 4 * perGateway; n++) {
        const ended = post(n, trip).then(
          () => undefined,
          (error: unknown) => error,
        );
        requests.push({ n, ended });
      }
      await hit();
      receiver = await findReceiver(before);
      if (receiver !== undefined) cluster.gateways[receiver]?.signal('SIGKILL');
      await release();
    }
    const others = requests.filter(({ n }) => n % 4 !== receiver);
    const ended = await Promise.all(others.map((request) => request.ended));
    assert.deepEqual(
      ended.filter((error) => error !== undefined),
      [],
    );
    const records = await cluster.org.records('Booking__c', { Trip_Id__c: trip });
    const ofOthers = records.filter(
      (record) => Number(String(record['Name__c']).split(' ')[1]) % 4 !== receiver,
    );
    assert.equal(ofOthers.length, others.length);
  });
});

/** Records that a gateway has put into calls of its own. */
async function createdBy({ operationsUrl }: GatewayProcess): Promise<number> {
  const metrics = await (await fetch(`${operationsUrl}/metrics`)).text();
  return Number(/^handoff_crm_batch_size_sum\{operation="create"\} (\d+)/m.exec(metrics)?.[1] ?? 0);
}
