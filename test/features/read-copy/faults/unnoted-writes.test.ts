import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { startCluster } from '../../../support/cluster.ts';
import type { GatewayProcess } from '../../../support/gateway-process.ts';
import { startOwnOrg } from '../../../support/own-org.ts';
import { type PostgresDatabase, startPostgres } from '../../../support/postgres.ts';
import { type RedisServer, startRedis } from '../../../support/redis.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { copyEnv, read, untilCopied } from '../support.ts';

const postgres = await startPostgres();
const redis = await startRedis();

test('a write that one replica could not store in the copy is in the answers of all, though that one is killed', {
  skip: (!postgres || !redis) && 'there is no PostgreSQL or no Redis',
}, async (t) => {
  t.after(async () => {
    await redis?.stop();
    await postgres?.stop();
  });
  const { url } = postgres as PostgresDatabase;
  const database = await startTcpProxy(url);
  t.after(() => database.close());
  const own = await startOwnOrg();
  t.after(() => own.close());
  // After the first poll there is none for an hour.
  const seldom = { CHANGES_POLL_SECONDS: '3600', CHANGES_MINIMUM_SECONDS: '3600' };
  const env = { DATABASE_URL: url, REDIS_URL: (redis as RedisServer).url, ...copyEnv, ...seldom };
  const cluster = await startCluster(1, own, env);
  t.after(() => cluster.remove());
  await cluster.start(1, { DATABASE_URL: database.url });
  const { apiKey, apiSecret } = cluster.credentials.console;
  const credentials = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
  const requestTo =
    (index: number) =>
    (path: string, options: { headers?: Record<string, string>; body?: string } = {}) =>
      fetch(`${(cluster.gateways[index] as GatewayProcess).url}${path}`, {
        ...(options.body !== undefined && { method: 'POST', body: options.body }),
        headers: { ...options.headers, ...credentials },
      });

  const tripId = randomUUID();
  const list = `/v1/quotes?trip_id=${tripId}`;
  await untilCopied(requestTo(0), list, ({ age }) => age !== null);
  // No write is missing in the copy yet, so a replica that has just started answers from it.
  assert.notEqual((await read(requestTo(1), list, 'max-age=3600')).age, null);
  const [{ External_Id__c: memberId } = {}] = await own.org.records('Contact');
  await database.cut();
  const written = await requestTo(1)('/api/v1/handoff', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      ...{ type: 'quote', trip_id: tripId, member_id: memberId },
      result: { name: 'Hotel Miramar', source: 'hotels', details: {} },
    }),
  });
  assert.equal(written.status, 201);
  const { external_id: id } = (await written.json()) as { external_id: string };
  const seenBy = async (index: number) => {
    const { body, age } = await read(requestTo(index), list, 'max-age=3600');
    return { ids: (JSON.parse(body) as { data: { id: string }[] }).data.map((one) => one.id), age };
  };
  const fromTheCrm = { ids: [id], age: null };
  assert.deepEqual(await seenBy(0), fromTheCrm);

  const writer = cluster.gateways[1] as GatewayProcess;
  writer.signal('SIGKILL');
  await writer.ended;
  assert.deepEqual(await seenBy(0), fromTheCrm);
  await cluster.start(1, { DATABASE_URL: url });
  assert.deepEqual(await seenBy(1), fromTheCrm);
});
