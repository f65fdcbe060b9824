import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { describe, mock, test } from 'node:test';
import { SecretWrites } from '../../src/api/pipeline/secret-writes.ts';
import { documentedRoutes } from '../../src/app/routes.ts';
import { acquireFileLock } from '../../src/platform/base/files.ts';
import { eventually } from '../support/eventually.ts';
import { type Credentials, startGateway } from '../support/gateway.ts';

type Request = Parameters<SecretWrites['run']>[0];

const manages = [{ resource: 'consumers', actions: ['write'] }];

/** Writes of one process, of which none ends before it is told to. */
function makeWrites() {
  const writes = new SecretWrites();
  const began: string[] = [];
  const ends: (() => void)[] = [];
  const ended: Promise<unknown>[] = [];
  return {
    began,
    /** Resolves to `done` or the code of the refusal. */
    send: (id: string, permissions: object[] = [], socket = new EventEmitter()) => {
      const request = { consumer: { id, permissions }, raw: { socket } } as unknown as Request;
      const work = () => {
        began.push(id);
        return new Promise<string>((resolve) => ends.push(() => resolve('done')));
      };
      const end = writes.run(request, work).catch(({ code }: { code: string }) => code);
      ended.push(end);
      return end;
    },
    /** Ends them one after the other, until none is left. */
    endAll: async () => {
      const all = Promise.all(ended).then(() => ends.push(() => undefined));
      while (ends.length > 0) {
        ends.shift()?.();
        await new Promise(setImmediate);
      }
      await all;
    },
  };
}

const busy = ['con_a', 'con_b', 'con_c', 'con_d'];

describe('requests that write secrets', () => {
  test('take turns: administrators first, then one consumer after the other', async () => {
    const { send, began, endAll } = makeWrites();
    for (const id of busy) void send(id);
    for (const id of ['con_e', 'con_e', 'con_e', 'con_f']) void send(id);
    void send('con_admin', manages);
    // Of another world.
    void send('con_test00admin', manages);
    await new Promise(setImmediate);
    assert.deepEqual(began, busy);
    await endAll();
    assert.deepEqual(began.slice(4), ['con_admin', 'con_e', 'con_f', 'con_test00admin', 'con_e', 'con_e']);
  });

  test('run one by one where they are of one consumer', async () => {
    const { send, began, endAll } = makeWrites();
    for (let i = 0; i < 3; i++) void send('con_a');
    await new Promise(setImmediate);
    assert.deepEqual(began, ['con_a']);
    await endAll();
    assert.deepEqual(began, ['con_a', 'con_a', 'con_a']);
  });

  test('are refused beyond 100 that wait, those of who has most first', async () => {
    const { send, began, endAll } = makeWrites();
    for (const id of busy) void send(id);
    const crowd = Array.from({ length: 100 }, () => send('con_e'));
    assert.equal(await send('con_e'), 'secrets_unavailable');
    const admin = send('con_admin', manages);
    assert.equal(await crowd[99], 'secrets_unavailable');
    const other = send('con_f');
    assert.equal(await crowd[98], 'secrets_unavailable');
    await endAll();
    assert.deepEqual(await Promise.all([admin, other, crowd[97]]), ['done', 'done', 'done']);
    assert.equal(began.length, 104);
  });

  test('of consumers do not displace those of administrators', async () => {
    const { send, endAll } = makeWrites();
    for (const id of busy) void send(id);
    const admins = Array.from({ length: 100 }, (_, i) => send(`con_admin${i}`, manages));
    assert.equal(await send('con_f'), 'secrets_unavailable');
    assert.equal(await send('con_admin100', manages), 'secrets_unavailable');
    await endAll();
    assert.deepEqual(new Set(await Promise.all(admins)), new Set(['done']));
  });

  test('wait 20 s at most, and not for a caller who has hung up', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      const { send, began, endAll } = makeWrites();
      for (const id of busy) void send(id);
      const socket = new EventEmitter();
      const gone = send('con_e', [], socket);
      const late = send('con_f');
      mock.timers.tick(19_999);
      assert.equal(socket.listenerCount('close'), 1);
      socket.emit('close');
      assert.equal(await gone, 'invalid_request');
      mock.timers.tick(1);
      assert.equal(await late, 'secrets_unavailable');
      await endAll();
      assert.deepEqual(began, busy);
      assert.equal(socket.listenerCount('close'), 0);
    } finally {
      mock.timers.reset();
    }
  });

  test('are all that may find the secrets manager unavailable', () => {
    for (const { method, problems, permission, writesSecrets, operationId } of documentedRoutes()) {
      const mayWrite =
        method !== 'GET' && !('none' in permission) && problems.includes('secrets_unavailable');
      assert.equal(writesSecrets === true, mayWrite, operationId);
    }
  });

  test('keep an administrator waiting no longer than the write that runs', async (t) => {
    const gateway = await startGateway();
    t.after(async () => {
      await gateway.stop();
    });
    const permission = { resource: 'quotes', actions: ['read'] } as const;
    const shops: Credentials[] = [];
    for (let i = 0; i < 6; i++)
      shops.push(await gateway.newConsumer({ resource: 'quotes', actions: [...permission.actions] }));
    const [gone, crowd, ...others] = shops as [Credentials, Credentials, ...Credentials[]];
    const answered: string[] = [];
    const rotate = async (
      who: string,
      as: Credentials,
      path = '/v1/consumer/rotate',
      signal?: AbortSignal,
    ) => {
      const headers = { 'x-api-key': as.apiKey, 'x-api-secret': as.apiSecret };
      const answer = await fetch(gateway.url + path, { method: 'POST', headers, signal: signal ?? null });
      answered.push(who);
      return answer.status;
    };
    const untilAnswered = (count: number) =>
      eventually(() => assert.ok(answered.length >= count), { everyMs: 5 });
    const lock = await acquireFileLock(join(gateway.dataDir, 'secrets', '~writes'), { subject: 'secrets' });
    const running = others.map((shop) => rotate('running', shop));
    const many = Array.from({ length: 120 }, () => rotate('crowd', crowd));
    // Twenty find no place, and by then the others wait.
    await untilAnswered(20);
    const hangUp = new AbortController();
    const left = rotate('gone', gone, undefined, hangUp.signal).catch(() => 'gone');
    await untilAnswered(21);
    const ended = rotate('admin', gateway.admin, `/v1/admin/consumers/${crowd.id}/rotate`);
    await untilAnswered(22);
    hangUp.abort();
    assert.equal(await left, 'gone');
    await lock.release();
    assert.equal(await ended, 200);
    assert.deepEqual(new Set(await Promise.all(running)), new Set([200]));
    assert.deepEqual(answered.slice(0, 22), Array(22).fill('crowd'));
    // Its pair is rotated by the time its turns come, and none of them ends the new one.
    const statuses = await Promise.all(many);
    assert.equal(statuses.filter((status) => status === 503).length, 22);
    assert.ok(!statuses.includes(200));
    assert.equal((await gateway.request('/v1/consumer', { as: gone })).status, 200);
    const own = await gateway.request(`/v1/admin/consumers/${gone.id}`, { as: gateway.admin });
    assert.equal(((await own.json()) as { rotatedAt: string | null }).rotatedAt, null);
  });
});
