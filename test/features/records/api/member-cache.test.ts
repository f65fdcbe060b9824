import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Events, openEvents } from '../../../support/events.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { type RedisServer, startRedis } from '../../../support/redis.ts';
import { memberEvent, signedRequest, webhookPath } from '../../../support/webhooks.ts';

const postgres = await startPostgres();
const firstRedis = await startRedis();

describe('two replicas that cache members', {
  skip: !(postgres && firstRedis) && 'no PostgreSQL or Redis',
}, () => {
  let redis: RedisServer;
  let own: OwnOrg;
  let secretsDir: string;
  let secret: string;
  let replicas: TestGateway[];
  let console: Credentials;
  let events: Events;

  before(async () => {
    redis = firstRedis as RedisServer;
    own = await startOwnOrg();
    secretsDir = await mkdtemp(join(tmpdir(), 'handoff-secrets-'));
    await own.trust(secretsDir);
    const env = {
      ...own.env,
      DATABASE_URL: postgres?.url,
      REDIS_URL: redis.url,
      SECRETS_DIR: secretsDir,
      SHUTDOWN_SECONDS: '1',
    };
    const first = await startGateway(env);
    replicas = [first, await startGateway(env)];
    console = first.console;
    secret = (await readFile(join(secretsDir, 'webhooks/crm'), 'utf8')).trim();
    events = await openEvents(postgres?.url as string);
  });
  after(async () => {
    for (const replica of replicas) await replica.stop();
    await events.close();
    await own.close();
    await redis.stop();
    await postgres?.stop();
    await rm(secretsDir, { recursive: true });
  });

  const read = (id: string, replica = 0, headers = {}, as = console) =>
    (replicas[replica] as TestGateway).request(`/v1/members/${id}`, { as, headers });
  const nameOf = async (response: Response) => ((await response.json()) as { last_name: string }).last_name;
  const newMember = async () => {
    const id = randomUUID();
    await own.org.insert('Contact', [{ LastName: 'Old', External_Id__c: id }]);
    return id;
  };
  /** As somebody does in the CRM. */
  const rename = async (id: string, name: string) => {
    await own.org.remove('Contact', [id]);
    await own.org.insert('Contact', [{ LastName: name, External_Id__c: id }]);
  };
  const notify = async (id: string, replica = 0, change = {}) => {
    const request = signedRequest(secret, memberEvent(id, change));
    assert.equal((await (replicas[replica] as TestGateway).request(webhookPath, request)).status, 202);
  };
  /** What a counter of a replica says. */
  const counter = async (name: string, replica = 0) => {
    const text = await (await fetch(`${replicas[replica]?.operationsUrl}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1]);
  };

  test('serve on both what one has read, with the same headers, and count it', async () => {
    const id = await newMember();
    const hits = await counter('handoff_member_cache_hits_total', 1);
    const misses = await counter('handoff_member_cache_misses_total');
    const fetched = await read(id);
    await rename(id, 'New');
    const cached = await read(id.toUpperCase(), 1);
    for (const name of ['etag', 'cache-control', 'content-type'])
      assert.equal(cached.headers.get(name), fetched.headers.get(name), name);
    assert.match(cached.headers.get('cache-control') ?? '', /^private\b/);
    assert.match(cached.headers.get('age') ?? '', /^\d+$/);
    assert.equal(fetched.headers.get('age'), null);
    assert.deepEqual(await cached.json(), await fetched.json());
    // With a condition fetch asks for no-cache, unless a header says what to ask for.
    const known = { 'if-none-match': fetched.headers.get('etag') ?? '', 'cache-control': 'max-age=300' };
    assert.equal((await read(id, 1, known)).status, 304);
    assert.equal(await counter('handoff_member_cache_hits_total', 1), hits + 2);
    assert.equal(await counter('handoff_member_cache_misses_total'), misses + 1);
    assert.equal(await nameOf(await read(id, 1, { 'cache-control': 'no-cache' })), 'New');
  });

  test('give no older answer than max-age, and keep the newer one for all', async () => {
    const id = await newMember();
    assert.equal(await nameOf(await read(id)), 'Old');
    await rename(id, 'New');
    await sleep(1100);
    const old = await read(id, 1, { 'cache-control': 'max-age=300' });
    assert.ok(Number(old.headers.get('age')) >= 2);
    assert.equal(await nameOf(old), 'Old');
    const current = await read(id, 1, { 'cache-control': 'max-age=1' });
    assert.equal(current.headers.get('age'), null);
    assert.equal(await nameOf(current), 'New');
    assert.equal(await nameOf(await read(id)), 'New');
  });

  test('drop it on both when a webhook comes to one, deletions included', async () => {
    const id = await newMember();
    assert.equal(await nameOf(await read(id)), 'Old');
    await rename(id, 'New');
    assert.equal(await nameOf(await read(id, 1)), 'Old');
    await notify(id.toUpperCase(), 0);
    // Without the webhook it would stay for minutes.
    await eventually(async () => assert.equal(await nameOf(await read(id, 1)), 'New'), { everyMs: 10 });
    assert.equal(await nameOf(await read(id, 0)), 'New');
    await own.org.remove('Contact', [id]);
    await notify(id, 1, { type: 'member.deleted' });
    await eventually(async () => assert.equal((await read(id, 0)).status, 404), { everyMs: 10 });
    await assertProblem(await read(id, 1), 404, 'not_found');
    await own.org.insert('Contact', [{ LastName: 'Again', External_Id__c: id }]);
    assert.equal(await nameOf(await read(id, 1)), 'Again');
  });

  test('drop it for an older event too that comes late', async () => {
    const id = await newMember();
    await notify(id, 0, { timestamp: '2027-01-01T00:00:02Z' });
    await eventually(async () => assert.ok(!(await events.all()).some(({ state }) => state === 'received')), {
      everyMs: 10,
    });
    assert.equal(await nameOf(await read(id)), 'Old');
    await rename(id, 'New');
    await notify(id, 1, { timestamp: '2027-01-01T00:00:01Z' });
    await eventually(async () => assert.equal(await nameOf(await read(id)), 'New'), { everyMs: 10 });
    await eventually(async () => {
      const late = (await events.all()).filter(({ member_id, came_late }) => member_id === id && came_late);
      assert.equal(late.length, 1);
    });
  });

  test('do not store what was read before a webhook came', async () => {
    const id = await newMember();
    // Not the description of the object, which the gateway asks for in its own time.
    const match = { operation: 'query', object: 'Contact' };
    const hold = await own.org.arm({ match, effect: { kind: 'hold' }, times: 1 });
    const slow = read(id, 1);
    await hold.hit();
    await rename(id, 'New');
    const before = (await events.all()).length;
    await notify(id, 0);
    await eventually(
      async () => assert.ok(!(await events.all()).slice(before).some(({ state }) => state !== 'processed')),
      { everyMs: 10 },
    );
    await hold.release();
    assert.equal(await nameOf(await slow), 'Old');
    assert.equal(await nameOf(await read(id, 1)), 'New');
    await hold.remove();
  });

  test('never serve it to a consumer without the permission', async () => {
    const id = await newMember();
    await read(id);
    const [first] = replicas as [TestGateway];
    const stranger = await first.newConsumer({ resource: 'quotes', actions: ['read'] });
    await assertProblem(await read(id, 0, {}, stranger), 403, 'permission_denied');
    const nobody = await first.request(`/v1/members/${id}`, { as: null });
    await assertProblem(nobody, 401, 'invalid_credentials');
  });

  test('serve it while the CRM is down, and write by what the CRM itself says', async () => {
    const id = await newMember();
    await read(id);
    await own.org.remove('Contact', [id]);
    assert.equal((await read(id)).status, 200);
    const quote = { trip_id: randomUUID(), member_id: id, name: 'a', source: 'b', details: {} };
    const write = await (replicas[0] as TestGateway).request('/v1/quotes', {
      as: console,
      body: quote,
      headers: { 'idempotency-key': randomUUID() },
    });
    await assertProblem(write, 422, 'member_not_found', '#/member_id');
    const down = await own.org.arm({ match: {}, effect: { kind: 'down' } });
    assert.equal((await read(id)).status, 200);
    await down.remove();
  });

  test('read from the CRM while Redis is unavailable, and a webhook waits until it can be applied', async () => {
    const id = await newMember();
    await read(id);
    const { port } = new URL(redis.url);
    await redis.stop();
    await rename(id, 'New');
    // The circuit of the test before may still be open.
    let response = await read(id);
    for (; response.status !== 200; response = await read(id)) await sleep(50);
    assert.equal(await nameOf(response), 'New');
    await rename(id, 'Newer');
    assert.equal(await nameOf(await read(id)), 'Newer');
    await notify(id);
    const stateOf = async () => (await events.all()).findLast(({ member_id }) => member_id === id);
    await eventually(async () => assert.notEqual((await stateOf())?.attempts ?? 0, 0), { everyMs: 10 });
    assert.equal((await stateOf())?.state, 'received');
    redis = (await startRedis({ port: Number(port) })) as RedisServer;
    await eventually(async () => assert.equal((await stateOf())?.state, 'processed'), { everyMs: 50 });
  });
});
