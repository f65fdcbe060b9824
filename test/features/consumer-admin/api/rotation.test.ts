import assert from 'node:assert/strict';
import { rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';
import { useRedis } from '../../../support/redis.ts';

interface Rotation {
  id: string;
  apiKey: string;
  apiSecret: string;
  rotatedAt: string;
  previous: { apiKey: string; expiresAt: string };
}

const hour = 3_600_000;
const redis = await useRedis();

/** Rotates as an operator; `body` as it is given. */
async function rotate(gateway: TestGateway, id: string, body?: object): Promise<Rotation> {
  const response = await gateway.request(`/v1/admin/consumers/${id}/rotate`, {
    method: 'POST',
    as: gateway.admin,
    ...(body && { body }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text) as Rotation;
}

/** Whether the pair is let in; the answer to this body is 400 for everybody who is. */
async function isAccepted(gateway: TestGateway, pair: Omit<Credentials, 'id'>): Promise<boolean> {
  const response = await gateway.request('/api/v1/handoff', { as: pair, body: '{' });
  await response.text();
  assert.ok([400, 401].includes(response.status), String(response.status));
  return response.status === 400;
}

/** Makes a consumer through the API. */
async function createConsumer(gateway: TestGateway): Promise<Credentials> {
  const response = await gateway.request('/v1/admin/consumers', {
    as: gateway.admin,
    body: { name: 'partner', permissions: [{ resource: 'quotes', actions: ['read', 'write'] }] },
  });
  assert.equal(response.status, 201);
  return (await response.json()) as Credentials;
}

describe('POST /v1/admin/consumers/:id/rotate', () => {
  const gateway = useGateway({ RATE_LIMIT_PER_MINUTE: '0' });

  test('makes a new pair at once, and the old one stays valid for a day', async () => {
    const old = await createConsumer(gateway);
    const response = await gateway.request(`/v1/admin/consumers/${old.id}/rotate`, {
      method: 'POST',
      as: gateway.admin,
    });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const rotation = (await response.json()) as Rotation;
    assert.deepEqual(Object.keys(rotation), ['id', 'apiKey', 'apiSecret', 'rotatedAt', 'previous']);
    assert.deepEqual(Object.keys(rotation.previous), ['apiKey', 'expiresAt']);
    assert.equal(rotation.id, old.id);
    assert.equal(rotation.previous.apiKey, old.apiKey);
    assert.equal(Date.parse(rotation.previous.expiresAt) - Date.parse(rotation.rotatedAt), 24 * hour);
    assert.ok(await isAccepted(gateway, rotation));
    assert.ok(await isAccepted(gateway, old));
    assert.equal(await isAccepted(gateway, { apiKey: old.apiKey, apiSecret: rotation.apiSecret }), false);
    const shown = await gateway.request(`/v1/admin/consumers/${old.id}`, { as: gateway.admin });
    const text = await shown.text();
    assert.doesNotMatch(text, /hgs_|"hash"/);
    const { apiKey, rotatedAt, credentials } = JSON.parse(text) as Record<string, unknown>;
    assert.deepEqual([apiKey, rotatedAt], [rotation.apiKey, rotation.rotatedAt]);
    assert.deepEqual(
      (credentials as { state: string }[]).map(({ state }) => state),
      ['active', 'rotated'],
    );
  });

  test('takes no body, an empty one of any content type, {} and a grace window', async () => {
    const { id } = await createConsumer(gateway);
    const graceOf = ({ previous, rotatedAt }: Rotation) =>
      Date.parse(previous.expiresAt) - Date.parse(rotatedAt);
    assert.equal(graceOf(await rotate(gateway, id, {})), 24 * hour);
    assert.equal(graceOf(await rotate(gateway, id, { graceWindowHours: 0.25 })), hour / 4);
    for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
      const response = await gateway.request(`/v1/admin/consumers/${id}/rotate`, {
        method: 'POST',
        as: gateway.admin,
        headers: { 'content-type': type, 'content-length': '0' },
      });
      assert.equal(response.status, 200, type);
    }
  });

  test('cuts the old pair at once with a grace window of 0', async () => {
    const old = await createConsumer(gateway);
    const next = await rotate(gateway, old.id, { graceWindowHours: 0 });
    assert.equal(await isAccepted(gateway, old), false);
    assert.ok(await isAccepted(gateway, next));
    assert.equal(next.previous.expiresAt, next.rotatedAt);
    const shown = await gateway.request(`/v1/admin/consumers/${old.id}`, { as: gateway.admin });
    const { credentials } = (await shown.json()) as { credentials: { apiKey: string; state: string }[] };
    assert.deepEqual(
      credentials.map(({ apiKey, state }) => [apiKey, state]),
      [
        [next.apiKey, 'active'],
        [old.apiKey, 'expired'],
      ],
    );
  });

  test('refuses what is no grace window, and changes nothing', async () => {
    const { id, apiKey } = await createConsumer(gateway);
    const path = `/v1/admin/consumers/${id}/rotate`;
    const send = (body: object | string) => gateway.request(path, { as: gateway.admin, body });
    for (const graceWindowHours of [-1, '1', null, 876_001]) {
      await assertProblem(await send({ graceWindowHours }), 400, 'invalid_request', '#/graceWindowHours');
    }
    await assertProblem(await send({ hours: 1 }), 400, 'invalid_request', '#/hours');
    await assertProblem(await send('[]'), 400, 'invalid_request', '#');
    await assertProblem(await send('null'), 400, 'invalid_request', '#');
    await assertProblem(await send('{'), 400, 'malformed_json');
    const shown = await gateway.request(`/v1/admin/consumers/${id}`, { as: gateway.admin });
    assert.equal(((await shown.json()) as { apiKey: string }).apiKey, apiKey);
  });

  test('needs a consumer that exists', async () => {
    for (const unknown of ['con_0000000000000000', 'nobody', '..%2Fkeys%2Fpepper']) {
      const response = await gateway.request(`/v1/admin/consumers/${unknown}/rotate`, {
        method: 'POST',
        as: gateway.admin,
      });
      await assertProblem(response, 404, 'not_found');
    }
  });

  test('ignores an Idempotency-Key: an answer that shows a secret is never stored', async () => {
    const { id } = await createConsumer(gateway);
    const send = async () => {
      const response = await gateway.request(`/v1/admin/consumers/${id}/rotate`, {
        method: 'POST',
        as: gateway.admin,
        headers: { 'idempotency-key': '8e03978e-40d5-43e8-bc93-6894a57f9324' },
      });
      assert.equal(response.headers.get('idempotent-replayed'), null);
      return (await response.json()) as Rotation;
    };
    assert.notEqual((await send()).apiKey, (await send()).apiKey);
  });

  test('answers 503 while the secrets manager cannot be read', async () => {
    const { id } = await createConsumer(gateway);
    const path = join(gateway.dataDir, 'secrets', 'consumers', id);
    // A link to itself is the fault of a file that nobody gets past, root included.
    await rm(path);
    await symlink(path, path);
    const response = await gateway.request(`/v1/admin/consumers/${id}/rotate`, {
      method: 'POST',
      as: gateway.admin,
    });
    assert.match(response.headers.get('retry-after') ?? '', /^\d+$/);
    await assertProblem(response, 503, 'secrets_unavailable');
    await rm(path);
  });

  test('50 rotations under traffic: no valid request is refused, and every old pair dies', async () => {
    const graceMs = 5000;
    /** A client that still has the old pair this long before its expiry takes the new one. */
    const marginMs = 2500;
    const first = await createConsumer(gateway);
    const dying: { apiKey: string; apiSecret: string; expiresAt: number }[] = [];
    let newest = { ...first, expiresAt: Number.POSITIVE_INFINITY };
    let stopped = false;
    const seen = { requests: 0, withOld: 0 };
    const refused: { pair: { expiresAt: number }; at: number }[] = [];
    const client = async () => {
      let held = newest;
      let switchAt = Number.POSITIVE_INFINITY;
      while (!stopped) {
        if (held !== newest && switchAt === Number.POSITIVE_INFINITY) {
          const left = held.expiresAt - marginMs - Date.now();
          switchAt = Date.now() + Math.random() * Math.max(0, left);
        }
        if (Date.now() >= Math.min(switchAt, held.expiresAt - marginMs)) {
          held = newest;
          switchAt = Number.POSITIVE_INFINITY;
        }
        seen.requests += 1;
        if (held !== newest) seen.withOld += 1;
        const pair = held;
        if (!(await isAccepted(gateway, pair))) refused.push({ pair, at: Date.now() });
        await sleep(15);
      }
    };
    const clients = Array.from({ length: 6 }, client);
    for (let i = 0; i < 50; i++) {
      const rotation = await rotate(gateway, first.id, { graceWindowHours: graceMs / hour });
      const expiresAt = Date.parse(rotation.previous.expiresAt);
      // In place, so that a client that holds this pair learns of its expiry.
      Object.assign(newest, { expiresAt });
      dying.push(newest);
      newest = { ...rotation, expiresAt: Number.POSITIVE_INFINITY };
      await sleep(20);
    }
    await sleep(Math.max(0, (dying.at(-1)?.expiresAt ?? 0) - Date.now()));
    stopped = true;
    await Promise.all(clients);
    // A machine that stands still for longer than the margin lets a pair expire on its way.
    const valid = refused.filter(({ pair, at }) => at < pair.expiresAt);
    assert.deepEqual(valid, [], JSON.stringify(seen));
    assert.ok(seen.requests > 200 && seen.withOld > 50, JSON.stringify(seen));
    assert.equal(dying.length, 50);
    for (const pair of dying) assert.equal(await isAccepted(gateway, pair), false);
    assert.ok(await isAccepted(gateway, newest));
  });
});

describe('two replicas with one secrets manager', { skip: !redis && 'no redis-server' }, () => {
  const here = useGateway({ REDIS_URL: redis?.url });
  const there = useGateway(() => ({
    REDIS_URL: redis?.url,
    SECRETS_DIR: join(here.dataDir, 'secrets'),
  }));

  const until = async (pair: Omit<Credentials, 'id'>, accepted: boolean, gateway = there) => {
    await eventually(async () => assert.equal(await isAccepted(gateway, pair), accepted), { everyMs: 5 });
  };

  test('know of a new consumer, a rotation and a revocation that the other made', async () => {
    const old = await createConsumer(here);
    await until(old, true);
    const next = await rotate(here, old.id, { graceWindowHours: 0 });
    await until(next, true);
    await until(old, false);
    const deleted = await here.request(`/v1/admin/consumers/${old.id}`, { method: 'DELETE', as: here.admin });
    assert.equal(deleted.status, 204);
    assert.equal(await isAccepted(here, next), false);
    await until(next, false);
  });

  test('rotate at once and lose no pair', async () => {
    const { id, ...pair } = await createConsumer(here);
    const rotations = await Promise.all(
      Array.from({ length: 10 }, (_, i) => rotate({ ...(i % 2 ? here : there), admin: here.admin }, id)),
    );
    for (const each of [pair, ...rotations]) {
      await until(each, true, there);
      await until(each, true, here);
    }
  });
});
