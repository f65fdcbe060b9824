import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type Credentials, useGateway } from '../../../support/gateway.ts';
import { recordFor } from '../../../support/records.ts';
import { tokenCalls } from '../../../support/token-calls.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../../support/webhook-receiver.ts';

const path = '/v1/webhook-endpoints';
const actions = ['read', 'write', 'delete'];

interface Endpoint {
  id: string;
  url: string;
  scopes: string[] | null;
}

describe('webhook endpoints that are made with a token', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' });
  let receiver: WebhookReceiver;
  let calls: ReturnType<typeof tokenCalls>;
  let partner: Credentials;
  before(async () => {
    receiver = await startWebhookReceiver();
    calls = tokenCalls(gateway, gateway.url);
    const permissions = ['quotes', 'bookings', 'webhooks'].map((resource) => ({ resource, actions }));
    partner = await calls.newConsumer({ permissions });
  });
  after(async () => {
    receiver.stop();
  });

  /** With a token of these scopes, or with the pair. */
  async function send<T>(scope: string | null, target: string, body?: object, method?: string): Promise<T> {
    const token = scope === null ? undefined : await calls.tokenFor({ ...calls.withPair(partner), scope });
    const response = await gateway.request(target, {
      as: token === undefined ? partner : null,
      ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
      ...(body && { body }),
      ...(method && { method }),
    });
    const text = await response.text();
    assert.ok(response.ok, text);
    return JSON.parse(text) as T;
  }
  const make = (scope: string | null, name: string) =>
    send<Endpoint>(scope, path, { url: `${receiver.url}/${name}` });
  const read = ({ id }: Endpoint) => send<Endpoint>(null, `${path}/${id}`);
  const createBoth = async () => {
    for (const collection of ['quotes', 'bookings'])
      await gateway.request(`/v1/${collection}`, {
        ...{ as: partner, body: recordFor(gateway.org.memberId) },
        headers: { 'idempotency-key': randomUUID() },
      });
  };
  const typesAt = (name: string) =>
    receiver.received.filter((got) => got.path === `/${name}`).map(({ event }) => event.type);
  /** Waits until so many events have come there, and then at each other one for a ping, which comes after them. */
  async function until(name: string, count: number, others: readonly Endpoint[]): Promise<void> {
    for (let all = 1; typesAt(name).length < count; all++) await receiver.until(all);
    for (const { id, url } of others) {
      await send(null, `${path}/${id}/test`, undefined, 'POST');
      const there = new URL(url).pathname.slice(1);
      for (let all = 1; typesAt(there).at(-1) !== 'ping'; all++) await receiver.until(all);
    }
  }
  const typesDelivered = async ({ id }: Endpoint) => {
    const { data } = await send<{ data: { event_type: string }[] }>(
      null,
      `${path}/${id}/deliveries?limit=200`,
    );
    return data.map(({ event_type }) => event_type);
  };

  test('get what the scopes of the token allow, show them, and get no more by a recovery', async () => {
    const since = new Date().toISOString();
    const whole = await make(null, 'whole');
    const some = await make('webhooks:write quotes:read', 'some');
    const none = await make('webhooks:write', 'none');
    assert.deepEqual(await Promise.all([whole, some, none].map(async (one) => (await read(one)).scopes)), [
      null,
      ['quotes:read', 'webhooks:write'],
      ['webhooks:write'],
    ]);
    await createBoth();
    await until('whole', 2, [some, none]);
    assert.deepEqual(typesAt('whole').sort(), ['booking.created', 'quote.created']);
    assert.deepEqual(typesAt('some').sort(), ['ping', 'quote.created']);
    assert.deepEqual(typesAt('none'), ['ping']);
    for (const { id } of [some, none]) await send(null, `${path}/${id}/recover`, { since });
    await until('whole', 2, [none]);
    assert.deepEqual(new Set(await typesDelivered(some)), new Set(['ping', 'quote.created']));
    assert.deepEqual(new Set(await typesDelivered(none)), new Set(['ping']));
    const { data } = await send<{ data: { event_id: string; event_type: string }[] }>(
      null,
      `${path}/${whole.id}/deliveries`,
    );
    const booking = data.find(({ event_type }) => event_type === 'booking.created');
    const shown = await send<{ data: { body: string | null }[] }>(
      'webhooks:read quotes:read',
      `${path}/${whole.id}/deliveries?event_id=${booking?.event_id}`,
    );
    assert.deepEqual(
      shown.data.map(({ body }) => body),
      [null],
    );
  });

  test('keep of their scopes only those of a token that changes their URL', async () => {
    const owned = await make(null, 'owned');
    const change = (scope: string | null, body: object) =>
      send<Endpoint>(scope, `${path}/${owned.id}`, body, 'PATCH');
    const same = await change('webhooks:write', { description: 'x', url: owned.url });
    assert.equal(same.scopes, null);
    const taken = await change('webhooks:write quotes:read', { url: `${receiver.url}/taken` });
    assert.deepEqual(taken.scopes, ['quotes:read', 'webhooks:write']);
    assert.deepEqual((await change(null, { url: `${receiver.url}/back` })).scopes, taken.scopes);
    await createBoth();
    await until('back', 1, [{ ...taken, url: `${receiver.url}/back` }]);
    assert.deepEqual(typesAt('back').sort(), ['ping', 'quote.created']);
    const left = await change('webhooks:write bookings:read', { url: `${receiver.url}/left` });
    assert.deepEqual(left.scopes, ['webhooks:write']);
  });
});
