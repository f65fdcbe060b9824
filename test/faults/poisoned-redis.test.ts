import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { Redis } from 'ioredis';
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

describe('two gateways, and somebody who can write to their Redis', { skip }, () => {
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let intruder: Redis;

  before(async () => {
    const { url } = redis as RedisServer;
    ownOrg = await startOwnOrg();
    cluster = await startCluster(2, ownOrg, {
      ...{ DATABASE_URL: postgres?.url, REDIS_URL: url, RATE_LIMIT_PER_MINUTE: '0' },
      // Short enough for replicas to share calls.
      ...{ CRM_DAILY_CALL_BUDGET: String(2 * 86_400), CRM_MAX_WAIT_MS: '20000' },
    });
    intruder = new Redis(url);
  });
  after(async () => {
    await cluster.remove();
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
    const forged: Promise<unknown>[] = [];
    const stolen: unknown[] = [];
    const spy = intruder.duplicate();
    await spy.psubscribe('crm_*');
    // Whatever they say to each other is answered at once: an invitation with an own one, requests with a success.
    spy.on('pmessage', (_pattern: string, channel: string, text: string) => {
      const { type, from, party, loan, id, items } = JSON.parse(text);
      const group = channel.split(':').slice(0, 4).join(':');
      if (from === 'intruder') return;
      if (type === 'invitation') {
        const invitation = { type, id: 'forged', from: 'intruder', party, room: 200 };
        forged.push(intruder.publish(group, JSON.stringify(invitation)));
      }
      if (type === 'items') {
        const result = { nativeId: 'a00000000000001AAA' };
        const outcomes = items.map((_item: unknown, index: number) => [index, { result }]);
        forged.push(
          intruder.publish(`${group}:${from}`, JSON.stringify({ type: 'outcomes', loan, outcomes })),
        );
        if (id === 'forged') stolen.push(...items);
      }
    });
    let made = 0;
    const load = startLoad(24, async (client) => {
      await create(cluster.gateways[client % 2]?.url as string);
      made += 1;
    });
    await eventually(() => assert.ok(forged.length >= 10), { pause: () => load.successes(1) });
    await load.stop();
    await Promise.all(forged);
    spy.disconnect();
    assert.deepEqual([load.failures, stolen], [[], []]);
    assert.equal((await cluster.org.records('Quote__c')).length - before, made);
  });
});
