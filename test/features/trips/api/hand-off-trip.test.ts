import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { respondAsync, tripFor, untilHandoff } from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';

interface TripAnswer {
  trip_id: string;
  items: {
    id?: string;
    type: string;
    status: string;
    external_id: string | null;
    problem?: { code: string };
  }[];
}

describe('POST /api/v1/handoffs', () => {
  const gateway = useGateway();

  const item = (name: string, change: object = {}) => ({
    type: 'quote',
    result: { name, source: 'hotelbeds', details: { net: 1 } },
    ...change,
  });
  const trip = (items: object[], change: object = {}) => ({
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    items,
    ...change,
  });
  const send = (body: object, headers: Record<string, string> = {}) =>
    gateway.request('/api/v1/handoffs', { body, headers });
  const answerTo = async (body: object, status: number, headers: Record<string, string> = {}) => {
    const response = await send(body, headers);
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as TripAnswer;
  };
  const statuses = ({ items }: TripAnswer) => items.map(({ status }) => status);
  const namesIn = async (tripId: string) => {
    const rows = await Promise.all(
      ['Quote__c', 'Booking__c'].map((object) => gateway.org.records(object, { Trip_Id__c: tripId })),
    );
    return rows
      .flat()
      .map((row) => row['Name__c'])
      .toSorted();
  };
  const calls = async () => Number((await gateway.org.counters())['metered']);

  test('writes all items in one call, in their order, and answers a repeat with the same bytes', async () => {
    const body = trip([item('a'), item('b', { type: 'booking' }), item('c')]);
    const headers = { 'idempotency-key': randomUUID() };
    const before = await calls();
    const response = await send(body, headers);
    const text = await response.text();
    assert.equal(response.status, 201, text);
    assert.equal((await calls()) - before, 1);
    assert.equal(response.headers.get('location'), `/v1/trips/${body.trip_id}`);
    const { trip_id, items } = JSON.parse(text) as TripAnswer;
    assert.equal(trip_id, body.trip_id);
    assert.deepEqual(
      items.map(({ type, status }) => [type, status]),
      [
        ['quote', 'created'],
        ['booking', 'created'],
        ['quote', 'created'],
      ],
    );
    const [booking] = await gateway.org.records('Booking__c', { Trip_Id__c: body.trip_id });
    assert.partialDeepStrictEqual(booking, {
      Id: items[1]?.id,
      External_Id__c: items[1]?.external_id,
      Name__c: 'b',
    });
    const again = await send(body, headers);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(await again.text(), text);
    assert.deepEqual(await namesIn(body.trip_id), ['a', 'b', 'c']);
  });

  test('makes nothing where one item is refused, and names it', async () => {
    const body = trip([item('a'), item('refuse me', { type: 'booking' }), item('c')]);
    await gateway.org.arm({
      match: { object: 'Booking__c' },
      effect: { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'No.' },
      times: 1,
    });
    const response = await send(body);
    assert.equal(response.status, 422);
    assert.partialDeepStrictEqual(await response.json(), {
      code: 'crm_rejected',
      errors: [{ pointer: '#/items/1' }],
    });
    assert.deepEqual(await namesIn(body.trip_id), []);
    const unknown = trip([item('a'), item('b')], { member_id: randomUUID() });
    await assertProblem(await send(unknown), 422, 'member_not_found', '#/member_id');
    assert.deepEqual(await namesIn(unknown.trip_id), []);
    const ended = trip([item('a'), item('b', { valid_until: '2020-01-01T00:00:00Z' })]);
    await assertProblem(await send(ended), 422, 'offer_expired', '#/items/1/valid_until');
    assert.deepEqual(await namesIn(ended.trip_id), []);
  });

  test('finds items again, updates them, and makes those that are new, in three calls', async () => {
    const body = trip([item('a', { reference: 'A' }), item('b', { reference: 'B', type: 'booking' })]);
    const first = await answerTo(body, 201);
    assert.deepEqual(statuses(await answerTo(body, 200)), ['existing', 'existing']);
    const before = await calls();
    const second = await answerTo(
      {
        ...body,
        items: [
          item('a2', { reference: 'A', on_repeat: 'update' }),
          ...body.items.slice(1),
          item('c', { reference: 'C' }),
        ],
      },
      201,
    );
    assert.equal((await calls()) - before, 3);
    assert.deepEqual(statuses(second), ['updated', 'existing', 'created']);
    assert.deepEqual(
      second.items.slice(0, 2).map(({ external_id }) => external_id),
      first.items.map(({ external_id }) => external_id),
    );
    assert.deepEqual(await namesIn(body.trip_id), ['a2', 'b', 'c']);
  });

  test('rolls a change back where a new item is refused', async () => {
    const body = trip([item('a', { reference: 'A' })]);
    await answerTo(body, 201);
    const items = [
      item('a2', { reference: 'A', on_repeat: 'update' }),
      item('b', { valid_until: '2020-01-01T00:00:00Z' }),
    ];
    await assertProblem(await send({ ...body, items }), 422, 'offer_expired', '#/items/1/valid_until');
    assert.deepEqual(await namesIn(body.trip_id), ['a']);
  });

  test('each for itself says which were refused, and is refused where all were', async () => {
    const body = trip([item('a'), item('b', { valid_until: '2020-01-01T00:00:00Z' })], { atomic: false });
    const answer = await answerTo(body, 201);
    assert.deepEqual(statuses(answer), ['created', 'failed']);
    assert.partialDeepStrictEqual(answer.items[1], { external_id: null, problem: { code: 'offer_expired' } });
    assert.deepEqual(await namesIn(body.trip_id), ['a']);
    await assertProblem(
      await send({ ...body, items: body.items.slice(1) }),
      422,
      'offer_expired',
      '#/items/0/valid_until',
    );
  });

  test('is stored item by item where it may be delivered later', async () => {
    const body = trip([item('a', { reference: 'A' }), item('b')]);
    const response = await send(body, respondAsync);
    assert.equal(response.status, 202);
    assert.equal(response.headers.get('preference-applied'), 'respond-async');
    const answer = (await response.json()) as TripAnswer;
    assert.deepEqual(statuses(answer), ['accepted', 'accepted']);
    for (const { external_id } of answer.items) await untilHandoff(gateway, String(external_id));
    assert.deepEqual(await namesIn(body.trip_id), ['a', 'b']);
    assert.deepEqual(statuses(await answerTo({ ...body, items: body.items.slice(0, 1) }, 200)), ['existing']);
    await assertProblem(
      await send({ ...body, atomic: true }, respondAsync),
      400,
      'invalid_request',
      '#/atomic',
    );
  });

  test('refuses what is wrong with the body, naming the item', async () => {
    const twice = trip([item('a', { reference: 'A' }), item('b', { reference: 'A' })]);
    await assertProblem(await send(twice), 400, 'invalid_request', '#/items/1/reference');
    await assertProblem(await send(trip([])), 400, 'invalid_request', '#/items');
    for (const reference of ['', 'a\u0000', '\ud800', 'r'.repeat(101)])
      await assertProblem(
        await send(trip([item('a', { reference })]), respondAsync),
        400,
        'invalid_request',
        '#/items/0/reference',
      );
    await assertProblem(
      await send(trip([item('a', { type: 'x' })])),
      400,
      'invalid_request',
      '#/items/0/type',
    );
    await assertProblem(
      await send(trip(Array.from({ length: 26 }, () => item('a')))),
      400,
      'invalid_request',
      '#/items',
    );
  });

  test('needs the permission for the type of each item', async () => {
    const as = await gateway.newConsumer({ resource: 'quotes', actions: ['write'] });
    const body = trip([item('a'), item('b', { type: 'booking' })]);
    const response = await gateway.request('/api/v1/handoffs', { body, as });
    assert.partialDeepStrictEqual(await assertProblem(response, 403, 'permission_denied'), {
      required: { resource: 'bookings' },
    });
  });

  for (const count of [1, 2])
    test(`sends a trip of ${count} again where a lock has rolled it back`, async () => {
      const body = trip(['a', 'b'].slice(0, count).map((name) => item(name)));
      await gateway.org.arm({ match: {}, effect: { kind: 'lockRow' }, times: 1 });
      assert.deepEqual(new Set(statuses(await answerTo(body, 201))), new Set(['created']));
      assert.equal((await namesIn(body.trip_id)).length, count);
    });

  test('gives up after four tries while a record stays locked', async () => {
    const body = trip([item('a'), item('b')]);
    const lock = await gateway.org.arm({ match: {}, effect: { kind: 'lockRow' } });
    const before = await calls();
    await assertProblem(await send(body), 503, 'crm_unavailable', '#/items/0', '#/items/1');
    assert.equal((await calls()) - before, 4);
    await lock.remove();
    assert.deepEqual(await namesIn(body.trip_id), []);
  });

  test('finds what a call made whose answer was lost', async () => {
    const body = trip([item('a'), item('b')]);
    const headers = { 'idempotency-key': randomUUID() };
    const lost = await gateway.org.arm({
      match: { path: '/composite' },
      effect: { kind: 'loseAnswer' },
      times: 1,
    });
    const response = await send(body, headers);
    const text = await response.text();
    assert.equal(response.status, 201, text);
    await lost.hit();
    assert.deepEqual(await namesIn(body.trip_id), ['a', 'b']);
  });
});

describe('a trip that is read back for the copy of the records', () => {
  // After the first poll there is none for an hour.
  const seldom = { CHANGES_POLL_SECONDS: '3600', CHANGES_MINIMUM_SECONDS: '3600' };
  const gateway = useGateway({ COPY_ENABLED: 'true', ...seldom });
  afterEach(() => gateway.org.disarm());

  const handOff = async () => {
    const response = await gateway.request('/api/v1/handoffs', { body: tripFor(gateway.org.memberId) });
    const text = await response.text();
    assert.equal(response.status, 201, text);
    return (JSON.parse(text) as TripAnswer).items[0]?.external_id as string;
  };
  /** Whether the copy has the quote. */
  const isCopied = async (id: string) => {
    const headers = { 'cache-control': 'max-age=3600' };
    const response = await gateway.request(`/v1/quotes/${id}`, { headers });
    assert.equal(response.status, 200, await response.text());
    return response.headers.has('age');
  };
  const untilCopied = () => eventually(async () => assert.ok(await isCopied(await handOff())));

  test('is written without that where it cannot be read', async () => {
    await untilCopied();
    const effect = { kind: 'partError', errorCode: 'QUERY_TIMEOUT', message: 'Your query took too long.' };
    const fault = await gateway.org.arm({ match: { operation: 'query' }, effect, times: 1 });
    const id = await handOff();
    await fault.hit();
    assert.equal(await isCopied(id), false);
  });

  test('is read without a column that the org lacks', async () => {
    await untilCopied();
    const message = "No such column 'Details_2__c' on entity 'Quote__c'.";
    const effect = { kind: 'partError', errorCode: 'INVALID_FIELD', message };
    await gateway.org.arm({ match: { operation: 'query', path: 'Details_2__c' }, effect });
    for (let sent = 0; sent < 2; sent++) assert.ok(await isCopied(await handOff()));
    assert.deepEqual(
      (await gateway.org.faults()).map(({ hits }) => hits),
      [1],
    );
  });
});
