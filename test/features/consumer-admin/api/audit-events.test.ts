import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { createAttemptIds } from '../../../../src/identity/audit/attempt.ts';
import type { AuditEvent } from '../../../../src/identity/audit/audit-event.ts';
import { createConsumers } from '../../../../src/identity/consumers/consumers.ts';
import { createMetrics } from '../../../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../../../src/platform/secrets/file.ts';
import type { SecretsManager } from '../../../../src/platform/secrets/secrets-manager.ts';
import { eventually } from '../../../support/eventually.ts';
import { type RequestOptions, startGateway, useGateway } from '../../../support/gateway.ts';
import { createInstallation } from '../../../support/gateway-process.ts';
import { recordLog } from '../../../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';

const path = '/v1/admin/audit-events';
const consumers = '/v1/admin/consumers';
const quotes = [{ resource: 'quotes', actions: ['read'] }];

interface Page {
  data: AuditEvent[];
  next_cursor: string | null;
  has_more: boolean;
}

type Send = (path: string, options?: RequestOptions) => Promise<Response>;

async function eventsOf(send: Send, query: string): Promise<AuditEvent[]> {
  const response = await send(`${path}?${query}`);
  assert.equal(response.status, 200, await response.clone().text());
  return ((await response.json()) as Page).data;
}

/** Asks until it has so many: others record theirs when they can. */
async function untilEvents(send: Send, query: string, count: number): Promise<AuditEvent[]> {
  return eventually(async () => {
    const events = await eventsOf(send, query);
    assert.ok(events.length >= count, `${events.length} of ${count} events`);
    return events;
  });
}

/** An id that no event has. */
const laterId = createAttemptIds().bind(undefined, '2031-01-01T00:00:00.000Z');

describe('GET /v1/admin/audit-events', () => {
  const gateway = useGateway();

  const send: Send = (target, options = {}) =>
    gateway.request(target, {
      as: gateway.admin,
      ...options,
      headers: { 'x-actor': 'In%C3%A9s', 'user-agent': 'test'.repeat(100), 'x-request-id': 'audit-1' },
    });
  const make = async (): Promise<{ id: string; apiKey: string; apiSecret: string }> => {
    const response = await send(consumers, { body: { name: 'Partner A', permissions: quotes } });
    assert.equal(response.status, 201);
    return (await response.json()) as never;
  };
  const changed = ({ action, changes }: AuditEvent) => [action, ...changes.map(({ field }) => field)];

  test('has every change, once, with who did it', async () => {
    const { id, apiKey, apiSecret } = await make();
    const one = `${consumers}/${id}`;
    await send(one, { method: 'PATCH', body: { name: 'Partner B', rateLimitPerMinute: 600 } });
    await send(one, { method: 'PATCH', body: { enabled: false, validUntil: '2030-01-01T00:00:00Z' } });
    await send(one, { method: 'PATCH', body: { enabled: true } });
    const rotation = (await (await send(`${one}/rotate`, { method: 'POST' })).json()) as {
      apiKey: string;
      apiSecret: string;
    };
    assert.equal((await send(one, { method: 'DELETE' })).status, 204);
    const events = await eventsOf(send, `target_id=${id}`);
    assert.deepEqual(events.toReversed().map(changed), [
      ['consumer.created', 'name', 'permissions', 'apiKey'],
      ['consumer.updated', 'name', 'rateLimitPerMinute'],
      ['consumer.disabled', 'enabled', 'validUntil'],
      ['consumer.enabled', 'enabled'],
      ['consumer.rotated', 'apiKey'],
      ['consumer.revoked'],
    ]);
    const { id: adminId } = gateway.admin;
    for (const event of events) {
      assert.deepEqual(event.actor, {
        type: 'consumer',
        id: adminId,
        name: 'admin',
        person: 'Inés',
        verified: false,
      });
      assert.deepEqual(Object.keys(event).slice(0, 4), ['id', 'timestamp', 'action', 'actor']);
      const { address, request_id, user_agent } = event;
      assert.deepEqual([address, request_id, user_agent?.length], ['127.0.0.1', 'audit-1', 255]);
    }
    assert.deepEqual(events[1]?.changes, [{ field: 'apiKey', from: apiKey, to: rotation.apiKey }]);
    assert.deepEqual(events[4]?.changes, [
      { field: 'name', from: 'Partner A', to: 'Partner B' },
      { field: 'rateLimitPerMinute', from: null, to: 600 },
    ]);
    const lines = gateway.logLines.filter(
      ({ facts }) => facts['audit'] === true && facts['request_id'] === 'audit-1',
    );
    assert.deepEqual(
      new Set(lines.map(({ facts }) => facts['id'])),
      new Set(events.map((event) => event.id)),
    );
    assert.equal(lines.length, events.length);
    const visible = JSON.stringify([events, lines]);
    assert.ok(
      !visible.includes(apiSecret) && !visible.includes(rotation.apiSecret) && !visible.includes('"hash"'),
    );
    // Once all of it is recorded, nothing of the consumer is left in the secrets manager.
    const names = () => readdir(join(gateway.dataDir, 'secrets', 'consumers'));
    await eventually(async () => assert.ok(!(await names()).includes(id)));
  });

  test('is not kept out by another event whose text the database cannot hold', async () => {
    const secrets = createFileSecretsManager({ dir: join(gateway.dataDir, 'secrets') });
    const store = storeOf(secrets);
    // An earlier version took such names.
    const { consumer, version } = await store.create({ name: 'old', permissions: quotes });
    const [event] = consumer.auditEvents as AuditEvent[];
    const target = { id: consumer.id, name: 'half \ud83d, nul \0' };
    await store.save({ ...consumer, auditEvents: [{ ...event, id: laterId(), target }] }, version);
    const [stored] = await untilEvents(send, `target_id=${consumer.id}`, 1);
    await secrets.close();
    assert.ok(stored);
    const { id } = await make();
    assert.equal((await eventsOf(send, `target_id=${id}`)).length, 1);
    const half = send(consumers, { body: { name: 'half \ud83d', permissions: quotes } });
    await assertProblem(await half, 400, 'invalid_request', '#/name');
  });

  test('changes of a consumer never wait for what is recorded, however long they are', async () => {
    const { id } = await make();
    const one = `${consumers}/${id}`;
    // IPv6 in full: the list before and after fills more than a record holds beside others.
    const blocks = (from: number) =>
      Array.from(
        { length: 100 },
        (_, nth) => `2001:db8:aaaa:bbbb:cccc:dddd:eeee:${(from + nth).toString(16)}`,
      );
    const bodies = Array.from({ length: 6 }, (_, nth) => ({ allowedAddresses: blocks(0x1000 * (nth + 1)) }));
    for (const body of [...bodies, { name: 'after all' }, { enabled: false }]) {
      const response = await send(one, { method: 'PATCH', body });
      assert.equal(response.status, 200, await response.text());
    }
    const events = await untilEvents(send, `target_id=${id}`, bodies.length + 3);
    assert.equal(events.length, bodies.length + 3);
  });

  test('keeps in a record what a newer version has written there', async () => {
    const secrets = createFileSecretsManager({ dir: join(gateway.dataDir, 'secrets') });
    const store = storeOf(secrets);
    const { consumer, version } = await store.create({ name: 'newer', permissions: quotes });
    const [event] = consumer.auditEvents as AuditEvent[];
    const newer = { ...event, id: laterId(), action: 'consumer.certified' };
    await store.save({ ...consumer, auditEvents: [event, newer] }, version);
    await store.forgetEvents(consumer.id, new Set([String(event?.id)]));
    assert.deepEqual((await store.find(consumer.id))?.consumer.auditEvents, [newer]);
    await secrets.close();
  });

  test('is filtered, and goes on with a cursor', async () => {
    const { id } = await make();
    const [created] = await eventsOf(
      send,
      `target_id=${id}&action=consumer.created&actor_id=${gateway.admin.id}`,
    );
    assert.equal(created?.target.id, id);
    assert.deepEqual(await eventsOf(send, `target_id=${id}&action=consumer.revoked`), []);
    assert.deepEqual(await eventsOf(send, 'actor_id=con_nobody'), []);
    assert.deepEqual(await eventsOf(send, 'since=2999-01-01T00:00:00Z'), []);
    assert.ok(
      (await eventsOf(send, `since=${created?.timestamp}`)).some((event) => event.id === created?.id),
    );
    const first = (await (await send(`${path}?limit=1`)).json()) as Page;
    const second = (await (await send(`${path}?limit=1&cursor=${first.next_cursor}`)).json()) as Page;
    assert.ok(String(second.data[0]?.id) < String(first.data[0]?.id));
    await assertProblem(await send(`${path}?action=x`), 400, 'invalid_request', 'action');
    const other = `${path}?limit=1&target_id=${id}&cursor=${first.next_cursor}`;
    await assertProblem(await send(other), 400, 'invalid_cursor', 'cursor');
  });

  test('has the first start, and what is done on the command line', async () => {
    const [admin] = await untilEvents(send, `target_id=${gateway.admin.id}`, 1);
    assert.deepEqual(admin?.actor, {
      type: 'service',
      id: 'service',
      name: 'service',
      person: null,
      verified: false,
    });
    const secrets = createFileSecretsManager({ dir: join(gateway.dataDir, 'secrets') });
    const { log } = recordLog();
    const commands = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 3600 });
    const { consumer } = await commands.administration.create({ name: 'shop', permissions: quotes });
    for (let i = 0; i < 12; i++) await commands.administration.change(consumer.id, { name: `shop ${i}` });
    await commands.administration.revoke(consumer.id);
    const events = await untilEvents(send, `target_id=${consumer.id}`, 14);
    await secrets.close();
    assert.deepEqual(
      events.map(({ action }) => action).filter((action) => action !== 'consumer.updated'),
      ['consumer.revoked', 'consumer.created'],
    );
    assert.ok(
      events.every(
        ({ actor, address }) => actor.type === 'command_line' && actor.id !== '' && address === null,
      ),
    );
    const logged = gateway.logLines.filter(({ facts }) =>
      JSON.stringify(facts['target'])?.includes(consumer.id),
    );
    assert.equal(logged.length, 14);
  });
});

test('a change is recorded though the process is killed right after its answer', async (t) => {
  const installation = await createInstallation();
  t.after(async () => {
    await installation.remove();
  });
  const first = await installation.start();
  const { admin, console } = await installation.credentials();
  const headers = { 'x-api-key': admin.apiKey, 'x-api-secret': admin.apiSecret };
  const answer = await fetch(`${first.url}${consumers}/${console.id}`, { method: 'DELETE', headers });
  first.signal('SIGKILL');
  assert.equal(answer.status, 204);
  await first.ended;
  const second = await installation.start();
  const send: Send = (target) => fetch(second.url + target, { headers });
  const events = await untilEvents(send, `target_id=${console.id}`, 2);
  assert.deepEqual(
    events.map(({ action }) => action),
    ['consumer.revoked', 'consumer.created'],
  );
});

const postgres = await startPostgres();
after(() => postgres?.stop());

test('two replicas record a change once, also one from while the database was unavailable', {
  skip: !postgres && 'no PostgreSQL',
}, async (t) => {
  const proxy = await startTcpProxy((postgres as PostgresDatabase).url);
  const first = await startGateway({ DATABASE_URL: proxy.url });
  const secretsDir = join(first.dataDir, 'secrets');
  const second = await startGateway({
    DATABASE_URL: (postgres as PostgresDatabase).url,
    SECRETS_DIR: secretsDir,
  });
  const send: Send = (target, options) => first.request(target, { as: first.admin, ...options });
  t.after(async () => {
    await second.stop();
    await first.stop();
    await proxy.close();
  });
  await proxy.cut();
  const change = (enabled: boolean) => ({ method: 'PATCH', body: { enabled } });
  for (const enabled of [false, true, false])
    assert.equal((await send(`${consumers}/${first.console.id}`, change(enabled))).status, 200);
  await assertProblem(await send(path), 503, 'store_unavailable');
  const there: Send = (target) => second.request(target, { as: first.admin });
  const seen = await untilEvents(there, `target_id=${first.console.id}`, 4);
  await proxy.restore();
  await eventually(async () => assert.notEqual((await send(path)).status, 503), { everyMs: 50 });
  const events = await eventsOf(send, `target_id=${first.console.id}`);
  assert.deepEqual(events, seen);
  assert.deepEqual(
    events.map(({ action }) => action),
    ['consumer.disabled', 'consumer.enabled', 'consumer.disabled', 'consumer.created'],
  );
});

/** Consumers as a program of another version may write them, beside the service. */
function storeOf(secrets: SecretsManager) {
  const options = { secrets, log: recordLog().log, metrics: createMetrics(), refreshSeconds: 3600 };
  return createConsumers(options).store;
}
