import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { Redis } from 'ioredis';
import { PgBoss } from 'pg-boss';
import type { SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { startLoad } from '../support/load.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { sendEachKind } from '../support/requests.ts';
import { openSharedCache } from '../support/shared-cache.ts';

const postgres = await startPostgres();
const redis = await startRedis();
const skip = (!postgres || !redis) && 'there is no PostgreSQL or no Redis';

describe('three gateways on one PostgreSQL and one Redis', { skip }, () => {
  const databaseUrl = postgres?.url ?? '';
  let server = redis as RedisServer;
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let cache: SharedCache;

  before(async () => {
    ownOrg = await startOwnOrg();
    cluster = await startCluster(3, ownOrg, {
      DATABASE_URL: databaseUrl,
      REDIS_URL: server.url,
      CRM_TIMEOUT_MS: '2000',
      RATE_LIMIT_PER_MINUTE: '0',
    });
    cache = await openSharedCache(server.url, cluster.secretsDir);
    await untilConnected();
  });
  after(async () => {
    await cluster.remove();
    await cache.close();
    await ownOrg.close();
    await server.stop();
    await postgres?.stop();
  });

  const tokenCalls = async () => {
    const { calls } = (await cluster.org.counters()) as { calls: Record<string, number> };
    return calls['token'] ?? 0;
  };
  const health = async ({ url }: GatewayProcess) =>
    (await fetch(`${url}/v1/healthz`)).json() as Promise<Health>;
  const load = () => startLoad(6, (client) => sendEachKind(cluster, client));

  /** Waits until Redis answers here and to every gateway. */
  async function untilConnected(): Promise<void> {
    await eventually(async () => assert.ok(!(await cache.checkHealth().catch(() => true))), { everyMs: 10 });
    for (const gateway of cluster.gateways)
      await eventually(async () => assert.ok((await health(gateway)).cache.connected), { everyMs: 50 });
  }

  it('ask once for a token, and once for another when the CRM revokes it under load', async () => {
    const clients = load();
    await clients.successes(60);
    assert.equal(await tokenCalls(), 1);
    await cluster.org.revokeTokens();
    await clients.successes(100);
    await clients.stop();
    assert.deepEqual(clients.failures, []);
    assert.equal(await tokenCalls(), 2);
  });

  it('lose no request when Redis hangs, is killed, and comes back', async () => {
    const clients = load();
    const before = await tokenCalls();
    await clients.successes(30);
    process.kill(server.pid, 'SIGSTOP');
    await clients.successes(100);
    await server.stop();
    await clients.successes(100);
    assert.equal(await tokenCalls(), before);
    // Each gateway gets a token of its own, one after another under the lock in the database.
    await cluster.org.revokeTokens();
    await clients.successes(100);
    assert.equal(await tokenCalls(), before + 3);
    for (const gateway of cluster.gateways) {
      assert.partialDeepStrictEqual(await health(gateway), { status: 'ok', cache: { connected: false } });
    }
    server = (await startRedis({ port: Number(new URL(server.url).port) })) as RedisServer;
    await untilConnected();
    await clients.successes(100);
    await clients.stop();
    assert.deepEqual(clients.failures, []);
    // They share a token that one of them held.
    assert.ok(await cache.get('crm_token:dev'));
    assert.equal(await tokenCalls(), before + 3);
  });

  it('wait for a killed holder of the lock no longer than the lock lives', async () => {
    const [holder = assert.fail(), other = assert.fail()] = cluster.gateways;
    await cluster.org.revokeTokens();
    const record = (await cache.get('crm_token:dev')) as string;
    await cache.deleteIfEqual('crm_token:dev', record);
    const hold = await cluster.org.arm({
      match: { operation: 'token' },
      effect: { kind: 'hold' },
      times: 1,
    });
    const lost = assert.rejects(readMember(holder));
    await hold.hit();
    const direct = new Redis(server.url);
    const lockMs = await direct.pttl('crm_token:dev:lock');
    direct.disconnect();
    assert.ok(lockMs > 0 && lockMs <= 2000 + 5000, `${lockMs}`);
    holder.signal('SIGKILL');
    await lost;
    const before = await tokenCalls();
    // Those who wait do not learn of the death: the lock ends by itself.
    assert.equal((await readMember(other)).status, 200);
    assert.equal(await tokenCalls(), before + 1);
    await hold.remove();
    await cluster.start(0);
  });

  it('refresh a token through the job queue, one of them, and again after a failure', async (t) => {
    const boss = new PgBoss({ connectionString: databaseUrl, supervise: false, schedule: false });
    await boss.start();
    t.after(async () => {
      await boss.stop({ graceful: false });
    });
    const schedules = await boss.getSchedules('refresh-crm-token');
    assert.deepEqual(
      schedules.map(({ cron }) => cron),
      ['* * * * *'],
    );
    const before = await tokenCalls();
    const fault = await cluster.org.arm({
      match: { operation: 'token' },
      effect: { kind: 'down' },
      times: 2,
    });
    const record = JSON.parse((await cache.get('crm_token:dev')) as string) as { access_token: string };
    const soon = new Date(Date.now() + 299_000).toISOString();
    await cache.set('crm_token:dev', JSON.stringify({ ...record, expires_at: soon }), 299_000);
    await boss.send('refresh-crm-token');
    await fault.hit(2);
    const current = async () => JSON.parse((await cache.get('crm_token:dev')) ?? '{}') as typeof record;
    await eventually(async () => assert.notEqual((await current()).access_token, record.access_token), {
      everyMs: 50,
    });
    assert.equal(await tokenCalls(), before + 3);
  });

  function readMember({ url }: GatewayProcess): Promise<Response> {
    const { apiKey, apiSecret } = cluster.credentials.console;
    return fetch(`${url}/v1/members/${cluster.org.memberId}`, {
      headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'x-request-id': randomUUID() },
    });
  }
});

interface Health {
  status: string;
  cache: { connected: boolean };
}
