import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { useGateway } from '../../../support/gateway.ts';
import { accept, offerFor } from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';
import { newReservation } from '../../../support/reservations.ts';

interface Trip {
  trip_id: string;
  members: { id: string; first_name: string | null; last_name: string | null }[];
  quotes: { id: string; name: string; member?: object }[];
  bookings: { id: string; name: string }[];
  reservations: { id: string }[];
  handoffs: { external_id: string; status: string }[];
  truncated: boolean;
}

describe('GET /v1/trips/:tripId', () => {
  const gateway = useGateway();
  const trip_id = randomUUID();

  before(async () => {
    for (const type of ['quote', 'booking', 'quote']) {
      const made = await gateway.request('/api/v1/handoff', {
        body: offerFor(gateway.org.memberId, { trip_id, type }),
      });
      assert.equal(made.status, 201);
    }
    const reserved = await gateway.request('/v1/reservations', {
      body: { ...newReservation(gateway.org.memberId), trip_id },
      headers: { 'idempotency-key': randomUUID() },
    });
    assert.equal(reserved.status, 201, await reserved.text());
  });

  const read = async (as = gateway.console, trip = trip_id): Promise<Trip> => {
    const response = await gateway.request(`/v1/trips/${trip}`, { as });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as Trip;
  };

  test('has a tag, and is not sent again to who has it', async () => {
    const path = `/v1/trips/${trip_id}`;
    const tag = (await gateway.request(path)).headers.get('etag') as string;
    assert.equal((await gateway.request(path, { headers: { 'if-none-match': tag } })).status, 304);
  });

  test('shows all of a trip in one call, with the names of its members', async () => {
    const before = Number((await gateway.org.counters())['metered']);
    const trip = await read();
    assert.equal(Number((await gateway.org.counters())['metered']) - before, 1);
    const [member] = trip.members;
    assert.deepEqual(
      [member?.id, member?.first_name, member?.last_name],
      [gateway.org.memberId, 'Amara', 'Okafor'],
    );
    assert.deepEqual(
      [trip.members, trip.quotes, trip.bookings, trip.reservations, trip.handoffs].map((rows) => rows.length),
      [1, 2, 2, 1, 0],
    );
    assert.equal(trip.truncated, false);
    const listed = (await (await gateway.request(`/v1/quotes?trip_id=${trip_id}`)).json()) as {
      data: object[];
    };
    assert.deepEqual(trip.quotes, listed.data);
  });

  test('shows the newest hundred quotes of many, and its booking, in one call', async () => {
    const Trip_Id__c = randomUUID();
    const row = { Trip_Id__c, Name__c: 'n', Source__c: 's' };
    const rows = Array.from({ length: 110 }, () => ({ ...row, External_Id__c: randomUUID() }));
    await gateway.org.insert('Quote__c', rows);
    await gateway.org.insert('Booking__c', [{ ...row, External_Id__c: randomUUID() }]);
    const before = Number((await gateway.org.counters())['metered']);
    const { quotes, bookings, truncated } = await read(gateway.console, Trip_Id__c);
    assert.deepEqual([quotes.length, bookings.length, truncated], [100, 1, true]);
    assert.equal(Number((await gateway.org.counters())['metered']) - before, 1);
  });

  test('shows what waits, and not what is created', async () => {
    const down = await gateway.org.arm({ match: { operation: 'create' }, effect: { kind: 'down' } });
    const ownTrip = randomUUID();
    const id = await accept(gateway, { trip_id: ownTrip });
    const { handoffs } = await read(gateway.console, ownTrip);
    assert.deepEqual(
      handoffs.map(({ external_id }) => external_id),
      [id],
    );
    await down.remove();
    await gateway.request(`/v1/handoffs/${id}`, { method: 'DELETE' });
  });

  test('shows what the caller may read, and is not there for who sees nothing', async () => {
    const quotes = { resource: 'quotes', actions: ['read'] } as never;
    const { members, bookings, reservations, quotes: shown } = await read(await gateway.newConsumer(quotes));
    assert.deepEqual([members.length, bookings.length, reservations.length, shown.length], [0, 0, 0, 2]);
    const own = await gateway.newConsumer({ resource: 'quotes', actions: ['read'], records: 'own' } as never);
    await assertProblem(await gateway.request(`/v1/trips/${trip_id}`, { as: own }), 404, 'not_found');
    const unseen = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read'],
      fields: ['name'],
    } as never);
    await assertProblem(await gateway.request(`/v1/trips/${trip_id}`, { as: unseen }), 404, 'not_found');
    await assertProblem(await gateway.request(`/v1/trips/${randomUUID()}`), 404, 'not_found');
  });
});
