import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, test } from 'node:test';
import { documentedRoutes } from '../../../../src/app/routes.ts';
import { eventually } from '../../../support/eventually.ts';
import { type RequestOptions, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';
import { holdingsOf, newReservation } from '../../../support/reservations.ts';

const path = '/v1/reservations';
const keyed = (key: string = randomUUID()) => ({ 'idempotency-key': key });

describe('reservations', () => {
  const gateway = useGateway();
  beforeEach(() => gateway.diningPartner.control('POST', 'reset', { bookings: false }));

  const both = () => ({ org: gateway.org, partner: gateway.diningPartner });
  const order = (dining: object = {}) => newReservation(gateway.org.memberId, dining);
  const send = (body: object, key?: string) => gateway.request(path, { body, headers: keyed(key) });
  const make = async (body: Record<string, unknown> = order()) => {
    const response = await send(body);
    assert.equal(response.status, 201, await response.clone().text());
    return { body, reservation: (await response.json()) as { id: string; dining: { booking_id: string } } };
  };
  const read = async (id: string, options: RequestOptions = {}) => {
    const response = await gateway.request(`${path}/${id}`, options);
    assert.equal(response.status, 200);
    return (await response.json()) as {
      status: string;
      booking: { status: string | null };
      dining: { booking_id: string; status: string | null };
    };
  };
  const cancel = (id: string, headers: Record<string, string> = {}) =>
    gateway.request(`${path}/${id}`, { method: 'DELETE', headers: { ...keyed(), ...headers } });
  /** The job looks every few seconds; nothing shows when. */
  const until = async (id: string, status: string) => {
    await eventually(async () => assert.equal((await read(id)).status, status), { everyMs: 50 });
  };

  test('a reservation is a table and a booking that refer to each other', async () => {
    const body = { ...order(), details: { request: 'window', price: 1.1 } };
    const key = randomUUID();
    const response = await send(body, key);
    const text = await response.text();
    const reservation = JSON.parse(text);
    const { id } = reservation;
    const [table] = await gateway.diningPartner.bookings({ booking_id: reservation.dining.booking_id });
    assert.deepEqual(reservation, {
      id,
      status: 'confirmed',
      trip_id: body['trip_id' as never],
      member_id: gateway.org.memberId,
      name: 'Casa Olivo, a table for four',
      booking: { id, status: 'confirmed' },
      created_by: { consumer_id: gateway.console.id, consumer_name: 'console', actor: null, verified: false },
      dining: {
        partner: 'dining',
        booking_id: table?.booking_id,
        status: 'confirmed',
        start_at: (body as unknown as { dining: { start_at: string } }).dining.start_at,
        time_zone: 'Europe/Madrid',
        party_size: 4,
      },
      created_at: reservation.created_at,
      updated_at: reservation.updated_at,
    });
    assert.equal(table?.duration_sec, 90 * 60);
    assert.equal(table.additional_request, id);
    assert.equal(response.headers.get('location'), `${path}/${id}`);
    const [record] = await gateway.org.records('Booking__c', { External_Id__c: id });
    assert.equal(record?.['Source__c'], 'dining');
    assert.equal(JSON.parse(String(record['Details__c'])).dining.booking_id, table.booking_id);
    assert.ok(String(record['Details__c']).endsWith('"details":{"request":"window","price":1.1}}'));

    const again = await send(body, key);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(await again.text(), text);
    const etag = response.headers.get('etag') ?? '';
    const known = await gateway.request(`${path}/${id}`, { headers: { 'if-none-match': etag } });
    assert.equal(known.status, 304);
  });

  const faults: [pointer: string, dining: object][] = [
    ['#/dining/start_at', { start_at: '2026-12-04T19:00:00+01:00' }],
    ['#/dining/start_at', { start_at: '2026-12-04T19:00:00.500Z' }],
    ['#/dining/start_at', { start_at: '2026-13-04T19:00:00Z' }],
    ['#/dining/start_at', { start_at: '2027-02-30T19:00:00Z' }],
    ['#/dining/start_at', { start_at: '2027-06-30T23:59:60Z' }],
    ['#/dining/start_at', { start_at: '0000-01-01T00:00:00Z' }],
    ['#/dining/start_at', { start_at: '1969-12-31T23:59:59Z' }],
    ['#/dining/party_size', { party_size: 0 }],
    ['#/dining/party_size', { party_size: 51 }],
    ['#/dining/duration_minutes', { duration_minutes: 0 }],
    [
      '#/dining/guest/phone',
      { guest: { given_name: 'a', family_name: 'b', email: 'a@b.org', phone: '0952' } },
    ],
    [
      '#/dining/guest/email',
      { guest: { given_name: 'a', family_name: 'b', email: 'a', phone: '+12025550143' } },
    ],
    [
      '#/dining/guest/given_name',
      { guest: { given_name: 'x'.repeat(41), family_name: 'b', email: 'a@b.org', phone: '+12025550143' } },
    ],
    ['#/dining/table', { table: 4 }],
  ];
  for (const [pointer, dining] of faults) {
    test(`a fault is named: ${pointer} in ${JSON.stringify(dining).slice(0, 60)}`, async () => {
      await assertProblem(await send(order(dining)), 400, 'invalid_request', pointer);
    });
  }

  test('details that would not fit beside the table are refused before anything is made', async () => {
    const body = { ...order(), details: { a: `${'x'.repeat(200)}${' '.repeat(130_900)}` } };
    await assertProblem(await send(body), 422, 'details_too_large', '#/details');
    assert.deepEqual(await holdingsOf(both(), body), { bookings: [], tables: [] });
  });

  test('a key is needed to make and to cancel', async () => {
    await assertProblem(
      await gateway.request(path, { body: order() }),
      400,
      'idempotency_key_missing',
      'Idempotency-Key',
    );
    const response = await gateway.request(`${path}/${randomUUID()}`, { method: 'DELETE' });
    await assertProblem(response, 400, 'idempotency_key_missing', 'Idempotency-Key');
  });

  test('a refusal of the partner leaves nothing behind', async () => {
    await gateway.diningPartner.set({ seats: 3 });
    const body = order();
    const key = randomUUID();
    const problem = await assertProblem(await send(body, key), 422, 'partner_rejected');
    assert.equal(problem.cause, 'SLOT_UNAVAILABLE');
    assert.deepEqual(await holdingsOf(both(), body), { bookings: [], tables: [] });
    await gateway.diningPartner.set({ seats: 100 });
    const again = await send(body, key);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(again.status, 422);
  });

  for (const cause of ['USER_OVER_BOOKING_LIMIT', 'BANNED_USER', 'PAYMENT_ERROR', 'INVENTED_BY_SOMEBODY']) {
    test(`the partner's reason is in the answer: ${cause}`, async () => {
      await gateway.diningPartner.arm({
        match: { operation: 'CreateBooking' },
        effect: { kind: 'failure', cause },
      });
      const body = order();
      const problem = await assertProblem(await send(body), 422, 'partner_rejected');
      assert.equal(problem.cause, cause);
      assert.deepEqual(await holdingsOf(both(), body), { bookings: [], tables: [] });
    });
  }

  test('a member that the CRM does not know is refused', async () => {
    const body = newReservation(randomUUID());
    await assertProblem(await send(body), 422, 'member_not_found');
    assert.deepEqual(await holdingsOf(both(), body), { bookings: [], tables: [] });
  });

  test('a table whose answer was lost is found again', async () => {
    await gateway.diningPartner.arm({
      match: { operation: 'CreateBooking' },
      effect: { kind: 'loseAnswer' },
      times: 1,
    });
    const { body } = await make();
    assert.deepEqual(await holdingsOf(both(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
  });

  test('a table goes to the order that it was booked for, although another one hears of it first', async () => {
    const { diningPartner } = gateway;
    const [body, key] = [order(), randomUUID()];
    const match = { operation: 'CreateBooking' };
    const hold = await diningPartner.arm({ match, effect: { kind: 'hold', stage: 'after' }, times: 1 });
    const first = send(body);
    await hold.hit();
    await diningPartner.arm({ match, effect: { kind: 'reset' }, times: 1 });
    const problem = await assertProblem(await send(body, key), 502, 'partner_error');
    assert.match(problem.detail, /which of the guest's reservations/);
    await hold.release();
    assert.equal((await first).status, 201);
    await eventually(async () => assert.equal((await send(body, key)).status, 422));
    assert.deepEqual(await holdingsOf(both(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
  });

  test('a partner that is unavailable: the outcome is unknown, the job finishes it, and the repeat has it', async () => {
    const unavailable = await gateway.diningPartner.arm({
      match: { operation: 'CreateBooking' },
      effect: { kind: 'error', status: 503 },
    });
    const body = order();
    const key = randomUUID();
    const problem = await assertProblem(await send(body, key), 503, 'partner_unavailable');
    assert.match(problem.detail, /same Idempotency-Key is safe/);
    await unavailable.remove();
    const repeat = await eventually(async () => {
      const answer = await send(body, key);
      assert.notEqual(answer.status, 409);
      return answer;
    });
    assert.equal(repeat.status, 201);
    assert.deepEqual(await holdingsOf(both(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
  });

  for (const [decision, status, bookings] of [
    ['CONFIRMED', 'confirmed', ['confirmed']],
    ['DECLINED_BY_MERCHANT', 'failed', []],
  ] as const) {
    test(`a partner that decides later: ${decision}`, async () => {
      await gateway.diningPartner.set({ asynchronous: true });
      const { body, reservation } = await make();
      assert.partialDeepStrictEqual(reservation, { status: 'pending', dining: { status: 'pending' } });
      assert.deepEqual((await holdingsOf(both(), body)).bookings, ['pending']);
      await gateway.diningPartner.setStatus(reservation.dining.booking_id, decision);
      await until(reservation.id, status);
      assert.deepEqual((await holdingsOf(both(), body)).bookings, bookings);
      assert.equal((await read(reservation.id)).booking.status, bookings[0] ?? null);
    });
  }

  test('a pending reservation can be cancelled', async () => {
    await gateway.diningPartner.set({ asynchronous: true });
    const { body, reservation } = await make();
    assert.equal((await cancel(reservation.id)).status, 204);
    assert.deepEqual(await holdingsOf(both(), body), { bookings: ['cancelled'], tables: ['CANCELED'] });
  });

  test('a read says which part cannot be asked', async () => {
    const { reservation } = await make();
    const partner = await gateway.diningPartner.arm({ effect: { kind: 'error', status: 503 } });
    assert.partialDeepStrictEqual(await read(reservation.id), {
      status: 'confirmed',
      booking: { status: 'confirmed' },
      dining: { booking_id: reservation.dining.booking_id, status: 'unknown' },
    });
    await partner.remove();
    const crm = await gateway.org.arm({
      match: { object: 'Booking__c' },
      effect: { kind: 'error', status: 503, errorCode: 'SERVER_UNAVAILABLE', message: 'unavailable' },
    });
    assert.partialDeepStrictEqual(await read(reservation.id), {
      status: 'confirmed',
      booking: { status: 'unknown' },
      dining: { status: 'confirmed' },
    });
    await crm.remove();
    await until(reservation.id, 'confirmed');
  });

  test('a part that somebody removed needs attention', async () => {
    const { reservation } = await make();
    await gateway.diningPartner.setStatus(reservation.dining.booking_id, 'CANCELED');
    const view = await read(reservation.id);
    assert.deepEqual([view.status, view.dining.status], ['needs_attention', 'cancelled']);
  });

  test('a cancellation cancels table and booking, and the reservation stays readable', async () => {
    const { body, reservation } = await make();
    const key = keyed();
    const options = { method: 'DELETE', headers: key };
    assert.equal((await gateway.request(`${path}/${reservation.id}`, options)).status, 204);
    assert.deepEqual(await holdingsOf(both(), body), { bookings: ['cancelled'], tables: ['CANCELED'] });
    assert.partialDeepStrictEqual(await read(reservation.id), {
      status: 'cancelled',
      booking: { status: 'cancelled' },
      dining: { status: 'cancelled' },
    });
    const again = await gateway.request(`${path}/${reservation.id}`, options);
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [204, 'true']);
    assert.equal((await cancel(reservation.id)).status, 204);
  });

  test('a cancellation that the partner refuses changes nothing', async () => {
    const { body, reservation } = await make();
    await gateway.diningPartner.set({ cancellationMinutes: 1_000_000 });
    const problem = await assertProblem(await cancel(reservation.id), 409, 'conflict');
    assert.equal(problem.cause, 'OUTSIDE_CANCELLATION_WINDOW');
    assert.deepEqual(await holdingsOf(both(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
    assert.equal((await read(reservation.id)).status, 'confirmed');
  });

  test('a cancellation honours If-Match', async () => {
    const { reservation } = await make();
    await assertProblem(await cancel(reservation.id, { 'if-match': '"old"' }), 412, 'precondition_failed');
    const etag = (await gateway.request(`${path}/${reservation.id}`)).headers.get('etag') ?? '';
    assert.equal((await cancel(reservation.id, { 'if-match': etag })).status, 204);
  });

  test('a cancellation with If-Match sees a change that comes after its check', async () => {
    const { reservation } = await make();
    const etag = (await gateway.request(`${path}/${reservation.id}`)).headers.get('etag') ?? '';
    const hold = await gateway.org.arm({
      match: { operation: 'query', object: 'Booking__c' },
      effect: { kind: 'hold', stage: 'after' },
      times: 1,
    });
    const late = cancel(reservation.id, { 'if-match': etag });
    await hold.hit();
    await gateway.diningPartner.set({ cancellationMinutes: 1_000_000 });
    await assertProblem(await cancel(reservation.id), 409, 'conflict');
    await hold.release();
    await assertProblem(await late, 412, 'precondition_failed');
  });

  test('without a partner its paths do not exist', () => {
    const paths = documentedRoutes('reservations', 'history').map((route) => route.path);
    assert.deepEqual(
      paths.filter((one) => one.startsWith(path)),
      [],
    );
  });

  test('what was never made is not there', async () => {
    await assertProblem(await gateway.request(`${path}/${randomUUID()}`), 404, 'not_found');
    await assertProblem(await cancel(randomUUID()), 404, 'not_found');
  });

  test('while it is being made it can be read, and not be cancelled', async () => {
    const hold = await gateway.diningPartner.arm({
      match: { operation: 'CreateBooking' },
      effect: { kind: 'hold' },
    });
    const body = order();
    const key = randomUUID();
    const first = send(body, key);
    await hold.hit();
    await assertProblem(await send(body, key), 409, 'idempotency_in_progress');
    const [record] = await gateway.org.records('Booking__c', { Trip_Id__c: String(body['trip_id']) });
    const id = String(record?.['External_Id__c']);
    assert.partialDeepStrictEqual(await read(id), {
      status: 'pending',
      booking: { status: 'pending' },
      dining: { booking_id: null, status: null },
    });
    await assertProblem(await cancel(id), 409, 'conflict');
    await hold.release();
    await hold.remove();
    assert.equal((await first).status, 201);
  });

  test('its booking is changed and deleted through the reservation only', async () => {
    const { reservation } = await make();
    const booking = `/v1/bookings/${reservation.id}`;
    const change = { method: 'PATCH', body: { name: 'other' } };
    for (const options of [change, { method: 'DELETE' }]) {
      const response = await gateway.request(booking, { ...options, headers: keyed() });
      const problem = await assertProblem(response, 409, 'conflict');
      assert.ok(problem.detail.includes(reservation.id));
    }
    await cancel(reservation.id);
    assert.equal((await gateway.request(booking, { ...change, headers: keyed() })).status, 200);
    assert.equal((await gateway.request(booking, { method: 'DELETE', headers: keyed() })).status, 204);
  });
});
