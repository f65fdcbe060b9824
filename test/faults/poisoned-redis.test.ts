import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { Redis } from 'ioredis';
import { openBudget } from '../support/call-budget.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import { startLoad } from '../support/load.ts';
import { samplesOf } from '../support/metrics-lint.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { createRequests } from '../support/requests.ts';

const postgres = await startPostgres();
const redis = await startRedis();
const skip = (!postgres || !redis) && 'there is no PostgreSQL or no Redis';

/** Two calls a second. */
const dailyCalls = 2 * 86_400;

describe('two gateways, and somebody who can write to their Redis', { skip }, () => {
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let intruder: Redis;
  let budget: Awaited<ReturnType<typeof openBudget>>;

  before(async () => {
    const { url } = redis as RedisServer;
    ownOrg = await startOwnOrg();
    cluster = await startCluster(2, ownOrg, {
      ...{ DATABASE_URL: postgres?.url, REDIS_URL: url, RATE_LIMIT_PER_MINUTE: '0' },
      ...{ CRM_DAILY_CALL_BUDGET: String(dailyCalls), CRM_MAX_WAIT_MS: '20000' },
    });
    budget = await openBudget(url, cluster.secretsDir, dailyCalls);
    intruder = new Redis(url);
  });
  after(async () => {
    await cluster.remove();
    await budget.close();
    intruder.disconnect();
    await ownOrg.close();
    await redis?.stop();
    await postgres?.stop();
  });

  const rejected = async (index: number) => {
    const page = await (await fetch(`${cluster.gateways[index]?.operationsUrl}/metrics`)).text();
    return samplesOf(page).find(({ name }) => name === 'handoff_cache_rejected_total')?.value ?? 0;
  };

  it('send no token to the host that a poisoned record names', async () => {
    const seen: unknown[] = [];
    const host = createServer((request, response) => {
      seen.push(request.url);
      response.end('{}');
    }).listen(0, '127.0.0.1');
    await once(host, 'listening');
    const { create } = createRequests(cluster);
    await create(cluster.gateways[0]?.url as string);
    const record = JSON.parse((await intruder.get('crm_token:dev')) as string);
    assert.deepEqual(Object.keys(record).slice(0, 4), [
      'access_token',
      'instance_url',
      'expires_at',
      'connection_hash',
    ]);
    const elsewhere = `http://127.0.0.1:${(host.address() as AddressInfo).port}`;
    await intruder.set('crm_token:dev', JSON.stringify({ ...record, instance_url: elsewhere }));
    for (const { url } of cluster.gateways) await create(url);
    assert.deepEqual(seen, []);
    assert.equal((await rejected(0)) + (await rejected(1)) > 0, true);
    host.close();
  });

  it('take no answer of theirs for that of a replica, and give them no request', async () => {
    const { create } = createRequests(cluster);
    const before = (await cluster.org.records('Quote__c')).length;
    const rejectedBefore = (await rejected(0)) + (await rejected(1));
    const forged: Promise<unknown>[] = [];
    const answered: Promise<unknown>[] = [];
    const stolen: unknown[] = [];
    const spy = intruder.duplicate();
    await spy.psubscribe('crm_*');
    // Whatever they say to each other is answered at once: an invitation with an own one, a batch with successes.
    spy.on('pmessage', (_pattern: string, channel: string, text: string) => {
      const { type, from, batchKey, id, invitation, requests } = JSON.parse(text);
      const group = channel.split(':').slice(0, 4).join(':');
      if (from === 'intruder') return;
      if (type === 'invitation') {
        const message = { type, id: 'forged', from: 'intruder', batchKey, capacity: 200 };
        forged.push(intruder.publish(group, JSON.stringify(message)));
      }
      if (type === 'batch') {
        const result = { nativeId: 'a00000000000001AAA' };
        const outcomes = requests.map((_request: unknown, index: number) => [index, { result }]);
        const message = { type: 'outcomes', batch: id, outcomes };
        if (requests.length > 0) answered.push(intruder.publish(`${group}:${from}`, JSON.stringify(message)));
        if (invitation === 'forged') stolen.push(...requests);
      }
    });
    let made = 0;
    const load = startLoad(24, async (client) => {
      await create(cluster.gateways[client % 2]?.url as string);
      made += 1;
    });
    // Only while calls are short do replicas share them.
    const shorten = async () => {
      await budget.drain();
      await load.successes(1);
    };
    await eventually(() => assert.deepEqual([forged.length >= 10, answered.length >= 3], [true, true]), {
      pause: shorten,
    });
    await load.stop();
    await Promise.all([...forged, ...answered]);
    spy.disconnect();
    assert.deepEqual([load.failures, stolen], [[], []]);
    // Both receive an invitation, and one what is sent to it.
    const ignored = 2 * forged.length + answered.length;
    await eventually(async () =>
      assert.equal((await rejected(0)) + (await rejected(1)) - rejectedBefore, ignored),
    );
    assert.equal((await cluster.org.records('Quote__c')).length - before, made);
  });
});
