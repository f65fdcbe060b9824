import { after, before } from 'node:test';
import { connectorConformance } from '../conformance.ts';
import { type DiningHarness, newOrder, startDiningHarness } from './dining-harness.ts';

const operations = {
  create: 'CreateBooking',
  cancel: 'UpdateBooking',
  retrieve: 'GetBookingStatus',
} as const;

let harness: DiningHarness;
before(async () => {
  harness = await startDiningHarness();
});
after(() => harness.close());

connectorConformance('the dining connector', () => ({
  connector: harness.connector,
  newOrder,
  newRefusedOrder: async () => {
    await harness.partner.set({ seats: 10 });
    return newOrder({ partySize: 11 });
  },
  standing: async ({ memberId }) => {
    const bookings = await harness.partner.bookings({ user_id: memberId });
    return bookings.filter(({ status }) => status === 'CONFIRMED').map(({ booking_id }) => booking_id);
  },
  unknownReference: 'CO-1',
  loseAnswer: async (of) => {
    await harness.partner.arm({
      match: { operation: operations[of] },
      effect: { kind: 'loseAnswer' },
      times: 1,
    });
  },
  hang: async (of) => {
    await harness.partner.arm({ match: { operation: operations[of] }, effect: { kind: 'hang' } });
  },
  forbidCancel: async () => harness.partner.set({ cancellationMinutes: 1_000_000 }),
  kill: () => harness.killPartner(),
  restart: () => harness.restartPartner(),
  heal: () => harness.partner.reset(),
}));
