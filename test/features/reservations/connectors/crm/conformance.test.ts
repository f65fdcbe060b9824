import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before } from 'node:test';
import type {
  BookingOrder,
  CrmConnector,
} from '../../../../../src/features/reservations/connectors/connector.ts';
import { createCrmConnector } from '../../../../../src/features/reservations/connectors/crm.ts';
import { booking } from '../../../../../src/records/quotes-and-bookings.ts';
import { aCall, type CrmHarness, startCrmHarness } from '../../../../crm/crm-harness.ts';
import { eventually } from '../../../../support/eventually.ts';
import { connectorConformance } from '../conformance.ts';

const operations = {
  create: { object: 'Booking__c', operation: 'create' },
  cancel: { object: 'Booking__c', operation: 'delete' },
  retrieve: { object: 'Booking__c', operation: 'query' },
};

let harness: CrmHarness;
let connector: CrmConnector;
before(async () => {
  harness = await startCrmHarness();
  const { crm } = harness;
  connector = createCrmConnector({
    records: crm.records,
    booking,
    checkHealth: async () => ({ ...(await crm.health.check()) }),
  });
});
after(() => harness.stop());

function newOrder(): BookingOrder {
  return {
    trip_id: randomUUID(),
    member_id: harness.memberId,
    name: 'Casa Olivo',
    source: 'dining',
    details: '{}',
    status: 'pending',
  };
}

/** Whether a call gets through. */
function looks(): Promise<boolean> {
  const look = harness.crm.records.find(booking, randomUUID(), aCall(2500));
  return look.then(
    () => true,
    () => false,
  );
}

connectorConformance('the CRM connector', () => ({
  connector,
  newOrder,
  newRefusedOrder: async () => ({ ...newOrder(), member_id: randomUUID() }),
  standing: async ({ trip_id }) => {
    const records = await harness.org.records('Booking__c');
    return records
      .filter((record) => record['Trip_Id__c'] === trip_id)
      .map((record) => String(record['External_Id__c']));
  },
  unknownReference: randomUUID(),
  loseAnswer: async (of) => void (await harness.org.fault({ kind: 'loseAnswer' }, operations[of], 1)),
  hang: async (of) => void (await harness.org.fault({ kind: 'hang' }, operations[of])),
  forbidCancel: async () => {
    const locked = { kind: 'recordError', errorCode: 'ENTITY_IS_LOCKED', message: 'locked' };
    await harness.org.fault(locked, operations.cancel);
  },
  kill: async () => {
    await harness.org.fault({ kind: 'down' });
    // While the CRM answers, health is what calls show; an idle one is looked at every 30 s only.
    await looks();
  },
  restart: async () => {
    await harness.org.heal();
    // The breaker looks by itself whether the CRM is back.
    await eventually(async () => assert.ok(await looks()), { everyMs: 50 });
  },
  heal: () => harness.org.heal(),
}));
