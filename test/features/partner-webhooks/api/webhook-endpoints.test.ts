import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { version } from '../../../../src/platform/base/version.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../../support/webhook-receiver.ts';

const path = '/v1/webhook-endpoints';
let gateway: TestGateway;
let receiver: WebhookReceiver;
let urls = 0;

before(async () => {
  gateway = await startGateway({ CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' });
  receiver = await startWebhookReceiver();
});
after(async () => {
  await gateway.stop();
  receiver.stop();
});

interface Endpoint {
  id: string;
  url: string;
  secret: string;
  enabled: boolean;
  disabled_reason: string | null;
}

const newUrl = () => `${receiver.url}/${++urls}`;
const bodyOf = async <T>(response: Promise<Response>) => (await (await response).json()) as T;

async function create(more: object = {}, as?: Credentials): Promise<Endpoint> {
  const response = await gateway.request(path, { body: { url: newUrl(), ...more }, ...(as && { as }) });
  assert.equal(response.status, 201);
  return (await response.json()) as Endpoint;
}

const newConsumer = () => gateway.newConsumer({ resource: 'webhooks', actions: ['read', 'write', 'delete'] });

/** What has come to one endpoint, once there are so many. */
async function comeTo({ url }: Endpoint, count: number) {
  for (let total = count; ; total++) {
    const found = (await receiver.until(total)).filter((one) => url.endsWith(one.path));
    if (found.length >= count) return found;
  }
}

describe('a webhook endpoint', () => {
  test('is made with a secret that no other answer shows', async () => {
    const url = newUrl();
    const response = await gateway.request(path, { body: { url, description: 'Production' } });
    assert.equal(response.status, 201);
    const { secret, ...endpoint } = (await response.json()) as Endpoint;
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.equal(response.headers.get('location'), `${path}/${endpoint.id}`);
    const { created_at, updated_at, ...rest } = endpoint as unknown as Record<string, string>;
    assert.ok(created_at && updated_at);
    assert.deepEqual(rest, {
      ...{ id: endpoint.id, url, event_types: [], description: 'Production', enabled: true },
      ...{ scopes: null, disabled_reason: null, last_success_at: null, last_failure_at: null },
    });
    assert.deepEqual(await bodyOf(gateway.request(`${path}/${endpoint.id}`)), endpoint);
  });

  test('is listed newest first, in pages', async () => {
    const as = await newConsumer();
    const ids: string[] = [];
    for (let made = 0; made < 5; made++) ids.unshift((await create({}, as)).id);
    const found: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: { data: Endpoint[]; next_cursor: string | null } = await bodyOf(
        gateway.request(`${path}?limit=2${cursor && `&cursor=${cursor}`}`, { as }),
      );
      assert.ok(page.data.every((endpoint) => !('secret' in endpoint)));
      found.push(...page.data.map(({ id }) => id));
      cursor = page.next_cursor;
    }
    assert.deepEqual(found, ids);
  });

  test('does not exist for other consumers', async () => {
    const { id } = await create();
    const as = await newConsumer();
    const one = `${path}/${id}`;
    const answers = [
      gateway.request(one, { as }),
      gateway.request(one, { as, method: 'PATCH', body: { enabled: false } }),
      gateway.request(one, { as, method: 'DELETE' }),
      gateway.request(`${one}/rotate-secret`, { as, method: 'POST' }),
      gateway.request(`${one}/test`, { as, method: 'POST' }),
      gateway.request(`${one}/deliveries`, { as }),
      gateway.request(`${one}/recover`, { as, body: { since: '2027-01-01T00:00:00Z' } }),
      gateway.request(`${one}/deliveries/dlv_1/resend`, { as, method: 'POST' }),
    ];
    for (const answer of answers) assert.equal((await answer).status, 404);
    assert.deepEqual((await bodyOf<{ data: object[] }>(gateway.request(path, { as }))).data, []);
  });

  test('cannot have the URL of another one of the consumer, in any spelling', async () => {
    const { url } = await create();
    const same = url.replace('http://127.0.0.1', 'HTTP://0x7f.1') + '#part';
    for (const body of [{ url }, { url: same }]) {
      const response = await gateway.request(path, { body });
      assert.equal(response.status, 409);
      assert.equal(((await response.json()) as { code: string }).code, 'conflict');
    }
    const other = await create();
    const change = { method: 'PATCH', body: { url } };
    assert.equal((await gateway.request(`${path}/${other.id}`, change)).status, 409);
    await create({ url }, await newConsumer());
  });

  test('is one of 20 at most, however many are asked for at once', async () => {
    const as = await newConsumer();
    const asked = Array.from({ length: 25 }, () => gateway.request(path, { as, body: { url: newUrl() } }));
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    assert.equal(statuses.filter((status) => status === 201).length, 20);
    assert.equal(statuses.filter((status) => status === 409).length, 5);
  });

  test('is changed field by field, under its entity tag where one is named', async () => {
    const { id, url } = await create({ event_types: ['quote.*'], description: 'old' });
    const one = `${path}/${id}`;
    const etag = (await gateway.request(one)).headers.get('etag') ?? '';
    const change = (body: object, headers = {}) => gateway.request(one, { method: 'PATCH', body, headers });
    const changed = await change({ description: null }, { 'if-match': etag });
    assert.equal(changed.status, 200);
    const endpoint = (await changed.json()) as Record<string, unknown>;
    assert.deepEqual([endpoint.url, endpoint.event_types, endpoint.description], [url, ['quote.*'], null]);
    assert.equal((await change({ description: 'x' }, { 'if-match': etag })).status, 412);
    assert.equal((await change({})).status, 400);
    const current = changed.headers.get('etag') ?? '';
    const known = await gateway.request(one, { headers: { 'if-none-match': current } });
    assert.equal(known.status, 304);
  });

  test('is changed or deleted once under one tag, however many try at once', async () => {
    for (const method of ['PATCH', 'DELETE']) {
      const one = `${path}/${(await create()).id}`;
      const headers = { 'if-match': (await gateway.request(one)).headers.get('etag') ?? '' };
      const ask = (description: string) =>
        gateway.request(one, { method: 'PATCH', body: { description }, headers });
      const last = method === 'PATCH' ? ask('c') : gateway.request(one, { method, headers });
      const statuses = (await Promise.all([ask('a'), ask('b'), last])).map(({ status }) => status);
      assert.equal(statuses.filter((status) => status < 300).length, 1, statuses.join());
      assert.ok(
        statuses.every((status) => status < 300 || [404, 412].includes(status)),
        statuses.join(),
      );
    }
  });

  test('is gone once it is deleted', async () => {
    const { id, url } = await create();
    const remove = () => gateway.request(`${path}/${id}`, { method: 'DELETE' });
    assert.equal((await remove()).status, 204);
    assert.equal((await remove()).status, 404);
    assert.equal((await gateway.request(`${path}/${id}`)).status, 404);
    await create({ url });
  });

  const wrong: [string, object, string][] = [
    ['without a URL', {}, '#/url'],
    ['with a text that is no URL', { url: 'partner' }, '#/url'],
    ['with http to another machine', { url: 'http://partner.example/' }, '#/url'],
    ['with a private address', { url: 'https://10.0.0.1/' }, '#/url'],
    ['with an address of metadata', { url: 'https://[::ffff:a9fe:a9fe]/' }, '#/url'],
    ['with a user name', { url: 'https://user@partner.example/' }, '#/url'],
    ['with a low port', { url: 'https://partner.example:22/' }, '#/url'],
    [
      'with an unknown type',
      { url: 'https://8.8.8.8/', event_types: ['quote.created', 'x'] },
      '#/event_types/1',
    ],
    ['with the type of tests', { url: 'https://8.8.8.8/', event_types: ['ping'] }, '#/event_types/0'],
    [
      'with the beginning of no type',
      { url: 'https://8.8.8.8/', event_types: ['trip.*'] },
      '#/event_types/0',
    ],
    ['with every type at once', { url: 'https://8.8.8.8/', event_types: ['*'] }, '#/event_types/0'],
    ['with an unknown field', { url: 'https://8.8.8.8/', secret: 'mine' }, '#/secret'],
  ];
  for (const [what, body, pointer] of wrong) {
    test(`${what} is refused`, async () => {
      const response = await gateway.request(path, { body });
      assert.equal(response.status, 400);
      const { code, errors } = (await response.json()) as { code: string; errors: { pointer: string }[] };
      assert.equal(code, 'invalid_request');
      assert.deepEqual(
        errors.map((error) => error.pointer),
        [pointer],
      );
    });
  }
});

interface Delivery {
  id: string;
  event_id: string;
  status: string;
  attempts: { at: string; status: number | null; duration_ms: number; error: string | null }[];
  next_attempt_at: string | null;
}

const deliveriesOf = async ({ id }: Endpoint, query = '') =>
  (await bodyOf<{ data: Delivery[] }>(gateway.request(`${path}/${id}/deliveries${query}`))).data;

/** Its deliveries, once they are as `isDone` says: a result is stored a moment after the receiver has answered. */
async function untilDeliveries(endpoint: Endpoint, isDone: (deliveries: Delivery[]) => boolean) {
  return eventually(async () => {
    const found = await deliveriesOf(endpoint);
    assert.ok(isDone(found), JSON.stringify(found));
    return found;
  });
}

const ping = async ({ id }: Endpoint) =>
  (await bodyOf<{ event_id: string }>(gateway.request(`${path}/${id}/test`, { method: 'POST' }))).event_id;

describe('a test event', () => {
  test('comes signed, and its delivery shows the attempt', async () => {
    const endpoint = await create();
    const eventId = await ping(endpoint);
    assert.match(eventId, /^evt_[a-z0-9]+$/);
    const [got] = await comeTo(endpoint, 1);
    assert.ok(got);
    const event = new Webhook(endpoint.secret).verify(got.body, got.headers) as Record<string, unknown>;
    assert.equal(event.timestamp, event.occurred_at);
    assert.deepEqual(
      [event.id, event.type, event.resource, event.data],
      [eventId, 'ping', { type: 'webhook_endpoint', id: endpoint.id }, { id: endpoint.id }],
    );
    assert.equal(got.headers['webhook-id'], eventId);
    assert.equal(got.headers['user-agent'], `handoff-gateway/${version}`);
    assert.equal(got.headers['content-type'], 'application/json');
    const [delivery] = await untilDeliveries(endpoint, ([one]) => one?.status === 'delivered');
    assert.deepEqual([delivery?.event_id, delivery?.next_attempt_at], [eventId, null]);
    const [attempt] = delivery?.attempts ?? [];
    assert.deepEqual([attempt?.status, attempt?.error], [204, null]);
    const shown = await bodyOf<Record<string, unknown>>(gateway.request(`${path}/${endpoint.id}`));
    assert.notEqual(shown['last_success_at'], null);
    const { data } = await bodyOf<{ data: object[] }>(
      gateway.request(`${path}/${endpoint.id}/deliveries?status=failed`),
    );
    assert.deepEqual(data, []);
    const [only, ...others] = (await deliveriesOf(endpoint, `?event_id=${eventId}`)) as (Delivery & {
      body?: string;
    })[];
    assert.deepEqual(others, []);
    assert.equal(only?.body, got.body, 'what was sent, byte for byte');
    assert.equal('body' in (delivery ?? {}), false, 'a list has no bodies');
    assert.deepEqual(await deliveriesOf(await create(), `?event_id=${eventId}`), []);
  });

  test('is sent again on request, under the same id', async () => {
    const endpoint = await create();
    const eventId = await ping(endpoint);
    const [delivery] = await untilDeliveries(endpoint, ([one]) => one?.status === 'delivered');
    const again = `${path}/${endpoint.id}/deliveries/${delivery?.id}/resend`;
    assert.equal((await gateway.request(again, { method: 'POST' })).status, 202);
    const got = await comeTo(endpoint, 2);
    assert.deepEqual(
      got.map(({ headers }) => headers['webhook-id']),
      [eventId, eventId],
    );
    const [done] = await untilDeliveries(endpoint, ([one]) => one?.attempts.length === 2);
    assert.equal(done?.status, 'delivered');
  });

  test('to an endpoint that answers 410 disables it, which stops what waits', async () => {
    const endpoint = await create();
    receiver.answer = (response) => response.writeHead(410).end();
    try {
      await ping(endpoint);
      const [delivery] = await untilDeliveries(endpoint, ([one]) => one?.status === 'failed');
      assert.deepEqual([delivery?.attempts[0]?.error, delivery?.next_attempt_at], ['http_410', null]);
    } finally {
      receiver.answer = (response) => response.writeHead(204).end();
    }
    const one = `${path}/${endpoint.id}`;
    const { enabled, disabled_reason } = await bodyOf<Endpoint>(gateway.request(one));
    assert.deepEqual([enabled, disabled_reason], [false, 'gone']);
    assert.equal((await gateway.request(`${one}/test`, { method: 'POST' })).status, 409);
    const enabling = { method: 'PATCH', body: { enabled: true } };
    const back = await bodyOf<Endpoint>(gateway.request(one, enabling));
    assert.deepEqual([back.enabled, back.disabled_reason], [true, null]);
    await ping(endpoint);
    await comeTo(endpoint, 2);
  });
});

describe('a new secret', () => {
  const rotate = async ({ id }: Endpoint, body?: object) =>
    bodyOf<{ secret: string; previous_expires_at: string }>(
      gateway.request(`${path}/${id}/rotate-secret`, { method: 'POST', ...(body && { body }) }),
    );

  test('signs beside the one before it, until its time', async () => {
    const endpoint = await create();
    await ping(endpoint);
    await comeTo(endpoint, 1);
    const { secret, previous_expires_at } = await rotate(endpoint);
    const hours = (Date.parse(previous_expires_at) - Date.now()) / 3_600_000;
    assert.ok(hours > 23.9 && hours <= 24);
    await ping(endpoint);
    const got = (await comeTo(endpoint, 2))[1];
    assert.ok(got);
    for (const valid of [secret, endpoint.secret]) new Webhook(valid).verify(got.body, got.headers);
  });

  test('signs alone where the one before it gets no time', async () => {
    const endpoint = await create();
    const { secret } = await rotate(endpoint, { grace_window_hours: 0 });
    await ping(endpoint);
    const [got] = await comeTo(endpoint, 1);
    assert.ok(got);
    new Webhook(secret).verify(got.body, got.headers);
    assert.throws(() => new Webhook(endpoint.secret).verify(got.body, got.headers));
  });
});

test('what is written through the gateway comes to endpoints, as GET answers it', async () => {
  const endpoint = await create({ event_types: ['quote.*'] });
  const quote = { name: 'a', source: 'b', trip_id: randomUUID(), member_id: gateway.org.memberId };
  const headers = { 'idempotency-key': randomUUID() };
  const body = JSON.stringify({ ...quote, details: {} }).replace('{}', '{"net":612.40}');
  const created = await gateway.request('/v1/quotes', { body, headers });
  assert.equal(created.status, 201);
  const [got] = await comeTo(endpoint, 1);
  assert.ok(got);
  assert.equal(got.event.type, 'quote.created');
  assert.ok(got.body.includes(`,"data":${await created.text()},`), got.body);
});

test('endpoints of a consumer that is revoked go, with their secrets', async () => {
  const as = await newConsumer();
  const endpoint = await create({}, as);
  const revoke = { method: 'DELETE', as: gateway.admin };
  assert.equal((await gateway.request(`/v1/admin/consumers/${as.id}`, revoke)).status, 204);
  await eventually(() =>
    assert.ok(gateway.logLines.some(({ facts }) => facts['endpoint_id'] === endpoint.id)),
  );
  const line = gateway.logLines.find(({ facts }) => facts['endpoint_id'] === endpoint.id);
  assert.equal(line?.message, 'a webhook endpoint went with its consumer');
});
