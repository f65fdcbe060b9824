import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { callTool } from '../../../support/mcp.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';

const postgres = await usePostgres();

describe('tools and the database', { skip: !postgres && 'no PostgreSQL' }, () => {
  let proxy: TcpProxy;
  let gateway: TestGateway;
  let database: Client;
  before(async () => {
    const { url } = postgres as PostgresDatabase;
    proxy = await startTcpProxy(url);
    gateway = await startGateway({ DATABASE_URL: proxy.url, SHUTDOWN_SECONDS: '1' });
    database = new Client({ connectionString: url });
    await database.connect();
  });
  after(async () => {
    await gateway.stop();
    await database.end();
    await proxy.close();
  });

  const handOff = async (given: object) =>
    (await callTool(gateway.url, gateway.console, 'hand_off', given)).structuredContent;
  const count = async ({ trip_id }: { trip_id: string }) =>
    (await gateway.org.records('Quote__c', { Trip_Id__c: trip_id })).length;

  test('equal arguments are another request once ten minutes are over; a name is not', async () => {
    for (const [more, expected] of [
      [{}, 2],
      [{ intent: 'one quote' }, 1],
    ] as const) {
      const given = { ...offerFor(gateway.org.memberId), ...more };
      await handOff(given);
      assert.equal((await handOff(given))['replayed'], true);
      const { rows } = await database.query<{ seconds: number | null }>(
        'select extract(epoch from repeat_until - created_at)::float8 as seconds from idempotency_claims order by created_at desc limit 1',
      );
      assert.equal(rows[0]?.seconds, expected === 2 ? 600 : null);
      await database.query(
        'update idempotency_claims set repeat_until = now() where repeat_until is not null',
      );
      await handOff(given);
      assert.equal(await count(given), expected);
    }
  });

  test('without it they write nothing, and they do it afterwards', async () => {
    for (const more of [{}, { intent: 'another quote' }]) {
      const given = { ...offerFor(gateway.org.memberId), ...more };
      await proxy.cut();
      assert.equal((await handOff(given))['code'], 'store_unavailable');
      assert.equal(await count(given), 0);
      await proxy.restore();
      const made = await handOff(given);
      assert.equal(made['status'], 'created', JSON.stringify(made));
      assert.equal(await count(given), 1);
    }
  });
});
