import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { Client } from 'pg';
import { type Cluster, startCluster } from '../../../support/cluster.ts';
import { eventually } from '../../../support/eventually.ts';
import type { Credentials } from '../../../support/gateway.ts';
import type { GatewayProcess } from '../../../support/gateway-process.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { type OwnPostgresServer, startPostgresServer } from '../../../support/postgres.ts';
import { startRedis } from '../../../support/redis.ts';
import { handoffFor, memberId, recordFor } from '../worlds.ts';

const server = await startPostgresServer();
const redis = await startRedis();
const skip = (!server || !redis) && 'there is no PostgreSQL or no Redis';

interface Sent {
  method?: string;
  body?: object;
  headers?: Record<string, string>;
}

describe('worlds on two replicas', { skip }, () => {
  const postgres = server as OwnPostgresServer;
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let database: Client;
  before(async () => {
    ownOrg = await startOwnOrg();
    cluster = await startCluster(2, ownOrg, { DATABASE_URL: postgres.url, REDIS_URL: redis?.url });
    database = new Client({ connectionString: postgres.url });
    await database.connect();
  });
  after(async () => {
    await database.end();
    await cluster.remove();
    await ownOrg.close();
    await redis?.stop();
    await postgres.stop();
  });

  const gateway = (index: number) => cluster.gateways[index % 2] as GatewayProcess;

  /** Undefined where the replica was killed. */
  async function send(index: number, as: Credentials, path: string, { method, body, headers }: Sent = {}) {
    const init = {
      method: method ?? (body ? 'POST' : 'GET'),
      headers: {
        'x-api-key': as.apiKey,
        'x-api-secret': as.apiSecret,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    };
    try {
      const response = await fetch(gateway(index).url + path, init);
      const text = await response.text();
      return {
        status: response.status,
        body: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>,
      };
    } catch {
      return undefined;
    }
  }

  /** A test consumer that both replicas know. */
  async function newConsumer(): Promise<Credentials> {
    const permissions = ['quotes', 'bookings'].map((resource) => ({
      resource,
      actions: ['read', 'write', 'delete'],
    }));
    const body = { name: 'Partner', mode: 'test', permissions };
    const made = await send(0, cluster.credentials.admin, '/v1/admin/consumers', { body });
    const as = made?.body as unknown as Credentials;
    await eventually(async () => assert.equal((await send(1, as, '/v1/consumer'))?.status, 200));
    return as;
  }

  const countOf = async (as: Credentials) => {
    const { rows } = await database.query<{ counted: number; stored: string }>(
      `select records as counted, (select count(*) from test_records r
          where r.consumer_id = w.consumer_id and deleted_at is null) as stored
        from test_worlds w where consumer_id = $1`,
      [as.id],
    );
    return rows[0] && { counted: rows[0].counted, stored: Number(rows[0].stored) };
  };

  const newWrites = (count: number) =>
    Array.from({ length: count }, () => ({
      body: recordFor(memberId),
      headers: { 'idempotency-key': randomUUID() },
    }));

  it('are the same world', async () => {
    const as = await newConsumer();
    const made = await send(0, as, '/v1/quotes', newWrites(1)[0]);
    assert.equal(made?.status, 201);
    const read = await send(1, as, `/v1/quotes/${String(made?.body['id'])}`);
    assert.deepEqual(read?.body, made?.body);
  });

  it('answer a repeated deletion that a replica had done before it could say so', async () => {
    const as = await newConsumer();
    const made = await send(0, as, '/v1/quotes', newWrites(1)[0]);
    const headers = { 'idempotency-key': randomUUID() };
    const remove = (at: number) =>
      send(at, as, `/v1/quotes/${String(made?.body['id'])}`, { method: 'DELETE', headers });
    assert.equal((await remove(0))?.status, 204);
    await database.query(
      `update idempotency_claims set completed_at = null, response_status = null,
          lease_until = now() - interval '1 second', last_attempt_at = now() where key = $1`,
      [headers['idempotency-key']],
    );
    assert.equal((await remove(1))?.status, 204);
  });

  it('take 10,000 records and no more, however many come at once', async () => {
    const as = await newConsumer();
    assert.equal((await send(0, as, '/v1/quotes', newWrites(1)[0]))?.status, 201);
    await database.query('update test_worlds set records = 9990 where consumer_id = $1', [as.id]);
    const answers = await Promise.all(
      newWrites(40).map((write, i) => send(i, as, i % 3 ? '/v1/quotes' : '/v1/bookings', write)),
    );
    assert.equal(answers.filter((answer) => answer?.status === 201).length, 10);
    assert.ok(answers.every((answer) => answer?.status === 201 || answer?.body['code'] === 'crm_rejected'));
  });

  it('are empty after a reset, though hand-offs were just being delivered', async () => {
    const as = await newConsumer();
    const handOff = (index: number) =>
      send(index, as, '/api/v1/handoff', {
        body: handoffFor(memberId),
        headers: { 'idempotency-key': randomUUID(), prefer: 'respond-async' },
      });
    const accepted = await Promise.all(Array.from({ length: 80 }, (_, i) => handOff(i)));
    assert.deepEqual(new Set(accepted.map((answer) => answer?.status)), new Set([202]));
    assert.equal((await send(1, as, '/v1/test/reset', { method: 'POST' }))?.status, 204);
    // What is delivered later shows that nothing before it is still to come.
    const id = String((await handOff(0))?.body['external_id']);
    await eventually(async () =>
      assert.equal((await send(0, as, `/v1/handoffs/${id}`))?.body['status'], 'created'),
    );
    const left = (await send(0, as, '/v1/quotes?limit=200'))?.body['data'] as { id: string }[] | undefined;
    assert.deepEqual(
      left?.map((quote) => quote.id),
      [id],
    );
    assert.deepEqual(await countOf(as), { counted: 1, stored: 1 });
  });

  it('have each record once after a replica was killed in the middle of writes', async () => {
    const as = await newConsumer();
    const writes = newWrites(120);
    const first = writes.map((write, i) => send(i, as, '/v1/quotes', write));
    await Promise.any(first);
    gateway(1).signal('SIGKILL');
    await Promise.all(first);
    await gateway(1).ended;
    // As time would, for the requests of the killed one.
    await database.query('update idempotency_claims set lease_until = now() where completed_at is null');
    const repeated = await Promise.all(writes.map((write) => send(0, as, '/v1/quotes', write)));
    assert.deepEqual(new Set(repeated.map((answer) => answer?.status)), new Set([201]));
    assert.equal(new Set(repeated.map((answer) => answer?.body['id'])).size, writes.length);
    assert.deepEqual(await countOf(as), { counted: writes.length, stored: writes.length });
  });
});
