import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { CAUSES } from '../../../../../simulators/dining/restaurant/failures.ts';
import type {
  CreateAttempt,
  TableOrder,
} from '../../../../../src/features/reservations/connectors/connector.ts';
import type { Problem } from '../../../../../src/platform/base/problem.ts';
import { slotInDays } from '../../../../support/dining-partner.ts';
import { newAttempt, problemOf } from '../conformance.ts';
import { type DiningHarness, newCall, newOrder, startDiningHarness } from './dining-harness.ts';

let harness: DiningHarness;
before(async () => {
  harness = await startDiningHarness();
});
after(() => harness.close());
beforeEach(() => harness.partner.reset());

const create = (order: TableOrder, attempt: CreateAttempt = newAttempt(), budgetMs?: number) =>
  harness.connector.create(order, attempt, newCall(budgetMs));
const refuse = (order: TableOrder, attempt?: CreateAttempt, budgetMs?: number): Promise<Problem> =>
  problemOf(create(order, attempt, budgetMs));
const bookingsOf = ({ memberId }: TableOrder) => harness.partner.bookings({ user_id: memberId });

/** Arms a fault for CreateBooking of this order alone. */
const arm = ({ memberId: body }: TableOrder, effect: object, times?: number) =>
  harness.partner.arm({
    match: { operation: 'CreateBooking', body },
    effect,
    ...(times === undefined ? {} : { times }),
  });

describe('a table', () => {
  it('is booked as it was ordered, and refers to the CRM booking', async () => {
    const order = newOrder({ partySize: 6, note: 'Reservation 42' });
    const part = await create(order);
    const [booking] = await bookingsOf(order);
    assert.equal(booking?.booking_id, part.reference);
    assert.equal(booking.additional_request, 'Reservation 42');
    assert.deepEqual([booking.party_size, booking.duration_sec], [6, 5400]);
    const expected = { reference: part.reference, status: 'confirmed', startAt: order.startAt, partySize: 6 };
    assert.deepEqual(part, expected);
  });

  it('is pending where the merchant decides later', async () => {
    await harness.partner.set({ asynchronous: true });
    assert.equal((await create(newOrder())).status, 'pending');
  });

  it('is not ordered where the partner says before that the slot is gone', async () => {
    await harness.partner.set({ seats: 3 });
    const problem = await refuse(newOrder({ partySize: 4 }));
    assert.equal(problem.code, 'partner_rejected');
    assert.equal(problem.facts.partnerCause, 'SLOT_UNAVAILABLE');
    assert.equal(await harness.partner.calls('CreateBooking'), 0);
  });

  it('is ordered where the look-up fails, or is about another slot', async () => {
    await harness.partner.arm({
      match: { operation: 'BatchAvailabilityLookup' },
      effect: { kind: 'error', status: 501 },
    });
    assert.equal((await create(newOrder())).status, 'confirmed');
    await harness.partner.reset();
    await harness.partner.set({ quirks: ['echoesOtherStart'] });
    assert.equal((await create(newOrder())).status, 'confirmed');
  });

  it('is read from all the ways in which partners write', async () => {
    for (const quirk of ['numbers', 'camelCase', 'printsDefaults', 'withoutPrepaymentStatus', 'textErrors']) {
      await harness.partner.set({ quirks: [quirk] });
      const order = newOrder();
      const part = await create(order);
      assert.deepEqual([part.status, part.startAt, part.partySize], ['confirmed', order.startAt, 4], quirk);
      assert.equal((await harness.connector.retrieve(part.reference, order, newCall()))?.status, 'confirmed');
      await harness.connector.cancel(part.reference, order, newCall());
      assert.equal((await bookingsOf(order))[0]?.status, 'CANCELED');
    }
  });

  it('counts by the status that the partner gives it', async () => {
    const answer = (status: string | undefined, more = {}) => ({
      kind: 'answer',
      status: 200,
      body: JSON.stringify({ booking: { booking_id: 'X-1', status }, ...more }),
    });
    const order = newOrder();
    await arm(order, answer('PENDING_MERCHANT_CONFIRMATION'), 1);
    await arm(order, answer('SOMETHING_NEW'), 1);
    await arm(order, answer(undefined), 1);
    await arm(order, answer('DECLINED_BY_MERCHANT'), 1);
    await arm(order, answer('CONFIRMED', { booking_failure: {} }), 1);
    for (const _ of [1, 2, 3]) assert.equal((await create(order)).status, 'pending');
    assert.equal((await refuse(order)).facts.partnerCause, 'DECLINED_BY_MERCHANT');
    assert.equal((await refuse(order)).facts.partnerCause, 'CAUSE_UNSPECIFIED');
  });
});

describe('a refusal', () => {
  it('carries every cause of the protocol, and those that it does not have', async () => {
    for (const cause of [...CAUSES, 'INVALID_REQUEST']) {
      const order = newOrder();
      await arm(order, { kind: 'failure', cause });
      const problem = await refuse(order);
      assert.deepEqual([problem.code, problem.facts.partnerCause], ['partner_rejected', cause]);
      assert.match(problem.message, new RegExp(`: ${cause}\\.$`));
    }
  });

  it('never repeats what is no word', async () => {
    const order = newOrder();
    await arm(order, { kind: 'failure', cause: '<b>no</b> table for ines.m@example.com' });
    assert.equal((await refuse(order)).facts.partnerCause, 'CAUSE_UNSPECIFIED');
  });

  it('follows from what the user has booked already', async () => {
    const order = newOrder();
    await create(order);
    assert.equal((await refuse(order)).facts.partnerCause, 'SLOT_ALREADY_BOOKED_BY_USER');
    const later = new Date(Date.parse(order.startAt) + 30 * 60_000).toISOString();
    assert.equal((await refuse({ ...order, startAt: later })).facts.partnerCause, 'OVERLAPPING_RESERVATION');
    await harness.partner.set({ bookingsPerUser: 1 });
    const another = { ...order, startAt: slotInDays(300) };
    assert.equal((await refuse(another)).facts.partnerCause, 'USER_OVER_BOOKING_LIMIT');
    assert.equal((await bookingsOf(order)).length, 1);
  });

  it('is what a slot is that the partner never offers', async () => {
    const order = newOrder({ serviceId: 'terrace' });
    const problem = await refuse(order);
    assert.deepEqual([problem.code, problem.facts.partnerCause], ['partner_rejected', 'HTTP_400']);
  });
});

describe('calls that fail', () => {
  const expected = [
    [400, 1, 'partner_rejected', false],
    [401, 1, 'partner_error', false],
    [403, 1, 'partner_error', false],
    [404, 1, 'partner_error', false],
    [409, 3, 'partner_unavailable', false],
    [418, 1, 'partner_error', false],
    [429, 3, 'partner_unavailable', false],
    [499, 3, 'partner_timeout', true],
    [500, 2, 'partner_error', true],
    [501, 1, 'partner_error', false],
    [503, 3, 'partner_unavailable', true],
    [504, 3, 'partner_timeout', true],
  ] as const;

  it('are repeated, and reported, by their status', async () => {
    const outcomes = expected.map(async ([status, sends, code, outcomeUnknown]) => {
      const order = newOrder();
      const fault = await harness.partner.arm({
        match: { operation: 'CreateBooking', body: order.memberId },
        effect: { kind: 'error', status },
      });
      const problem = await refuse(order);
      const faults = (await harness.partner.control('GET', 'faults')) as { match: object; hits: number }[];
      const { hits } = faults.find(({ match }) => (match as { body?: string }).body === order.memberId) ?? {};
      assert.deepEqual(
        [status, hits, problem.code, problem.facts.outcomeUnknown ?? false],
        [status, sends, code, outcomeUnknown],
      );
      await fault.remove();
    });
    await Promise.all(outcomes);
  });

  it('wait as long as the partner says, or not at all', async () => {
    const order = newOrder();
    await arm(order, { kind: 'error', status: 429, retryAfter: 120 });
    const problem = await refuse(order);
    assert.deepEqual([problem.code, problem.facts.retryAfter], ['partner_unavailable', 120]);
    assert.equal(await harness.partner.calls('CreateBooking'), 1);
  });

  it('leave the outcome unknown where the answer makes no sense', async () => {
    for (const body of ['', 'booked!', '{}', '[]', '{"booking":{"status":"CONFIRMED"}}', 'null']) {
      const order = newOrder();
      const attempt = newAttempt();
      await arm(order, { kind: 'answer', status: 200, body }, 1);
      const problem = await refuse(order, attempt);
      assert.deepEqual([problem.code, problem.facts.outcomeUnknown], ['partner_error', true], body);
      const part = await create(order, { ...attempt, repeated: true });
      assert.deepEqual(
        (await bookingsOf(order)).map(({ booking_id }) => booking_id),
        [part.reference],
      );
    }
  });

  it('book once, with the same bytes, where the answer is lost after the booking', async () => {
    for (const effect of [{ kind: 'loseAnswer' }, { kind: 'error', status: 504, stage: 'after' }]) {
      const order = newOrder();
      await arm(order, effect, 1);
      const part = await create(order);
      assert.deepEqual(
        (await bookingsOf(order)).map(({ booking_id }) => booking_id),
        [part.reference],
      );
    }
  });

  it('stay unknown in a repeat that gets no further', async () => {
    const order = newOrder();
    await arm(order, { kind: 'error', status: 404 });
    const problem = await refuse(order, newAttempt({ repeated: true }));
    assert.deepEqual([problem.code, problem.facts.outcomeUnknown], ['partner_error', true]);
  });
});

describe('a refusal after a send whose outcome is unknown', () => {
  const causes = ['SLOT_UNAVAILABLE', 'SLOT_ALREADY_BOOKED_BY_USER', 'OVERLAPPING_RESERVATION'];

  it('is not final: the list of bookings has the table', async () => {
    for (const cause of causes) {
      const order = newOrder();
      await arm(order, { kind: 'loseAnswer' }, 1);
      await arm(order, { kind: 'failure', cause });
      const part = await create(order);
      assert.equal(part.reference, (await bookingsOf(order))[0]?.booking_id, cause);
    }
  });

  it('is not final in a later attempt either', async () => {
    const order = newOrder();
    const attempt = newAttempt();
    const made = await create(order, attempt);
    await harness.partner.set({ quirks: ['forgetsTokens'] });
    const found = await create(order, { ...attempt, repeated: true });
    assert.equal(found.reference, made.reference);
  });

  it('is final where the list does not have the table', async () => {
    for (const cause of causes) {
      const order = newOrder();
      await arm(order, { kind: 'error', status: 504 }, 1);
      await arm(order, { kind: 'failure', cause });
      const problem = await refuse(order);
      assert.deepEqual([problem.code, problem.facts.partnerCause], ['partner_rejected', cause]);
    }
  });

  it('is final where the table in the list is that of another order', async () => {
    const order = newOrder();
    const made = await create(order);
    await arm(order, { kind: 'error', status: 504 }, 1);
    const isOthers = async (reference: string) => reference === made.reference;
    const problem = await refuse(order, newAttempt({ isOthers }));
    assert.equal(problem.facts.partnerCause, 'SLOT_ALREADY_BOOKED_BY_USER');
  });

  it('does not take a cancelled table, or one for another party, for the one that is meant', async () => {
    const order = newOrder();
    const made = await create(order);
    await harness.connector.cancel(made.reference, order, newCall());
    await create({ ...order, partySize: 2 });
    await arm(order, { kind: 'error', status: 504 }, 1);
    assert.equal((await refuse(order)).facts.partnerCause, 'SLOT_ALREADY_BOOKED_BY_USER');
  });

  it('stays unknown while the list can not be had', async () => {
    const order = newOrder();
    await arm(order, { kind: 'loseAnswer' }, 1);
    await arm(order, { kind: 'failure', cause: 'SLOT_UNAVAILABLE' });
    await harness.partner.arm({
      match: { operation: 'ListBookings' },
      effect: { kind: 'error', status: 500 },
    });
    const problem = await refuse(order);
    assert.deepEqual([problem.code, problem.facts.outcomeUnknown], ['partner_error', true]);
  });
});

describe('a refusal after a send whose outcome is unknown, without ListBookings', () => {
  beforeEach(() => harness.partner.set({ quirks: ['noListBookings'] }));

  it('is settled by the same token', async () => {
    const order = newOrder();
    await arm(order, { kind: 'loseAnswer' }, 1);
    await arm(order, { kind: 'failure', cause: 'OVERLAPPING_RESERVATION' }, 1);
    const part = await create(order);
    assert.deepEqual(
      (await bookingsOf(order)).map(({ booking_id }) => booking_id),
      [part.reference],
    );
  });

  it('is final where the token twice has no table for a slot that is gone', async () => {
    const order = newOrder();
    await arm(order, { kind: 'error', status: 504 }, 1);
    await arm(order, { kind: 'failure', cause: 'SLOT_UNAVAILABLE' });
    assert.equal((await refuse(order)).facts.partnerCause, 'SLOT_UNAVAILABLE');
  });

  it('is final where it can not be our own doing', async () => {
    const order = newOrder();
    await arm(order, { kind: 'error', status: 504 }, 1);
    await arm(order, { kind: 'failure', cause: 'BANNED_USER' });
    assert.equal((await refuse(order)).facts.partnerCause, 'BANNED_USER');
  });

  it('stays unknown where the partner forgets tokens', async () => {
    await harness.partner.set({ quirks: ['noListBookings', 'forgetsTokens'] });
    const order = newOrder();
    await arm(order, { kind: 'loseAnswer' }, 1);
    const problem = await refuse(order);
    assert.deepEqual([problem.code, problem.facts.outcomeUnknown], ['partner_error', true]);
    assert.equal((await bookingsOf(order)).length, 1);
  });
});
