import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { createDiningConnector } from '../../../../../src/features/reservations/connectors/dining/dining.ts';
import { partnerCredentials } from '../../../../support/dining-partner.ts';
import { newAttempt, problemOf } from '../conformance.ts';
import { type DiningHarness, newCall, newOrder, startDiningHarness } from './dining-harness.ts';

let harness: DiningHarness;
before(async () => {
  harness = await startDiningHarness();
});
after(() => harness.close());
beforeEach(() => harness.partner.reset());

const quirks = (...quirks: string[]) => harness.partner.set({ quirks });

async function booked() {
  const order = newOrder();
  const { reference } = await harness.connector.create(order, newAttempt(), newCall());
  const status = async () => (await harness.partner.bookings({ booking_id: reference }))[0]?.status;
  return { order, reference, status };
}

describe('reading a table', () => {
  it('maps what may have become of it', async () => {
    const { order, reference } = await booked();
    for (const [word, status] of [
      ['CONFIRMED', 'confirmed'],
      ['PENDING_MERCHANT_CONFIRMATION', 'pending'],
      ['DECLINED_BY_MERCHANT', 'failed'],
      ['FAILED', 'failed'],
      ['CANCELED', 'cancelled'],
      ['NO_SHOW', 'confirmed'],
      ['NO_SHOW_PENALIZED', 'confirmed'],
    ]) {
      await harness.partner.setStatus(reference, word as string);
      for (const way of [[], ['noGetBookingStatus']]) {
        await quirks(...way);
        assert.equal((await harness.connector.retrieve(reference, order, newCall()))?.status, status);
      }
    }
  });

  it('finds it among the bookings of the member where there is no GetBookingStatus', async () => {
    const { order, reference } = await booked();
    await quirks('noGetBookingStatus');
    const expected = { reference, status: 'confirmed', startAt: order.startAt, partySize: order.partySize };
    assert.deepEqual(await harness.connector.retrieve(reference, order, newCall()), expected);
  });

  it('does not know where the partner has neither', async () => {
    const { order, reference } = await booked();
    await quirks('noGetBookingStatus', 'noListBookings');
    const problem = await problemOf(harness.connector.retrieve(reference, order, newCall()));
    assert.equal(problem.code, 'partner_error');
  });

  it('takes an unknown booking for gone only where the list agrees', async () => {
    for (const way of [[], ['unknownBookingAs200'], ['noGetBookingStatus']]) {
      await quirks(...way);
      assert.equal(await harness.connector.retrieve('CO-1', newOrder(), newCall()), undefined, String(way));
    }
    await quirks('noListBookings');
    assert.equal((await problemOf(harness.connector.retrieve('CO-1', newOrder(), newCall()))).status, 502);
  });

  it('does not take a word that the protocol does not have', async () => {
    const { order, reference } = await booked();
    await harness.partner.setStatus(reference, 'CONFIRMED');
    const body = JSON.stringify({ booking_id: reference, booking_status: 'SEATED' });
    await harness.partner.arm({
      match: { operation: 'GetBookingStatus' },
      effect: { kind: 'answer', status: 200, body },
    });
    assert.equal((await harness.connector.retrieve(reference, order, newCall()))?.status, 'confirmed');
    await quirks('noListBookings');
    assert.equal(
      (await problemOf(harness.connector.retrieve(reference, order, newCall()))).code,
      'partner_error',
    );
  });
});

describe('cancelling a table', () => {
  it('is done by all the answers that partners give', async () => {
    for (const way of [[], ['slotlessCancel'], ['minimalUpdate'], ['camelCase', 'numbers']]) {
      const { order, reference, status } = await booked();
      await quirks(...way);
      await harness.connector.cancel(reference, order, newCall());
      assert.equal(await status(), 'CANCELED', String(way));
      await harness.connector.cancel(reference, order, newCall());
    }
  });

  it('is refused in the words of the partner', async () => {
    const { order, reference, status } = await booked();
    await harness.partner.set({ cancellationMinutes: 1_000_000 });
    const outside = await problemOf(harness.connector.cancel(reference, order, newCall()));
    assert.deepEqual([outside.code, outside.facts.partnerCause], ['conflict', 'OUTSIDE_CANCELLATION_WINDOW']);
    assert.equal(await status(), 'CONFIRMED');
    await harness.partner.setStatus(reference, 'NO_SHOW');
    const never = await problemOf(harness.connector.cancel(reference, order, newCall()));
    assert.equal(never.facts.partnerCause, 'BOOKING_NOT_CANCELLABLE');
  });

  it('is done where the partner does not know the booking', async () => {
    for (const way of [[], ['unknownBookingAs200'], ['noGetBookingStatus']]) {
      await quirks(...way);
      await harness.connector.cancel('CO-1', newOrder(), newCall());
    }
  });

  it('is not done where the partner refuses the request and still lists the booking', async () => {
    const { order, reference, status } = await booked();
    await quirks('noGetBookingStatus');
    await harness.partner.arm({
      match: { operation: 'UpdateBooking' },
      effect: { kind: 'error', status: 400 },
      times: 1,
    });
    const problem = await problemOf(harness.connector.cancel(reference, order, newCall()));
    assert.deepEqual([problem.code, problem.facts.outcomeUnknown], ['partner_error', true]);
    assert.equal(await status(), 'CONFIRMED');
    await harness.connector.cancel(reference, order, newCall());
    assert.equal(await status(), 'CANCELED');
  });

  it('is not done where the partner is not at its address', async () => {
    const { order, reference, status } = await booked();
    await using opened = new AsyncDisposableStack();
    const elsewhere = createDiningConnector({
      baseUrl: `${harness.partner.url}/v2`,
      username: partnerCredentials.username,
      passwordSecret: 'dining/dev/password',
      merchants: [],
      secrets: harness.secrets,
      secretsRefreshSeconds: 30,
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
      metrics: harness.metrics,
      opened,
    });
    await harness.partner.arm({ effect: { kind: 'error', status: 404 } });
    assert.equal((await problemOf(elsewhere.cancel(reference, order, newCall()))).code, 'partner_error');
    assert.equal(await status(), 'CONFIRMED');
  });

  it('is not known where the answer says nothing, and is done by a repeat', async () => {
    const { order, reference } = await booked();
    await quirks('slotlessCancel', 'noGetBookingStatus', 'noListBookings');
    const problem = await problemOf(harness.connector.cancel(reference, order, newCall()));
    assert.deepEqual([problem.code, problem.facts.outcomeUnknown], ['partner_error', true]);
    await harness.connector.cancel(reference, order, newCall());
  });

  it('is repeated where the partner is unavailable for a moment', async () => {
    const { order, reference, status } = await booked();
    const match = { operation: 'UpdateBooking' };
    await harness.partner.arm({ match, effect: { kind: 'error', status: 503 }, times: 1 });
    await harness.partner.arm({ match, effect: { kind: 'reset' }, times: 1 });
    await harness.connector.cancel(reference, order, newCall());
    assert.equal(await status(), 'CANCELED');
  });
});
