import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Client } from 'pg';
import { startCluster } from '../../../support/cluster.ts';
import { eventually } from '../../../support/eventually.ts';
import type { GatewayProcess } from '../../../support/gateway-process.ts';
import { startOwnOrg } from '../../../support/own-org.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { copyEnv, read, untilCopied } from '../support.ts';

/** More than one page of the CRM holds. */
const records = 5000;

test('a fill goes on after a kill, on another replica; without the database the CRM answers', async (t) => {
  const postgres = await startPostgres();
  if (!postgres) return t.skip('there is no PostgreSQL');
  t.after(() => postgres.stop());
  const database = await startTcpProxy(postgres.url);
  t.after(() => database.close());
  const own = await startOwnOrg();
  t.after(() => own.close());
  const { org } = own;
  const ids = Array.from({ length: records }, () => randomUUID());
  const row = { Name__c: 'n', Source__c: 's', Details__c: '{}' };
  await org.insert(
    'Quote__c',
    ids.map((id) => ({ ...row, External_Id__c: id, Trip_Id__c: id })),
  );

  // Before there is a copy the reader reads everything, so that the copy has to be filled by itself.
  const env = { DATABASE_URL: database.url, RATE_LIMIT_PER_MINUTE: '0', ...copyEnv };
  const cluster = await startCluster(2, own, { ...env, COPY_ENABLED: 'false' });
  t.after(() => cluster.remove());
  const gateway = (index: number) => cluster.gateways[index] as GatewayProcess;
  const client = new Client(postgres.url);
  // The server ends first.
  client.on('error', () => {});
  await client.connect();
  t.after(() => client.end());
  const ask = async <T>(sql: string): Promise<T[]> => (await client.query(sql)).rows as T[];
  const isRead = 'select 1 from change_reader where completed_at is not null';
  await eventually(async () => assert.notEqual((await ask(isRead)).length, 0), { everyMs: 50 });

  const { apiKey, apiSecret } = cluster.credentials.console;
  const requestTo =
    (index: number) =>
    (path: string, options: { headers?: Record<string, string> } = {}) =>
      fetch(`${gateway(index).url}${path}`, {
        headers: { ...options.headers, 'x-api-key': apiKey, 'x-api-secret': apiSecret },
      });
  for (const index of [0, 1]) {
    gateway(index).signal('SIGKILL');
    await gateway(index).ended;
  }

  // Its process is killed as soon as the first page of the fill is there.
  await ask(`update change_reader set lease_until = to_timestamp(0)`);
  await cluster.start(0, { COPY_ENABLED: 'true' });
  await eventually(
    async () => assert.notEqual((await ask('select 1 from copied_records limit 1')).length, 0),
    { everyMs: 5 },
  );
  gateway(0).signal('SIGKILL');
  await gateway(0).ended;
  const [left] = await ask<{ count: number; places: string | null }>(
    'select (select count(*)::integer from copied_records) as count, places from copy_state',
  );
  assert.notEqual(left?.count, 0);
  await ask(`update change_reader set lease_until = to_timestamp(0)`);
  await cluster.start(1, { COPY_ENABLED: 'true' });
  const request = requestTo(1);
  // While it fills the CRM answers.
  assert.equal((await read(request, `/v1/quotes/${ids[0]}`, 'max-age=60')).status, 200);
  for (const id of [ids[0], ids.at(-1)])
    await untilCopied(request, `/v1/quotes/${id}`, ({ age }) => age !== null);
  const [filled] = await ask<{ count: number }>(
    `select count(*)::integer as count from copied_records where resource = 'quote'`,
  );
  assert.equal(filled?.count, records);
  assert.doesNotMatch(gateway(1).output.join('\n'), /filling it again/);

  await database.cut();
  const answer = await read(request, `/v1/quotes/${ids[1]}`, 'max-age=60');
  assert.deepEqual([answer.status, answer.age], [200, null]);
  await database.restore();
  await untilCopied(request, `/v1/quotes/${ids[1]}`, ({ age }) => age !== null);

  // The command empties it while the service runs; then it is filled again.
  await ask('begin; delete from copy_state; truncate copied_records; commit');
  await untilCopied(request, `/v1/quotes/${ids[2]}`, ({ age }) => age !== null);
});
