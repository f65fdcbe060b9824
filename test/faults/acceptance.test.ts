import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { offerFor, respondAsync, untilHandoff } from '../support/handoffs.ts';
import { type PostgresDatabase, startPostgres } from '../support/postgres.ts';
import { assertProblem } from '../support/problems.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const down = { match: { operation: 'create' }, effect: { kind: 'down' } };

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('storing hand-offs that are accepted', { skip: !postgres && 'no PostgreSQL' }, () => {
  const { url } = (postgres ?? {}) as PostgresDatabase;

  test('where the answer of the database is lost, the outcome is unknown and the External ID is told', async () => {
    const proxy = await startTcpProxy(url);
    const env = { DATABASE_URL: proxy.url, SHUTDOWN_SECONDS: '1', HANDOFF_WHEN_CRM_IS_AWAY: 'accept' };
    const gateway = await startGateway(env);
    try {
      const fault = await gateway.org.arm(down);
      const hold = proxy.holdAnswers('insert into handoffs');
      const body = offerFor(gateway.org.memberId);
      const answering = gateway.request('/api/v1/handoff', { body });
      await hold.hit();
      // The statement has its answer, and so the transaction is committed when the proxy lets it go on.
      hold.release();
      const lost = proxy.holdAnswers('commit');
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
    } finally {
      await gateway.stop();
      await proxy.close();
    }
  });

  test('the queue limit holds for all replicas together', async () => {
    const limit = 10;
    const start = () => startGateway({ DATABASE_URL: url, HANDOFF_QUEUE_LIMIT: String(limit) });
    const gateways = [await start(), await start()];
    try {
      for (const { org } of gateways) await org.arm(down);
      const send = async (gateway: TestGateway) => {
        const body = offerFor(gateway.org.memberId);
        return (await gateway.request('/api/v1/handoff', { body, headers: respondAsync })).status;
      };
      const sent = gateways.flatMap((gateway) => Array.from({ length: 2 * limit }, () => send(gateway)));
      const statuses = await Promise.all(sent);
      assert.deepEqual(
        [202, 503].map((status) => statuses.filter((one) => one === status).length),
        [limit, 3 * limit],
      );
    } finally {
      for (const gateway of gateways) await gateway.stop();
    }
  });
});
