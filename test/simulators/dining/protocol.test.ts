import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { startOwnPartner } from '../../support/dining-partner.ts';
import { type BookingValues, createRequest, type Parsed, post, read, startInDays } from './client.ts';

let own: Awaited<ReturnType<typeof startOwnPartner>>;
before(async () => {
  own = await startOwnPartner();
});
after(() => own.close());
beforeEach(() => own.partner.reset());

const send = (method: string, body: unknown, headers?: Record<string, string>) =>
  post(own.partner.url, method, body, headers);
const create = (values?: BookingValues) => send('CreateBooking', createRequest(values));
const created = async (values?: BookingValues): Promise<Parsed> => (await create(values)).body.booking;
const causeOf = (answer: { status: number; body: Parsed }): string => {
  assert.equal(answer.status, 200);
  return answer.body.booking_failure.cause;
};
const update = (booking: object) => send('UpdateBooking', { booking });

describe('the door', () => {
  it('answers only who shows the credentials, HealthCheck included', async () => {
    for (const authorization of ['', 'Basic Z2F0ZXdheTp3cm9uZw==', 'Bearer x']) {
      assert.equal((await send('ListBookings', { user_id: 'u' }, { authorization })).status, 401);
    }
    assert.equal((await fetch(`${own.partner.url}/v3/HealthCheck`)).status, 401);
    await own.partner.set({ quirks: ['openHealthCheck'] });
    assert.equal((await fetch(`${own.partner.url}/v3/HealthCheck`)).status, 200);
  });

  it('takes paths with a folder before, a slash behind, and in any case, and nothing else', async () => {
    for (const path of ['', '/google']) {
      for (const method of ['ListBookings', 'ListBookings/', 'listbookings']) {
        const answer = await post(own.partner.url + path, method, { user_id: 'u' });
        assert.deepEqual([answer.status, answer.body], [200, {}], path + method);
      }
    }
    assert.equal((await send('CheckAvailability', {})).status, 404);
  });

  it('parses strictly, and says what it does not take', async () => {
    const request = createRequest();
    for (const [body, message] of [
      [{ ...request, language: 'en' }, /language is unknown/],
      [{ ...request, slot: { ...request.slot, resource_ids: {} } }, /resource_ids is unknown/],
      [{ ...request, slot: { ...request.slot, start_sec: 'soon' } }, /start_sec must be an integer/],
      [{ ...request, idempotency_token: undefined }, /idempotency_token is missing/],
      [{ ...request, slot: { ...request.slot, service_id: 'terrace' } }, /unknown service_id/],
      [{ ...request, slot: { ...request.slot, start_sec: String(startInDays(5) + 60) } }, /no slot starts/],
      ['{', /not JSON/],
      ['[]', /must be an object/],
    ] as const) {
      const answer = await send('CreateBooking', body);
      assert.equal(answer.status, 400);
      assert.match(answer.body.errorMessage, message);
    }
    assert.equal((await send('CreateBooking', '{}', { 'content-type': 'text/plain' })).status, 415);
  });
});

describe('bookings', () => {
  it('are made, and answered as the Java skeleton prints them', async () => {
    const request = createRequest();
    const { body } = await send('CreateBooking', request);
    const { booking_id, ...booking } = body.booking;
    assert.match(booking_id, /^CO-\d+$/);
    assert.deepEqual(booking, {
      slot: { ...request.slot, confirmation_mode: 'CONFIRMATION_MODE_SYNCHRONOUS' },
      user_information: request.user_information,
      status: 'CONFIRMED',
      payment_information: { prepayment_status: 'PREPAYMENT_NOT_PROVIDED' },
    });
    const status = { booking_id, booking_status: 'CONFIRMED', prepayment_status: 'PREPAYMENT_NOT_PROVIDED' };
    assert.deepEqual((await send('GetBookingStatus', { booking_id })).body, status);
    const { user_id } = request.user_information;
    assert.deepEqual((await send('ListBookings', { user_id })).body, { bookings: [body.booking] });
  });

  it('are taken in lowerCamelCase and with numbers too', async () => {
    const { slot, user_information: user, ...rest } = createRequest();
    const answer = await send('CreateBooking', {
      idempotencyToken: rest.idempotency_token,
      slot: {
        merchantId: slot.merchant_id,
        serviceId: 'table',
        startSec: Number(slot.start_sec),
        durationSec: 5400,
        resources: { partySize: 2 },
      },
      userInformation: { ...user },
    });
    assert.equal(answer.body.booking.slot.resources.party_size, 2);
  });

  it('are one for each token, whose answer never changes', async () => {
    const request = createRequest();
    const first = await send('CreateBooking', request);
    await update({ booking_id: first.body.booking.booking_id, status: 'CANCELED' });
    assert.equal((await send('CreateBooking', request)).text, first.text);
    const other = { ...request, additional_request: 'High chair' };
    assert.equal(typeof (await send('CreateBooking', other)).body.booking_failure, 'object');
    assert.equal((await own.partner.bookings()).length, 1);
  });

  it('seal no failure: the token may succeed later', async () => {
    const request = createRequest({ party: 8 });
    await own.partner.set({ seats: 7 });
    assert.equal(causeOf(await send('CreateBooking', request)), 'SLOT_UNAVAILABLE');
    await own.partner.set({ seats: 8 });
    assert.equal((await send('CreateBooking', request)).body.booking.status, 'CONFIRMED');
  });

  it('take seats as long as they last, and give them back', async () => {
    await own.partner.set({ seats: 10 });
    const start = startInDays(6);
    const first = await created({ start, party: 6 });
    assert.equal(causeOf(await create({ start: start + 1800, party: 5 })), 'SLOT_UNAVAILABLE');
    await created({ start: start + 5400, party: 5 });
    await created({ start: start + 1800, party: 4, minutes: 30 });
    await update({ booking_id: first.booking_id, status: 'CANCELED' });
    await created({ start, party: 6, minutes: 30 });
  });

  it('are refused for what follows from the books', async () => {
    const userId = 'user-1';
    const start = startInDays(7);
    const { booking_id } = await created({ userId, start });
    assert.equal(causeOf(await create({ userId, start })), 'SLOT_ALREADY_BOOKED_BY_USER');
    assert.equal(causeOf(await create({ userId, start: start + 3600 })), 'OVERLAPPING_RESERVATION');
    await own.partner.set({ bookingsPerUser: 1 });
    assert.equal(causeOf(await create({ userId, start: start + 86_400 })), 'USER_OVER_BOOKING_LIMIT');
    assert.equal(causeOf(await create({ start: startInDays(-1) })), 'SLOT_UNAVAILABLE');
    const lease = { ...createRequest(), lease_ref: { lease_id: 'x' } };
    assert.equal(causeOf(await send('CreateBooking', lease)), 'LEASE_EXPIRED');
    assert.equal(
      causeOf(await send('CreateBooking', { ...createRequest(), offer_id: 'x' })),
      'OFFER_UNAVAILABLE',
    );
    const { user_information, ...rest } = createRequest();
    const guest = (change: object) => ({ ...rest, user_information: { ...user_information, ...change } });
    assert.equal(
      causeOf(await send('CreateBooking', guest({ telephone: '600' }))),
      'UNSUPPORTED_PHONE_NUMBER',
    );
    assert.equal(
      causeOf(await send('CreateBooking', guest({ given_name: 'x'.repeat(41) }))),
      'UNSUPPORTED_NAME',
    );
    await own.partner.set({ cancellationMinutes: 20_000 });
    assert.equal(causeOf(await update({ booking_id, status: 'CANCELED' })), 'OUTSIDE_CANCELLATION_WINDOW');
    await own.partner.setStatus(booking_id, 'NO_SHOW');
    assert.equal(causeOf(await update({ booking_id, status: 'CANCELED' })), 'BOOKING_NOT_CANCELLABLE');
    await own.partner.setStatus(booking_id, 'CANCELED');
    assert.equal(causeOf(await update({ booking_id, status: 'CANCELED' })), 'BOOKING_ALREADY_CANCELLED');
  });

  it('move to another time or party, as long as there are seats', async () => {
    await own.partner.set({ seats: 10 });
    const start = startInDays(8);
    const { booking_id } = await created({ start, party: 6 });
    const moved = { start_sec: String(start + 1800), duration_sec: '5400' };
    for (const _ of [1, 2]) {
      const { body } = await update({ booking_id, slot: moved });
      assert.deepEqual([body.booking.booking_id, body.booking.slot.start_sec], [booking_id, moved.start_sec]);
    }
    assert.equal(
      (await update({ booking_id, slot: { resources: { party_size: 10 } } })).body.booking.slot.resources
        .party_size,
      10,
    );
    assert.equal(
      causeOf(await update({ booking_id, slot: { resources: { party_size: 11 } } })),
      'SLOT_UNAVAILABLE',
    );
    assert.equal((await update({ booking_id, slot: { start_sec: '1' } })).status, 400);
    await own.partner.set({ quirks: ['newIdOnReschedule'] });
    const again = await update({ booking_id, slot: { resources: { party_size: 2 } } });
    assert.notEqual(again.body.booking.booking_id, booking_id);
    assert.equal((await send('GetBookingStatus', { booking_id })).status, 404);
  });

  it('wait for the merchant where it decides later', async () => {
    await own.partner.set({ asynchronous: true });
    const { booking_id, status, slot } = await created();
    assert.deepEqual(
      [status, slot.confirmation_mode],
      ['PENDING_MERCHANT_CONFIRMATION', 'CONFIRMATION_MODE_ASYNCHRONOUS'],
    );
    assert.equal(
      (await update({ booking_id, slot: { resources: { party_size: 2 } } })).body.booking,
      undefined,
    );
    await own.partner.setStatus(booking_id, 'DECLINED_BY_MERCHANT');
    assert.equal(
      (await send('GetBookingStatus', { booking_id })).body.booking_status,
      'DECLINED_BY_MERCHANT',
    );
  });
});

describe('availability', () => {
  const ask = (...times: object[]) =>
    send('BatchAvailabilityLookup', { merchant_id: 'casa-olivo-7', slot_time: times });
  const time = (start: number, party = 2) => ({
    service_id: 'table',
    start_sec: String(start),
    duration_sec: '5400',
    resource_ids: { party_size: party },
  });

  it('answers each slot that was asked for, and leaves false out', async () => {
    const [near, far] = [time(startInDays(9), 2), time(startInDays(10), 101)];
    assert.deepEqual((await ask(near, far)).body, {
      slot_time_availability: [{ slot_time: near, available: true }, { slot_time: far }],
    });
    await own.partner.set({ quirks: ['printsDefaults', 'numbers', 'echoesOtherStart'] });
    const [odd] = (await ask(far)).body.slot_time_availability;
    assert.deepEqual([odd.available, odd.slot_time.start_sec], [false, startInDays(10) + 1800]);
  });
});

describe('quirks', () => {
  it('change what the protocol leaves open', async () => {
    const { booking_id } = await created();
    const quirks = (...quirks: string[]) => own.partner.set({ quirks });
    await quirks('unknownBookingAs200');
    assert.equal(causeOf(await send('GetBookingStatus', { booking_id: 'x' })), 'BOOKING_NOT_FOUND');
    await quirks('textErrors');
    const text = await send('GetBookingStatus', { booking_id: 'x' });
    assert.deepEqual([text.status, text.type], [404, 'text/plain']);
    await quirks('noListBookings', 'noGetBookingStatus');
    assert.equal((await send('ListBookings', { user_id: 'u' })).status, 501);
    assert.equal((await send('GetBookingStatus', { booking_id })).status, 501);
    await quirks('inventedCauses');
    assert.match(causeOf(await send('CreateBooking', { ...createRequest(), offer_id: 'x' })), /^HOUSE_RULE_/);
    await quirks('minimalUpdate');
    assert.deepEqual((await update({ booking_id, slot: {} })).body.booking, {
      booking_id,
      status: 'CONFIRMED',
    });
    await quirks('withoutPrepaymentStatus', 'camelCase');
    const status = await send('GetBookingStatus', { booking_id });
    assert.deepEqual(status.body, { bookingId: booking_id, bookingStatus: 'CONFIRMED' });
  });
});

describe('the control API', () => {
  it('refuses what it does not know, by name', async () => {
    const control = async (method: string, path: string, body?: object) =>
      read(
        await fetch(`${own.partner.url}/simulator/${path}`, {
          method,
          ...(body && { body: JSON.stringify(body) }),
        }),
      );
    for (const [body, message] of [
      [{ chairs: 1 }, /chairs is unknown/],
      [{ seats: 'many' }, /seats must be a number/],
      [{ quirks: ['rude'] }, /quirks must be a list of numbers, camelCase/],
    ] as const) {
      const answer = await control('PATCH', 'settings', body);
      assert.equal(answer.status, 400);
      assert.match(answer.body.error, message);
    }
    assert.match(
      (await control('POST', 'faults', { effect: { kind: 'boom' } })).body.error,
      /one of latency/,
    );
    assert.equal((await control('POST', 'bookings/CO-1/status', { status: 'CONFIRMED' })).status, 404);
    assert.equal((await control('GET', 'nowhere')).status, 404);
  });
});
