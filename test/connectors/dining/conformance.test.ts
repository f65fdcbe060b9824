import { after, before } from 'node:test';
import { connectorConformance } from '../../conformance/connector.ts';
import { type DiningRig, newOrder, startDiningRig } from './rig.ts';

const operations = {
  create: 'CreateBooking',
  cancel: 'UpdateBooking',
  retrieve: 'GetBookingStatus',
} as const;

let rig: DiningRig;
before(async () => {
  rig = await startDiningRig();
});
after(() => rig.close());

connectorConformance('the dining connector', () => ({
  connector: rig.connector,
  newOrder,
  newRefusedOrder: async () => {
    await rig.partner.set({ seats: 10 });
    return newOrder({ partySize: 11 });
  },
  standing: async ({ memberId }) => {
    const bookings = await rig.partner.bookings({ user_id: memberId });
    return bookings.filter(({ status }) => status === 'CONFIRMED').map(({ booking_id }) => booking_id);
  },
  unknownReference: 'CO-1',
  loseAnswer: async (of) => {
    await rig.partner.arm({ match: { operation: operations[of] }, effect: { kind: 'loseAnswer' }, times: 1 });
  },
  hang: async (of) => {
    await rig.partner.arm({ match: { operation: operations[of] }, effect: { kind: 'hang' } });
  },
  forbidCancel: async () => rig.partner.set({ cancellationMinutes: 1_000_000 }),
  kill: () => rig.killPartner(),
  restart: () => rig.restartPartner(),
  heal: () => rig.partner.reset(),
}));
