import assert from 'node:assert/strict';
import { createPrivateKey, randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import {
  HandoffClient,
  HandoffProblem,
  JsonNumber,
  type TripHandoff,
  writeJson,
} from '../../client/src/index.ts';
import { makeKeys } from '../support/assertions.ts';
import { type Credentials, useGateway } from '../support/gateway.ts';
import { newReservation } from '../support/reservations.ts';

describe('the client: answers with what their headers say', () => {
  const gateway = useGateway();
  let client: HandoffClient;
  let memberId: string;
  before(async () => {
    memberId = gateway.org.memberId;
    client = clientFor(gateway.console);
  });

  const clientFor = ({ apiKey, apiSecret }: Pick<Credentials, 'apiKey' | 'apiSecret'>) =>
    new HandoffClient({ baseUrl: gateway.url, apiKey, apiSecret });
  const make = async (body: object): Promise<Credentials> => {
    const response = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: { name: `client ${randomUUID()}`, ...body },
    });
    assert.equal(response.status, 201, await response.clone().text());
    return (await response.json()) as Credentials;
  };
  const quote = () => ({
    ...{ trip_id: randomUUID(), member_id: memberId },
    ...{ name: 'Hotel Miramar', source: 'hotelbeds', details: {} },
  });
  const trip = (): TripHandoff => ({
    ...{ trip_id: randomUUID(), member_id: memberId },
    items: ['HB-1', 'HB-2'].map((reference) => ({
      type: 'quote',
      result: { name: `Hotel ${reference}`, source: 'hotelbeds', details: { net: new JsonNumber('1.50') } },
      reference,
    })),
  });

  test('changes a record only where it is as it was read', async () => {
    const idempotencyKey = randomUUID();
    const body = quote();
    const created = await client.quotes.create(body, { idempotencyKey }).withMeta();
    assert.equal(created.replayed, false);
    assert.match(created.requestId ?? '', /^[\w-]{8,}$/);
    const again = await client.quotes.create(body, { idempotencyKey }).withMeta();
    assert.deepEqual([again.replayed, again.data], [true, created.data]);
    const { id } = created.data;
    const { etag, data } = await client.quotes.retrieve(id).withMeta();
    assert.equal(data.name, 'Hotel Miramar');
    assert.ok(etag);
    assert.equal(await client.quotes.retrieve(id, { ifNoneMatch: etag }), undefined);
    const unchanged = await client.quotes.retrieve(id, { ifNoneMatch: etag }).withMeta();
    assert.deepEqual([unchanged.data, unchanged.etag], [undefined, etag]);
    const changed = await client.quotes.update(id, { name: 'Hotel Sol' }, { ifMatch: etag }).withMeta();
    assert.notEqual(changed.etag, etag);
    assert.equal((await client.quotes.retrieve(id, { ifNoneMatch: etag }))?.name, 'Hotel Sol');
    const isStale = (error: unknown) =>
      error instanceof HandoffProblem && error.code === 'precondition_failed';
    await assert.rejects(client.quotes.update(id, { name: 'x' }, { ifMatch: etag }), isStale);
    // Neither form leaves a rejection that nobody handles.
    await assert.rejects(client.quotes.delete(id, { ifMatch: etag }).withMeta(), isStale);
    const page = await client.quotes.list({ trip_id: body.trip_id }).page().withMeta();
    assert.equal(page.data.data.length, 1);
  });

  test('takes a pair that is rotated while it lives', async () => {
    const consumer = await make({ permissions: [{ resource: 'quotes', actions: ['read'] }] });
    let pair = { apiKey: consumer.apiKey, apiSecret: consumer.apiSecret };
    const living = new HandoffClient({
      baseUrl: gateway.url,
      apiKey: () => pair.apiKey,
      apiSecret: async () => pair.apiSecret,
    });
    await living.quotes.list().page();
    const made = await living.consumer.rotate({ grace_window_hours: 0 });
    await assert.rejects(living.consumer.retrieve(), { status: 401 });
    pair = { apiKey: made.apiKey, apiSecret: made.apiSecret };
    assert.equal((await living.consumer.retrieve()).id, consumer.id);
    const usage = await living.consumer.usage();
    assert.ok(usage);
    const attempts = await living.consumer.attempts({ limit: 5 }).page();
    assert.ok(attempts.data.length > 0);
    pair = { apiKey: '', apiSecret: 'x' };
    await assert.rejects(living.consumer.retrieve(), /apiKey is missing/);
  });

  test('takes the JWK that Node.js exports, as its types are', async () => {
    const { jwk, privateKey } = makeKeys('ES256');
    const { id: clientId } = await make({
      permissions: [{ resource: 'quotes', actions: ['read'] }],
      publicKeys: [jwk],
    });
    const pem = privateKey.export({ format: 'pem', type: 'pkcs8' });
    const own = createPrivateKey(pem).export({ format: 'jwk' });
    const byKey = new HandoffClient({ baseUrl: gateway.url, clientId, privateKey: own });
    assert.equal((await byKey.consumer.retrieve()).id, clientId);
    const none = new HandoffClient({ baseUrl: gateway.url, clientId, privateKey: { kty: undefined } });
    await assert.rejects(none.consumer.retrieve(), /privateKey is of a kind/);
  });

  test('checks a trip, hands it off, changes an item and reads it', async () => {
    const body = trip();
    assert.deepEqual(await client.checkHandOffTrip(body), { ok: true, problems: [], warnings: [] });
    const { status, items: made } = { status: 0, ...(await client.handOffTrip(body)) };
    assert.equal(status, 0);
    assert.deepEqual(
      made.map((item) => item.status),
      ['created', 'created'],
    );
    const [first] = body.items;
    assert.ok(first);
    const { trip_id, member_id } = body;
    const changed = { ...first, result: { ...first.result, name: 'Hotel Sol' } };
    const updated = await client.handOff({ trip_id, member_id, ...changed, on_repeat: 'update' });
    assert.deepEqual([updated.status, updated.external_id], ['updated', made[0]?.external_id]);
    const check = await client.checkHandOff({ trip_id, member_id, ...first, reference: '' });
    assert.deepEqual([check.ok, check.problems[0]?.code], [false, 'invalid_request']);
    const found = await client.trips.retrieve(trip_id);
    assert.deepEqual(found.quotes.map(({ name }) => name).sort(), ['Hotel HB-2', 'Hotel Sol']);
    const id = String(made[0]?.external_id);
    const { member } = await client.quotes.retrieve(id, { include: 'member' });
    assert.equal(member?.id, memberId);
    const { data } = await client.quotes.list({ trip_id, include: 'member' }).page();
    assert.equal(data[0]?.member?.id, memberId);
    const { data: entries } = await client.quotes.history(id);
    assert.ok(entries.length > 0);
  });

  test('finds restaurants, and reads what became of tables and hand-offs', async () => {
    const [olivo] = (await client.diningMerchants.list({ q: 'olivo' }).page()).data;
    assert.equal(olivo?.merchant_id, 'casa-olivo-7');
    const { id } = await client.reservations.create(newReservation(memberId) as never);
    assert.ok((await client.reservations.history(id)).data.length > 0);
    assert.equal((await client.reservations.retrieve(id, { include: 'member' })).member?.id, memberId);
    const { etag = '' } = await client.reservations.retrieve(id).withMeta();
    await client.reservations.cancel(id, { ifMatch: etag });
    const stored = await client.handOff(
      { type: 'quote', trip_id: randomUUID(), member_id: memberId, result: trip().items[0]?.result as never },
      { respondAsync: true },
    );
    assert.ok((await client.handoffs.history(stored.external_id)).data.length > 0);
  });

  test('empties a test world', async () => {
    const actions = ['read', 'write'];
    const tester = await make({ mode: 'test', permissions: [{ resource: 'quotes', actions }] });
    const own = clientFor(tester);
    const { id } = await own.quotes.create({ ...quote(), member_id: memberId });
    await own.test.reset();
    await assert.rejects(own.quotes.retrieve(id), { status: 404 });
  });

  test('writes JSON with every digit', () => {
    const value = { a: new JsonNumber('0.10000000000000000001'), b: 12345678901234567890n };
    assert.equal(writeJson(value), '{"a":0.10000000000000000001,"b":12345678901234567890}');
  });
});
