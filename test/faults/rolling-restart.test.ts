import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { Client } from 'pg';
import { Agent } from 'undici';
import { type Balancer, startBalancer } from '../support/balancer.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { startLoad } from '../support/load.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';
import { createRequests } from '../support/requests.ts';

const postgres = await startPostgres({ empty: true });
const redis = await startRedis();
const skip = (!postgres || !redis) && 'there is no PostgreSQL or no Redis';

describe('three gateways that start together on an empty database', { skip }, () => {
  const databaseUrl = postgres?.url ?? '';
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let balancer: Balancer;

  before(async () => {
    ownOrg = await startOwnOrg();
    cluster = await startCluster(3, ownOrg, {
      DATABASE_URL: databaseUrl,
      REDIS_URL: redis?.url,
      RATE_LIMIT_PER_MINUTE: '0',
      DRAIN_SECONDS: '2',
    });
    balancer = await startBalancer(() => cluster.gateways);
    for (const gateway of cluster.gateways) await balancer.ready(gateway);
  });
  after(async () => {
    await balancer.close();
    await cluster.remove();
    await ownOrg.close();
    await redis?.stop();
    await postgres?.stop();
  });

  async function query(text: string): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }

  it('bring its schema up to date once', async () => {
    const files = await readdir(new URL('../../src/platform/store/migrations/', import.meta.url));
    const applied = await query('select version from schema_migrations order by version');
    assert.deepEqual(
      applied.map(({ version }) => version),
      files.map((file) => Number(file.slice(0, 4))).sort((a, b) => a - b),
    );
    // On a busy machine answers of the database and of Redis may be late.
    const problems = cluster.gateways
      .flatMap(({ output }) => output)
      .filter((line) => /"level":"(warn|error)"/.test(line) && !/timeout/i.test(line));
    assert.deepEqual(problems, []);
  });

  it('are restarted one after another under load, and no request is dropped', async () => {
    // Each client keeps one connection, which stays with its gateway until that asks it to go.
    const agents = Array.from({ length: 8 }, () => new Agent({ connections: 1, pipelining: 1 }));
    const made = { count: 0 };
    const clients = startLoad(agents.length, async (client) => {
      const requests = createRequests(cluster, agents[client]);
      await requests.read(balancer.url);
      for (const write of [requests.create, requests.handOff]) {
        await write(balancer.url);
        made.count += 1;
      }
    });
    await clients.successes(20);
    for (const [index, gateway] of [...cluster.gateways].entries()) {
      gateway.signal('SIGTERM');
      assert.deepEqual(await gateway.ended, { code: 0, signal: null });
      await balancer.ready(await cluster.start(index));
      await clients.successes(40);
    }
    await clients.stop();
    for (const agent of agents) await agent.close();
    assert.deepEqual(clients.failures, []);
    assert.equal((await ownOrg.org.records('Quote__c')).length, made.count);
  });

  it('go on beside a schema that a newer program made; one that starts is refused in words', async () => {
    await query(`insert into schema_migrations (version, name) values (9999, 'made-up')`);
    await query('alter table idempotency_claims add column made_up text');
    const requests = createRequests(cluster);
    for (const { url } of cluster.gateways) for (const send of Object.values(requests)) await send(url);
    await assert.rejects(
      cluster.start(3),
      /The database has schema version 9999, too new for this program, which has version \d+/,
    );
  });
});
