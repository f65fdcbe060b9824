import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { type Cluster, startCluster } from '../../../support/cluster.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { type AcceptedHandoff, accept, offerFor, untilHandoff } from '../../../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('approvals, with two replicas and kills', { skip: !postgres && 'no PostgreSQL' }, () => {
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let agent: Credentials;
  let database: Client;
  before(async () => {
    database = new Client({ connectionString: postgres?.url ?? '' });
    await database.connect();
    ownOrg = await startOwnOrg();
    cluster = await startCluster(2, ownOrg, {
      DATABASE_URL: postgres?.url,
      CRM_TIMEOUT_MS: '1000',
      CHANGES_POLL_SECONDS: '60',
    });
    const body = {
      name: 'agent',
      permissions: [{ resource: 'quotes', actions: ['read', 'write'], approval: true }],
    };
    const made = await send(0, '/v1/admin/consumers', { as: cluster.credentials.admin, body });
    agent = JSON.parse(made.text) as Credentials;
    // The other replica hears of it.
    await eventually(
      async () => assert.equal((await send(1, '/v1/consumer', { as: agent, method: 'GET' })).status, 200),
      { everyMs: 50 },
    );
  });
  after(async () => {
    await cluster?.remove();
    await ownOrg?.close();
    await database?.end();
  });

  interface Options {
    as?: Credentials;
    method?: string;
    body?: object;
  }
  const send = async (index: number, path: string, { as, method = 'POST', body }: Options = {}) => {
    const { apiKey, apiSecret } = as ?? cluster.credentials.console;
    const response = await fetch((cluster.gateways[index] as { url: string }).url + path, {
      method,
      headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  const ask = async (change: object = {}): Promise<string> => {
    const body = offerFor(ownOrg.org.memberId, change);
    const { status, text } = await send(0, '/api/v1/handoff', { as: agent, body });
    assert.equal(status, 202, text);
    return (JSON.parse(text) as { external_id: string }).external_id;
  };
  const approve = (index: number, id: string) => send(index, `/v1/handoffs/${id}/approve`);
  const reject = (index: number, id: string) =>
    send(index, `/v1/handoffs/${id}/reject`, { body: { reason: 'no' } });
  const until = async (id: string, ...statuses: string[]): Promise<AcceptedHandoff> => {
    return eventually(async () => {
      const handoff = JSON.parse((await send(1, `/v1/handoffs/${id}`, { method: 'GET' })).text);
      assert.ok(statuses.includes(handoff.status), JSON.stringify(handoff));
      return handoff as AcceptedHandoff;
    });
  };
  const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();
  /** As time would. */
  const endOffers = (...ids: string[]) =>
    database.query('update handoffs set valid_until = now() where external_id = any($1::uuid[])', [ids]);
  const countOf = async (id: string) => (await ownOrg.org.records('Quote__c', { External_Id__c: id })).length;
  const auditOf = async (id: string) => {
    const path = `/v1/admin/audit-events?target_id=${id}`;
    const { text } = await send(1, path, { as: cluster.credentials.admin, method: 'GET' });
    return (JSON.parse(text) as { data: object[] }).data.length;
  };

  test('of many decisions at once, over both replicas, one counts', async () => {
    const ids = await Promise.all(Array.from({ length: 12 }, () => ask()));
    for (const id of ids) {
      const answers = await Promise.all([approve(0, id), reject(1, id), approve(1, id), reject(0, id)]);
      const statuses = answers.map(({ status }) => status);
      const isApproved = statuses[0] === 202;
      assert.deepEqual(statuses, isApproved ? [202, 409, 202, 409] : [409, 200, 409, 200]);
      const { status } = await until(id, 'created', 'rejected');
      assert.equal(status, isApproved ? 'created' : 'rejected');
      assert.equal(await countOf(id), isApproved ? 1 : 0);
      assert.equal(await auditOf(id), 1);
    }
  });

  test('what is approved is made once, though the replica that took the decision is killed', async () => {
    const ids = await Promise.all(Array.from({ length: 6 }, () => ask()));
    const hold = await ownOrg.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'hold', stage: 'after' },
    });
    const answers = await Promise.allSettled(ids.map((id) => approve(0, id)));
    cluster.gateways[0]?.signal('SIGKILL');
    await cluster.gateways[0]?.ended;
    await hold.release();
    await hold.remove();
    await cluster.start(0);
    for (const [index, id] of ids.entries()) {
      // Those without an answer are repeated.
      if (answers[index]?.status !== 'fulfilled') assert.equal((await approve(1, id)).status, 202);
      await until(id, 'created');
      assert.equal(await countOf(id), 1);
      assert.equal(await auditOf(id), 1);
    }
  });

  test('offers end while the CRM is down, approved or not; nothing is made when it is back', async () => {
    const down = await ownOrg.org.arm({ match: {}, effect: { kind: 'down' } });
    const valid_until = inAnHour();
    const asked = await ask({ valid_until });
    const approved = await ask({ valid_until });
    const lasting = await ask({ trip_id: randomUUID() });
    for (const id of [approved, lasting]) assert.equal((await approve(1, id)).status, 202);
    await endOffers(asked, approved);
    for (const [id, approval] of [
      [asked, 'expired'],
      [approved, 'approved'],
    ] as const) {
      const failed = await until(id, 'failed');
      assert.deepEqual([failed.problem?.code, failed.approval?.status], ['offer_expired', approval]);
    }
    assert.equal((await approve(0, asked)).status, 409);
    await down.remove();
    await until(lasting, 'created');
    assert.deepEqual([await countOf(asked), await countOf(approved), await countOf(lasting)], [0, 0, 1]);
  });

  test('a write of unknown outcome is looked for after its offer has ended', async () => {
    // The answer is lost after the record was made, and so is every look at it.
    const lost = await ownOrg.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'loseAnswer' } });
    const valid_until = inAnHour();
    const id = await ask({ valid_until });
    const other = await ask({ valid_until });
    await approve(0, id);
    await eventually(async () => assert.notEqual(await countOf(id), 0), { everyMs: 50 });
    await endOffers(id, other);
    // What has ended for certain is ended now.
    await until(other, 'failed');
    assert.equal((await until(id, 'accepted', 'failed', 'created')).status, 'accepted');
    await lost.remove();
    await until(id, 'created');
    assert.equal(await countOf(id), 1);
  });

  test('nobody answers any more after seven days, whichever replica is asked', async () => {
    const [over, under] = [await ask(), await ask()];
    const setBack = (id: string, interval: string) =>
      database.query('update handoffs set accepted_at = accepted_at - $2::interval where external_id = $1', [
        id,
        interval,
      ]);
    // In hours: a day may have another number of them.
    await setBack(under, '167 hours');
    await setBack(over, '168 hours');
    // Whether it was ended already or not.
    const early = [await approve(0, over), await reject(1, over)];
    const failed = await until(over, 'failed');
    const late = [await approve(1, over), await reject(0, over), await send(0, `/v1/handoffs/${over}/retry`)];
    assert.deepEqual(
      [...early, ...late].map(({ status }) => status),
      [409, 409, 409, 409, 409],
    );
    assert.deepEqual([failed.problem?.code, failed.approval?.status], ['approval_required', 'expired']);
    assert.deepEqual([failed.approval?.decided_by, failed.request], [null, null]);
    const { text } = await send(0, `/v1/events?resource_id=${over}`, { method: 'GET' });
    const { data } = JSON.parse(text) as { data: { type: string }[] };
    assert.deepEqual(
      data.map(({ type }) => type),
      ['handoff.awaiting_approval', 'handoff.failed'],
    );
    assert.deepEqual([await auditOf(over), await countOf(over)], [0, 0]);
    assert.equal((await approve(1, under)).status, 202);
    await until(under, 'created');
  });
});

describe('an approval, over a slow line to the database', { skip: !postgres && 'no PostgreSQL' }, () => {
  let proxy: TcpProxy;
  let gateway: TestGateway;
  let agent: Credentials;
  before(async () => {
    proxy = await startTcpProxy(postgres?.url ?? '');
    gateway = await startGateway({ DATABASE_URL: proxy.url, SHUTDOWN_SECONDS: '1' });
    agent = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'], approval: true });
  });
  after(async () => {
    await gateway.stop();
    await proxy.close();
  });
  const approve = (id: string) => gateway.request(`/v1/handoffs/${id}/approve`, { method: 'POST' });

  for (const outcome of ['release', 'cut'] as const) {
    test(`counts once where the answer to its commit comes late, or never: ${outcome}`, async () => {
      const id = await accept(gateway, {}, { as: agent });
      const decided = proxy.holdAnswers('decided_by = ');
      const first = approve(id);
      await decided.hit();
      const committed = decided.releaseUntilAnswer('commit');
      await committed.hit();
      // The database has it, and nobody got an answer.
      await untilHandoff(gateway, id, ({ approval }) => approval?.status === 'approved');
      committed[outcome]();
      assert.equal((await first).status, outcome === 'release' ? 202 : 503);
      assert.equal((await approve(id)).status, 202);
      await untilHandoff(gateway, id);
      assert.equal((await gateway.org.records('Quote__c', { External_Id__c: id })).length, 1);
      const path = `/v1/admin/audit-events?target_id=${id}`;
      const audit = await gateway.request(path, { as: gateway.admin });
      assert.equal(((await audit.json()) as { data: object[] }).data.length, 1);
    });
  }

  test('is not taken back by a maker that may not delete, and hears of it too late', async () => {
    const id = await accept(gateway, {}, { as: agent });
    const down = await gateway.org.arm({ match: { operation: 'create' }, effect: { kind: 'down' } });
    const cancelling = proxy.holdRequests("set status = 'cancelled'");
    const cancelled = gateway.request(`/v1/handoffs/${id}`, { method: 'DELETE', as: agent });
    await cancelling.hit();
    assert.equal((await approve(id)).status, 202);
    cancelling.release();
    await assertProblem(await cancelled, 409, 'conflict');
    await down.remove();
    await untilHandoff(gateway, id);
  });
});
