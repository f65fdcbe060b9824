import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { isPublic } from '../../src/api/route.ts';
import { documentedRoutes } from '../../src/app/routes.ts';
import { eventually } from '../support/eventually.ts';
import { type RequestOptions, useGateway } from '../support/gateway.ts';
import { offerFor, tripFor } from '../support/handoffs.ts';
import { connectRaw } from '../support/raw-client.ts';
import { recordFor } from '../support/records.ts';
import { newReservation } from '../support/reservations.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';
import { firstWebhookSecret, memberEvent, signedRequest, webhookPath } from '../support/webhooks.ts';
import { assertFitsDocument, assertWebhookFitsDocument } from './document-check.ts';

const routes = documentedRoutes().filter(({ isUnlisted }) => !isUnlisted);

/** Requests to every operation: status, headers, content type and body of each answer are compared with the document. */
describe('what the service answers fits its document', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600' });
  const seen = new Set<string>();

  const send = async (path: string, options: RequestOptions = {}): Promise<Response> => {
    const { method = options.body === undefined ? 'GET' : 'POST' } = options;
    const response = await gateway.request(path, { ...options, method });
    await assertFitsDocument(path, { ...options, method }, response);
    const candidates = routes.filter((known) => known.method === method && matches(known.path, path));
    // As the router has it: a path without parameters comes first.
    const route = candidates.find((known) => !known.path.includes(':')) ?? candidates[0];
    seen.add(`${method} ${route?.path} ${response.status}`);
    return response;
  };
  const keyed = (key: string = randomUUID(), more: Record<string, string> = {}) => ({
    headers: { 'idempotency-key': key, ...more },
  });
  /** Asks for the headers only: the same as those of GET. */
  const head = async (path: string, got: Response, options: RequestOptions = {}): Promise<void> => {
    const response = await gateway.request(path, { ...options, method: 'HEAD' });
    await assertFitsDocument(path, { ...options, method: 'HEAD' }, response);
    assert.equal(response.status, got.status);
    assert.equal(await response.text(), '');
    for (const name of ['content-type', 'content-length', 'etag', 'cache-control', 'vary']) {
      assert.equal(response.headers.get(name), got.headers.get(name), `${name} of HEAD ${path}`);
    }
  };
  /** Reads it, knows it already, and asks for its headers only; returns its entity tag. */
  const read = async (path: string, options: RequestOptions = {}): Promise<string> => {
    const response = await send(path, options);
    assert.equal(response.status, 200);
    const etag = response.headers.get('etag') ?? '';
    assert.equal((await send(path, { ...options, headers: { 'if-none-match': etag } })).status, 304);
    await head(path, response, options);
    return etag;
  };

  test('a trip: checked, handed off, found again, handed off each for itself and later, and read', async () => {
    const body = tripFor(gateway.org.memberId);
    const items = body.items.map((item) => ({ ...item, reference: 'HB-1' }));
    assert.equal((await send('/api/v1/handoffs/check', { body })).status, 200);
    assert.equal((await send('/api/v1/handoff/check', { body: offerFor(gateway.org.memberId) })).status, 200);
    for (const status of [201, 200])
      assert.equal((await send('/api/v1/handoffs', { body: { ...body, items } })).status, status);
    const ended = { ...items[0], reference: 'HB-2', valid_until: '2020-01-01T00:00:00Z' };
    const each = { ...body, atomic: false, items: [...items, ended, ...body.items] };
    assert.equal((await send('/api/v1/handoffs', { body: each })).status, 201);
    const later = await send('/api/v1/handoffs', { body, headers: { prefer: 'respond-async' } });
    assert.equal(later.status, 202);
    assert.equal(
      (
        await send('/api/v1/handoff', {
          body: { ...offerFor(gateway.org.memberId), trip_id: body.trip_id, reference: 'HB-1' },
        })
      ).status,
      200,
    );
    // It changes until its items are delivered.
    await eventually(() => read(`/v1/trips/${body.trip_id}`));
    assert.equal((await send('/v1/dining/merchants')).status, 200);
    assert.equal((await send(`/v1/quotes?trip_id=${body.trip_id}&include=member`)).status, 200);
  });

  for (const type of ['quote', 'booking']) {
    test(`the hand-off of a ${type}, and its replay`, async () => {
      const body = offerFor(gateway.org.memberId, { type });
      assert.equal((await send('/api/v1/handoff', { body })).status, 201);
      const key = randomUUID();
      await send('/api/v1/handoff', { body, ...keyed(key) });
      const replay = await send('/api/v1/handoff', { body, ...keyed(key) });
      assert.equal(replay.headers.get('idempotent-replayed'), 'true');
    });

    test(`the hand-off of a ${type} that is accepted, fails, is tried again and cancelled`, async () => {
      const body = offerFor(randomUUID(), { type });
      const handOff = () => send('/api/v1/handoff', { body, headers: { prefer: 'respond-async' } });
      await handOff();
      const accepted = await handOff();
      assert.equal(accepted.status, 202);
      const path = accepted.headers.get('location') ?? '';
      const shown = async () => (await (await send(path)).json()) as { status: string };
      await eventually(async () => assert.equal((await shown()).status, 'failed'));
      await read(path);
      await pages(`/v1/handoffs?trip_id=${body.trip_id}&limit=1`);
      assert.equal((await send(`${path}/history`)).status, 200);
      assert.equal((await send(`${path}/retry`, { method: 'POST' })).status, 202);
      assert.equal((await send(path, { method: 'DELETE' })).status, 204);
    });

    test(`the hand-off of a ${type} that is approved, and one that is rejected`, async () => {
      const permission = { resource: `${type as 'quote'}s`, approval: true } as const;
      const as = await gateway.newConsumer({ ...permission, actions: ['read', 'write'] });
      const body = offerFor(gateway.org.memberId, { type });
      const ask = async () => (await send('/api/v1/handoff', { body, as })).headers.get('location') ?? '';
      const approved = await send(`${await ask()}/approve`, { method: 'POST' });
      assert.equal(approved.status, 202);
      const rejected = await send(`${await ask()}/reject`, { body: { reason: 'Too dear.' } });
      assert.equal(rejected.status, 200);
    });

    test(`${type}s, from creation to deletion, each step replayed`, async () => {
      const collection = `/v1/${type}s`;
      const twice = async (path: string, options: RequestOptions & { headers: Record<string, string> }) => {
        const first = await send(path, options);
        const again = await send(path, options);
        assert.equal(again.headers.get('idempotent-replayed'), 'true');
        assert.equal(again.status, first.status);
        return first;
      };
      const body = recordFor(gateway.org.memberId);
      const created = await twice(collection, { body, ...keyed() });
      await twice(collection, { body: { ...body, member_id: randomUUID() }, ...keyed() });
      const path = created.headers.get('location') ?? '';
      const etag = await read(path);
      assert.equal((await send(`${path}/history`)).status, 200);
      const changed = await twice(path, {
        method: 'PATCH',
        body: { name: 'c' },
        ...keyed(undefined, { 'if-match': etag }),
      });
      await twice(path, { method: 'PATCH', body: { name: 'd' }, ...keyed(undefined, { 'if-match': etag }) });
      await send(collection, { body, ...keyed() });
      await pages(`${collection}?trip_id=${body.trip_id}&status=created&limit=1`);
      const tag = changed.headers.get('etag') ?? '';
      await twice(path, { method: 'DELETE', ...keyed(undefined, { 'if-match': tag }) });
      await twice(path, { method: 'DELETE', ...keyed() });
    });

    test(`${type}s whose content is of another type`, async () => {
      const External_Id__c = randomUUID();
      const object = type === 'quote' ? 'Quote__c' : 'Booking__c';
      await gateway.org.insert(object, [
        { External_Id__c, Name__c: 'a', Source__c: 'b', Details__c: 'no json', Trip_Id__c: 'trip' },
      ]);
      await read(`/v1/${type}s/${External_Id__c}`);
    });
  }

  const pages = async (path: string, options: RequestOptions = {}): Promise<void> => {
    const first = await send(path, options);
    const { next_cursor } = (await first.json()) as { next_cursor: string };
    assert.ok(next_cursor);
    await send(`${path}&cursor=${next_cursor}`, options);
  };

  test('reservations, from creation to cancellation, each step replayed', async () => {
    const body = newReservation(gateway.org.memberId);
    const options = { body, ...keyed() };
    const created = await send('/v1/reservations', options);
    assert.equal(created.status, 201);
    assert.equal((await send('/v1/reservations', options)).headers.get('idempotent-replayed'), 'true');
    const path = created.headers.get('location') ?? '';
    const etag = await read(path);
    await send(path, { method: 'DELETE', ...keyed(undefined, { 'if-match': '"old"' }) });
    const cancellation = { method: 'DELETE', ...keyed(undefined, { 'if-match': etag }) };
    assert.equal((await send(path, cancellation)).status, 204);
    assert.equal((await send(path, cancellation)).status, 204);
    assert.equal((await send(`${path}/history`)).status, 200);
    await read(path);
    await send('/v1/reservations?limit=1');
    const { merchant_id, service_id, start_at } = body['dining'] as Record<string, string>;
    const wanted = new URLSearchParams({ merchant_id, service_id, start_at, party_size: '4' } as Record<
      string,
      string
    >);
    await send(`/v1/reservations/availability?${wanted.toString()}`);
    await gateway.diningPartner.set({ seats: 3 });
    const refused = await send('/v1/reservations', {
      body: newReservation(gateway.org.memberId),
      ...keyed(),
    });
    assert.equal(refused.status, 422);
    await gateway.diningPartner.set({ seats: 100 });
    const partner = await gateway.diningPartner.arm({ effect: { kind: 'error', status: 503 } });
    await read(path);
    await partner.remove();
  });

  test('members', async () => {
    await read(`/v1/members/${gateway.org.memberId}`);
    await pages('/v1/members?limit=1');
    await gateway.org.insert('Contact', [{ LastName: 'Only', External_Id__c: randomUUID() }]);
    await send('/v1/members?limit=200');
  });

  test('webhook endpoints, from creation to deletion', async () => {
    const receiver = await startWebhookReceiver();
    const body = { url: receiver.url, event_types: ['quote.*'], description: 'a' };
    const created = await send('/v1/webhook-endpoints', { body });
    assert.equal(created.status, 201);
    assert.equal((await send('/v1/webhook-endpoints', { body })).status, 409);
    const path = created.headers.get('location') ?? '';
    await read(path);
    await send('/v1/webhook-endpoints', { body: { url: `${receiver.url}/other` } });
    await pages('/v1/webhook-endpoints?limit=1');
    await send(`${path}/rotate-secret`, { method: 'POST' });
    receiver.answer = (response) => response.writeHead(500).end();
    for (let tests = 0; tests < 2; tests++) await send(`${path}/test`, { method: 'POST' });
    await receiver.until(2);
    for (const { event } of receiver.received) assertWebhookFitsDocument(event);
    await pages(`${path}/deliveries?limit=1`);
    const found = await send(`${path}/deliveries`);
    const { data } = (await found.json()) as { data: { id: string }[] };
    await send(`${path}/deliveries/${data[0]?.id}/resend`, { method: 'POST' });
    await send(`${path}/recover`, { body: { since: '2027-01-01T00:00:00Z' } });
    await send(path, { method: 'PATCH', body: { enabled: false } });
    await send(path, { method: 'DELETE' });
    receiver.stop();
  });

  test('webhooks, taken and refused', async () => {
    const secret = await firstWebhookSecret(gateway);
    const event = memberEvent(gateway.org.memberId);
    const request = signedRequest(secret, event);
    assert.equal((await send(webhookPath, request)).status, 202);
    assert.equal((await send(webhookPath, request)).status, 202);
    assert.equal((await send(webhookPath, { ...request, body: '{}' })).status, 401);
    assert.equal((await send(webhookPath, signedRequest(secret, { ...event, data: {} }))).status, 400);
  });

  test('consumers, from creation to deletion, and what they tried', async () => {
    const as = gateway.admin;
    const permissions = [{ resource: 'quotes', actions: ['read'] }];
    const created = await send('/v1/admin/consumers', { as, body: { name: 'Partner', permissions } });
    assert.equal(created.status, 201);
    const path = created.headers.get('location') ?? '';
    await read(path, { as });
    await send(path, { as, method: 'PATCH', body: { name: 'Other' } });
    await send(`${path}/rotate`, { as, method: 'POST' });
    await send(`${path}/rotate`, { as, body: { graceWindowHours: 0 } });
    await read(path, { as });
    await pages('/v1/admin/consumers?limit=1', { as });
    await read('/v1/consumer');
    const partner = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    await send('/v1/consumer/rotate', { as: partner, body: { grace_window_hours: 1 } });
    await send('/v1/consumer/rotate', { as: partner, method: 'POST' });
    await pages('/v1/consumer/auth-attempts?limit=1');
    await send('/v1/consumer/usage');
    await send(`${path}/usage`, { as });
    await send(path, { as, method: 'DELETE' });
    await send('/v1/quotes', { as: null });
    await pages('/v1/admin/auth-attempts?limit=1', { as });
    await pages('/v1/admin/audit-events?limit=1', { as });
    await send('/v1/admin/activity', { as });
    await send('/v1/admin/crm-usage?by=consumer', { as });
    await send('/v1/admin/auth-attempts?result=missing&since=2026-01-01T00:00:00Z', { as });
  });

  test('tokens, and how to get them', async () => {
    const ask = (fields: Record<string, string>) =>
      send('/oauth/token', {
        as: null,
        body: String(new URLSearchParams(fields)),
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      });
    const { apiKey, apiSecret } = gateway.console;
    const pair = { client_id: apiKey, client_secret: apiSecret };
    assert.equal((await ask({ grant_type: 'client_credentials', ...pair })).status, 200);
    assert.equal((await ask(pair)).status, 400);
    assert.equal((await ask({})).status, 401);
    const basic = {
      authorization: 'Basic bm9ib2R5OndybnM=',
      'content-type': 'application/x-www-form-urlencoded',
    };
    const refused = await send('/oauth/token', {
      as: null,
      body: 'grant_type=client_credentials',
      headers: basic,
    });
    assert.match(refused.headers.get('www-authenticate') ?? '', /^Basic /);
    assert.equal((await send('/oauth/token', { as: null, body: {} })).status, 415);
    const open = [
      '/.well-known/oauth-authorization-server',
      '/.well-known/oauth-protected-resource',
      '/oauth/jwks',
    ];
    for (const path of open) assert.equal((await send(path, { as: null })).status, 200);
  });

  test('a token that lacks a scope', async () => {
    const { apiKey, apiSecret } = gateway.console;
    const form = { grant_type: 'client_credentials', client_id: apiKey, client_secret: apiSecret };
    const asked = await fetch(`${gateway.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ ...form, scope: 'quotes:read' }),
    });
    const { access_token } = (await asked.json()) as { access_token: string };
    const headers = { authorization: `Bearer ${access_token}` };
    const refused = await send('/v1/bookings', { as: null, headers });
    assert.equal(refused.status, 403);
    assert.match(refused.headers.get('www-authenticate') ?? '', /insufficient_scope/);
  });

  test('what does not come whole', async () => {
    const client = await connectRaw(gateway.url);
    client.write(`GET /v1/quotes HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`);
    const { status = 0, headers, body = '' } = (await client.answer()) ?? {};
    assert.equal(status, 431);
    await assertFitsDocument('/v1/quotes', {}, new Response(body, { status, ...(headers && { headers }) }));
    client.socket.destroy();
  });

  test('test keys', async () => {
    const wanted = { name: 'T', mode: 'test', permissions: [{ resource: 'quotes', actions: ['write'] }] };
    const made = await send('/v1/admin/consumers', { as: gateway.admin, body: wanted });
    const as = (await made.json()) as typeof gateway.admin;
    await send('/v1/consumer', { as });
    assert.equal((await send('/v1/test/reset', { as, method: 'POST' })).status, 204);
    assert.equal((await send('/v1/test/reset', { method: 'POST' })).status, 404);
    const open = routes.filter(
      ({ method, permission, path }) => method === 'GET' && isPublic(permission) && !path.includes(':'),
    );
    for (const { path } of [...open, { path: '/v1/problems/other' }]) {
      const refused = await send(`${path}?unknown=1`, { as });
      assert.ok(refused.status >= 400, path);
      assert.equal(refused.headers.get('handoff-mode'), 'test', path);
    }
  });

  test('health, connected and not, and the documentation', async () => {
    const health = () => send('/v1/healthz', { as: null });
    const connected = await health();
    assert.equal(connected.status, 200);
    await head('/v1/healthz', connected, { as: null });
    const docs = await send('/v1/docs', { as: null, headers: { accept: 'application/json' } });
    assert.equal(docs.status, 200);
    await send('/v1/docs', { as: null, headers: { accept: 'text/html' } });
    const ask = { accept: 'application/json', 'if-none-match': docs.headers.get('etag') ?? '' };
    assert.equal((await send('/v1/docs', { as: null, headers: ask })).status, 304);
    await send('/v1/events?type=quote.created&type=quote.updated');
    await send('/v1/problems/not_found', { as: null });
    await send('/v1/problems/not_found', { as: null, headers: { accept: 'text/html' } });
    await send('/v1/problems/other', { as: null });
    const down = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await gateway.request(`/v1/quotes/${randomUUID()}`);
    // A state is shared for a moment, and nothing shows when it is over.
    await eventually(async () => assert.notEqual((await health()).status, 200), { everyMs: 100 });
    await down.remove();
  });

  test('with no operation and no successful answer left out', () => {
    const wanted = routes.flatMap(({ method, path, answers }) =>
      Object.keys(answers).map((status) => `${method} ${path} ${status}`),
    );
    assert.deepEqual(
      wanted.filter((one) => !seen.has(one)),
      [],
    );
  });

  test('each operation that needs credentials refuses those without', async () => {
    for (const { method, path, permission } of routes) {
      if (isPublic(permission)) continue;
      const response = await send(path.replaceAll(/:\w+/g, randomUUID()), { method, as: null });
      assert.equal(response.status, 401);
    }
  });
});

function matches(pattern: string, path: string): boolean {
  const [known, asked] = [pattern.split('/'), (path.split('?')[0] ?? '').split('/')];
  return (
    known.length === asked.length && known.every((part, at) => part.startsWith(':') || part === asked[at])
  );
}
