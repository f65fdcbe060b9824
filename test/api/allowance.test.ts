import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { assertProblem } from '../support/problems.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';

interface Shown {
  allowance: { requests: number; per: string; used: number; resets_at: string } | null;
}

const postgres = await startPostgres();

describe('allowance', { skip: !postgres && 'no postgres' }, () => {
  let gateway: TestGateway;
  let env: NodeJS.ProcessEnv;
  before(async () => {
    env = { DATABASE_URL: postgres?.url, CHANGES_POLL_SECONDS: '1', CHANGES_PRIVATE_NETWORKS: '127.0.0.0/8' };
    gateway = await startGateway(env);
    env = { ...env, SECRETS_DIR: `${gateway.dataDir}/secrets` };
  });
  after(async () => {
    await gateway.stop();
    await postgres?.stop();
  });

  const give = async (id: string, allowance: object | null, as = gateway.admin) =>
    gateway.request(`/v1/admin/consumers/${id}`, { method: 'PATCH', as, body: { allowance } });
  const ask = (as: Credentials, of = gateway) => of.request('/v1/quotes?limit=1', { as });
  const shown = async (as: Credentials, of = gateway) => {
    const response = await of.request('/v1/consumer', { as });
    assert.equal(response.status, 200);
    return ((await response.json()) as Shown).allowance;
  };
  const newReader = () =>
    gateway.newConsumer(
      { resource: 'quotes', actions: ['read'] },
      { resource: 'webhooks', actions: ['read', 'write'] },
    );

  test('is counted, shown, and ends with 429 until its day or month ends', async () => {
    const reader = await newReader();
    assert.equal(await shown(reader), null);
    assert.equal((await give(reader.id, { requests: 4, per: 'month' })).status, 200);
    assert.equal((await ask(reader)).status, 200);
    // Refused ones count like all others; the one that shows it counts too.
    assert.equal((await gateway.request('/v1/members', { as: reader })).status, 403);
    const now = new Date();
    const end = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString();
    assert.deepEqual(await shown(reader), { requests: 4, per: 'month', used: 3, resets_at: end });
    assert.equal((await ask(reader)).status, 200);
    const refused = await ask(reader);
    const left = Number(refused.headers.get('retry-after')) * 1000;
    assert.ok(Math.abs(Date.now() + left - Date.parse(end)) < 5000);
    await assertProblem(refused, 429, 'allowance_exhausted');
    // Refused ones beyond it change nothing, and more takes effect at once.
    assert.equal((await give(reader.id, { requests: 6, per: 'day' })).status, 200);
    assert.equal((await ask(reader)).status, 200);
    assert.equal((await shown(reader))?.used, 6);
    assert.equal((await give(reader.id, null)).status, 200);
    assert.equal((await ask(reader)).status, 200);
  });

  test('is one for all replicas, and stays over a restart', async (t) => {
    const reader = await newReader();
    assert.equal((await give(reader.id, { requests: 6, per: 'month' })).status, 200);
    let second = await startGateway(env);
    t.after(async () => {
      await second.stop();
    });
    for (const replica of [gateway, second, gateway]) assert.equal((await ask(reader, replica)).status, 200);
    // What shows it writes what its replica has counted, itself included, and reads the rest.
    const [first = 0, then = 0] = [(await shown(reader))?.used, (await shown(reader, second))?.used];
    // It may have counted itself by then.
    assert.ok(first === 3 || first === 4, String(first));
    assert.ok(then === 4 || then === 5, String(then));
    await second.stop();
    second = await startGateway(env);
    assert.equal((await ask(reader, second)).status, 200);
    await assertProblem(await ask(reader, second), 429, 'allowance_exhausted');
    await second.stop();
    second = await startGateway(env);
    await assertProblem(await ask(reader, second), 429, 'allowance_exhausted');
    // The other one learns it with what it counts next, or has learned it by its own reading, every 4 s.
    await (await gateway.request('/v1/consumer', { as: reader })).arrayBuffer();
    await assertProblem(await ask(reader), 429, 'allowance_exhausted');
  });

  test('a change of it holds on the other replica, too', async (t) => {
    const reader = await newReader();
    const second = await startGateway(env);
    const until = (status: number) =>
      eventually(async () => assert.equal((await ask(reader, second)).status, status));
    t.after(async () => {
      await second.stop();
    });
    assert.equal(await shown(reader, second), null);
    assert.equal((await give(reader.id, { requests: 1, per: 'month' })).status, 200);
    await until(429);
    assert.equal((await give(reader.id, { requests: 1_000_000, per: 'month' })).status, 200);
    await until(200);
    const { requests, per } = (await shown(reader, second)) ?? {};
    assert.deepEqual([requests, per], [1_000_000, 'month']);
    assert.equal((await give(reader.id, null)).status, 200);
    await eventually(async () => assert.equal(await shown(reader, second), null));
  });

  test('tells its consumer once, when most of it is used', async (t) => {
    const reader = await newReader();
    const receiver = await startWebhookReceiver();
    t.after(async () => {
      receiver.stop();
    });
    const body = { url: `${receiver.url}/hook`, event_types: ['consumer.*'] };
    const made = await gateway.request('/v1/webhook-endpoints', { as: reader, body });
    assert.equal(made.status, 201, await made.text());
    assert.equal((await give(reader.id, { requests: 5, per: 'month' })).status, 200);
    for (let sent = 0; sent < 4; sent++) assert.equal((await ask(reader)).status, 200);
    const [received] = await receiver.until(1);
    assert.equal(received?.event.type, 'consumer.allowance_used');
    assert.deepEqual(received?.event.resource, { type: 'consumer', id: reader.id });
    const allowance = (received?.event.data as Shown | undefined)?.allowance;
    assert.deepEqual([allowance?.used, allowance?.requests], [4, 5]);
    assert.equal((await ask(reader)).status, 200);
    assert.equal((await ask(reader)).status, 429);
    await give(reader.id, { requests: 9, per: 'month' });
    const page = await gateway.request('/v1/events?type=consumer.allowance_used', { as: reader });
    const { data } = (await page.json()) as { data: { type: string }[] };
    assert.deepEqual(
      data.map(({ type }) => type),
      ['consumer.allowance_used'],
    );
  });

  test('who has one gives away no more', async () => {
    const boss = await gateway.newConsumer({ resource: 'consumers', actions: ['read', 'write'] });
    assert.equal((await give(boss.id, { requests: 3100, per: 'month' })).status, 200);
    const create = (allowance?: object | null) => {
      const permissions = [{ resource: 'consumers', actions: ['read'] }];
      const body = { name: 'made', permissions, ...(allowance !== undefined && { allowance }) };
      return gateway.request('/v1/admin/consumers', { as: boss, body });
    };
    for (const wider of [undefined, null, { requests: 3101, per: 'month' }, { requests: 101, per: 'day' }])
      await assertProblem(await create(wider), 403, 'permission_denied');
    for (const within of [
      { requests: 3100, per: 'month' },
      { requests: 100, per: 'day' },
    ])
      assert.equal((await create(within)).status, 201);
    await assertProblem(await give(boss.id, null, boss), 403, 'permission_denied');
  });
});
