import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Client } from 'pg';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { offerFor, respondAsync, untilHandoff } from '../../../support/handoffs.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';

/** For all operations: creates of several records are another one than those of a single record. */
const down = { match: {}, effect: { kind: 'down' } };

async function removeHandoffs(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query('delete from handoffs');
  await client.end();
}

const postgres = await usePostgres();

describe('storing hand-offs that are accepted', { skip: !postgres && 'no PostgreSQL' }, () => {
  const { url } = (postgres ?? {}) as PostgresDatabase;

  test('where the answer of the database is lost, the outcome is unknown and the External ID is in the answer', async (t) => {
    const proxy = await startTcpProxy(url);
    const env = { DATABASE_URL: proxy.url, SHUTDOWN_SECONDS: '1', HANDOFF_WHEN_CRM_IS_UNAVAILABLE: 'accept' };
    const gateway = await startGateway(env);
    t.after(async () => {
      await gateway.stop();
      await proxy.close();
    });
    const fault = await gateway.org.arm(down);
    const hold = proxy.holdAnswers('insert into handoffs');
    const body = offerFor(gateway.org.memberId);
    const answering = gateway.request('/api/v1/handoff', { body });
    await hold.hit();
    // The statement has its answer, and so the transaction is committed when the proxy lets it go on.
    const lost = hold.releaseUntilAnswer('commit');
    await lost.hit();
    lost.cut();
    const response = await answering;
    const { external_id } = (await response.clone().json()) as { external_id: string };
    await assertProblem(response, 503, 'crm_unavailable');
    await fault.remove();
    await untilHandoff(gateway, external_id);
    const made = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.deepEqual(
      made.map((record) => record['External_Id__c']),
      [external_id],
    );
  });

  const limits: Record<string, NodeJS.ProcessEnv> = {
    'the queue limit': { HANDOFF_QUEUE_LIMIT: '10', HANDOFF_QUEUE_LIMIT_PER_CONSUMER: '10' },
    "a consumer's share of it": { HANDOFF_QUEUE_LIMIT: '50' },
  };
  for (const [name, env] of Object.entries(limits)) {
    test(`${name} holds for all replicas together`, () => checkLimit(env));
  }

  async function checkLimit(env: NodeJS.ProcessEnv): Promise<void> {
    const limit = 10;
    await removeHandoffs(url);
    const first = await startGateway({ DATABASE_URL: url, ...env });
    const secretsDir = join(first.dataDir, 'secrets');
    const second = await startGateway({ DATABASE_URL: url, ...env, SECRETS_DIR: secretsDir });
    const gateways = [first, second];
    try {
      for (const { org } of gateways) await org.arm(down);
      const send = async (gateway: TestGateway) => {
        const body = offerFor(gateway.org.memberId);
        const as = first.console;
        return (await gateway.request('/api/v1/handoff', { as, body, headers: respondAsync })).status;
      };
      const sent = gateways.flatMap((gateway) => Array.from({ length: 2 * limit }, () => send(gateway)));
      const statuses = await Promise.all(sent);
      assert.deepEqual(
        [202, 503].map((status) => statuses.filter((one) => one === status).length),
        [limit, 3 * limit],
      );
    } finally {
      for (const gateway of gateways.toReversed()) await gateway.stop();
    }
  }
});
