import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { LastUseTable } from '../../../src/identity/audit/last-uses.ts';
import { UsedNetworks } from '../../../src/identity/audit/used-networks.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';
import { recordLog } from '../../support/log.ts';
import { samplesOf } from '../../support/metrics-lint.ts';
import { type PostgresDatabase, usePostgres } from '../../support/postgres.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const postgres = await usePostgres();

const newNetwork = 'a consumer was used from a network that is new to it';

describe('when and from where keys are used, on two replicas', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let here: TestGateway;
  let there: TestGateway;
  let proxy: TcpProxy;
  let database: Database;

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    proxy = await startTcpProxy(url);
    const env = { TRUST_PROXIES: '127.0.0.1' };
    here = await startGateway({ ...env, DATABASE_URL: proxy.url });
    there = await startGateway({ ...env, DATABASE_URL: url, SECRETS_DIR: `${here.dataDir}/secrets` });
    database = openPostgres({ url, log: recordLog().log });
  });
  after(async () => {
    await there.stop();
    await here.stop();
    await database.close();
    await proxy.close();
  });

  const create = async (): Promise<Credentials> => {
    const body = { name: 'shop', permissions: [{ resource: 'quotes', actions: ['read'] }] };
    const made = await here.request('/v1/admin/consumers', { as: here.admin, body });
    return (await made.json()) as Credentials;
  };
  const use = (at: TestGateway, as: Credentials, address: string) =>
    at.request('/v1/consumer', { as, headers: { 'x-forwarded-for': address } });
  const isKnown = async (at: TestGateway, as: Credentials, address: string) => {
    await eventually(async () => assert.equal((await use(at, as, address)).status, 200));
  };
  const lastUse = async (at: TestGateway, { id }: Credentials) => {
    const shown = await at.request(`/v1/admin/consumers/${id}`, { as: here.admin });
    return ((await shown.json()) as { lastUsedAt: string | null }).lastUsedAt;
  };
  const logged = ({ id }: Credentials) =>
    [...here.logLines, ...there.logLines].filter(
      ({ message, facts }) => message === newNetwork && facts['consumer_id'] === id,
    );
  const networksOf = async ({ id }: Credentials) => {
    const { rows } = await sql<{ network: string }>`
      select network from consumer_networks where consumer_id = ${id} order by network`.execute(database.sql);
    return rows.map(({ network }) => network);
  };
  const untilStored = async (consumer: Credentials, network: string) => {
    await eventually(async () => assert.ok((await networksOf(consumer)).includes(network)));
  };

  test('a use while the database is unavailable is known here at once, and there once it is back', async () => {
    const shop = await create();
    assert.equal(await lastUse(here, shop), null);
    await proxy.cut();
    try {
      assert.equal((await use(here, shop, '192.0.2.1')).status, 200);
      await eventually(async () => assert.notEqual(await lastUse(here, shop), null));
      assert.equal(await lastUse(there, shop), null);
    } finally {
      await proxy.restore();
    }
    const at = await lastUse(here, shop);
    await eventually(async () => assert.equal(await lastUse(there, shop), at), { everyMs: 50 });
  });

  test('a later use counts, whichever replica stores it first', async () => {
    const shop = await create();
    await isKnown(there, shop, '192.0.2.1');
    await eventually(async () => assert.notEqual(await lastUse(here, shop), null));
    const later = '2999-01-01T00:00:00.000Z';
    await sql`update credential_uses set used_at = ${later} where consumer_id = ${shop.id}`.execute(
      database.sql,
    );
    await use(here, shop, '192.0.2.1');
    await untilStored(shop, '192.0.2.0/24');
    assert.equal(await lastUse(there, shop), later);
  });

  test('use from a network that is new to the consumer is logged once, and its first is not', async () => {
    const shop = await create();
    await use(here, shop, '192.0.2.1');
    await untilStored(shop, '192.0.2.0/24');
    await isKnown(there, shop, '192.0.2.200');
    await use(here, { ...shop, apiSecret: 'wrong' }, '203.0.113.9');
    await Promise.all([use(here, shop, '198.51.100.7'), use(there, shop, '198.51.100.8')]);
    await untilStored(shop, '198.51.100.0/24');
    await Promise.all([use(here, shop, '2001:db8:1:2::3'), use(there, shop, '2001:DB8:1:0::4')]);
    await untilStored(shop, '2001:db8:1::/48');
    await eventually(() => assert.ok(logged(shop).length >= 2));
    await proxy.cut();
    await use(here, shop, '203.0.113.1');
    await proxy.restore();
    await untilStored(shop, '203.0.113.0/24');
    await eventually(() => assert.ok(logged(shop).length >= 3));
    assert.deepEqual(
      logged(shop)
        .map(({ facts }) => facts['network'])
        .toSorted(),
      ['198.51.100.0/24', '2001:db8:1::/48', '203.0.113.0/24'],
    );
    let count = 0;
    for (const { operationsUrl } of [here, there]) {
      const samples = samplesOf(await (await fetch(`${operationsUrl}/metrics`)).text());
      count += samples.find(({ name }) => name === 'handoff_consumer_new_networks_total')?.value ?? 0;
    }
    assert.ok(count >= 3);
  });

  test('networks are forgotten when they were not used for long, the last one of a consumer never', async () => {
    const networks = new UsedNetworks({ database, metrics: createMetrics(), log: recordLog().log });
    await sql`insert into consumer_networks values
      ('idle', '192.0.2.0/24', '2020-01-01'), ('idle', '198.51.100.0/24', '2020-01-02'),
      ('busy', '192.0.2.0/24', '2020-01-01'), ('busy', '198.51.100.0/24', now())`.execute(database.sql);
    await networks.deleteOld(90);
    await networks.stop();
    assert.deepEqual(await networksOf({ id: 'idle' } as Credentials), ['198.51.100.0/24']);
    assert.deepEqual(await networksOf({ id: 'busy' } as Credentials), ['198.51.100.0/24']);
  });

  test('uses of keys that are gone are forgotten after long, the last one of a consumer only with it', async (t) => {
    const uses = new LastUseTable(database);
    t.after(() => uses.stop());
    const days = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString();
    for (const [consumer, key, ago] of [
      ['here', 'rotated', 200],
      ['here', 'unused', 150],
      ['here', 'here', 120],
      ['here', 'rotated-last', 100],
      ['here', 'rotated-lately', 10],
      ['quiet', 'earlier', 200],
      ['quiet', 'only', 100],
      ['deleted', 'last', 100],
      ['deleted-lately', 'lately', 5],
    ] as const)
      await sql`insert into credential_uses values (${key}, ${consumer}, ${days(ago)})`.execute(database.sql);
    const consumers = [
      { id: 'here', credentials: [{ apiKey: 'unused' }] },
      { id: 'quiet', credentials: [] },
    ];
    await uses.deleteOld(90, consumers);
    const { rows } = await sql<{ api_key: string }>`
      select api_key from credential_uses where consumer_id in ('here', 'quiet', 'deleted', 'deleted-lately')
      order by used_at`.execute(database.sql);
    assert.deepEqual(
      rows.map(({ api_key }) => api_key),
      ['unused', 'here', 'only', 'rotated-lately', 'lately'],
    );
  });
});
