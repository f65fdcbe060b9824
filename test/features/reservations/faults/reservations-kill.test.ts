import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import type { GatewayProcess } from '../../../support/gateway-process.ts';
import type { ArmedFault } from '../../../support/org.ts';
import { openReservationHarness, type ReservationHarness } from '../../../support/reservation-harness.ts';
import { holdingsOf, newReservation } from '../../../support/reservations.ts';

interface Step {
  when: string;
  hold(harness: ReservationHarness): Promise<ArmedFault>;
  /** The held call comes to the system only after everybody else is done. */
  comesLate?: true;
}

const crm = (match: object, stage: 'before' | 'after') => (harness: ReservationHarness) =>
  harness.org.arm({ match, effect: { kind: 'hold', stage }, times: 1 });
const dining = (operation: string, stage: 'before' | 'after') => (harness: ReservationHarness) =>
  harness.partner.arm({ match: { operation }, effect: { kind: 'hold', stage }, times: 1 });

const insert = { object: 'Booking__c', operation: 'create' };
const update = { object: 'Booking__c', operation: 'update' };

/** Where the gateway is killed while it makes a reservation, and while it cancels one. */
const creation: Step[] = [
  { when: 'while the member is looked up', hold: crm({ object: 'Contact' }, 'before') },
  { when: 'while the booking is under way to the CRM', hold: crm(insert, 'before'), comesLate: true },
  { when: 'after the CRM has made the booking', hold: crm(insert, 'after') },
  {
    when: 'while the table is under way to the partner',
    hold: dining('CreateBooking', 'before'),
    comesLate: true,
  },
  { when: 'after the partner has booked the table', hold: dining('CreateBooking', 'after') },
  { when: 'while the outcome is under way to the CRM', hold: crm(update, 'before'), comesLate: true },
  { when: 'after the CRM has taken the outcome', hold: crm(update, 'after') },
];
const cancellation: Step[] = [
  { when: 'while the cancellation is under way to the partner', hold: dining('UpdateBooking', 'before') },
  { when: 'after the partner has cancelled the table', hold: dining('UpdateBooking', 'after') },
  { when: 'while the cancellation is under way to the CRM', hold: crm(update, 'before') },
  { when: 'after the CRM has noted the cancellation', hold: crm(update, 'after') },
];

for (const kind of ['PostgreSQL', 'PGlite'] as const) {
  describe(`reservations on ${kind}, when the gateway is killed`, () => {
    let harness: ReservationHarness | undefined;
    let gateway: GatewayProcess;
    let credentials: Record<string, string> = {};

    before(async () => {
      harness = await openReservationHarness(kind);
      if (!harness) return;
      gateway = await harness.installation.start();
      const { apiKey, apiSecret } = (await harness.installation.credentials()).console;
      credentials = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
    });
    after(() => harness?.close());

    const send = (method: string, path: string, key: string, body?: object) =>
      fetch(gateway.url + path, {
        method,
        headers: {
          ...credentials,
          'idempotency-key': key,
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
      });
    const read = async (id: string) => {
      const response = await fetch(`${gateway.url}/v1/reservations/${id}`, { headers: credentials });
      return ((await response.json()) as { status: string }).status;
    };
    /** Waits while the job is at work. */
    const repeat = (request: () => Promise<Response>) =>
      eventually(
        async () => {
          const response = await request();
          assert.notEqual(response.status, 409);
          return response;
        },
        { everyMs: 100 },
      );
    /** Sends the request, kills the gateway where the step says, lets its lease run out, and starts another. */
    const interrupt = async (current: ReservationHarness, step: Step, request: () => Promise<Response>) => {
      const hold = await step.hold(current);
      const cut = assert.rejects(request());
      await hold.hit();
      gateway.signal('SIGKILL');
      await Promise.all([gateway.ended, cut]);
      if (!step.comesLate) await hold.remove();
      await current.database.endLeases();
      gateway = await current.installation.start();
      return async () => {
        if (step.comesLate) await hold.remove();
      };
    };
    const open = (context: { skip(why: string): void }) => {
      if (!harness) context.skip('there is no PostgreSQL');
      return harness;
    };
    // The embedded one is the same SQL: some steps show that it is as durable.
    const some = (steps: Step[]) => (kind === 'PGlite' ? steps.filter((_, index) => index % 4 === 3) : steps);

    for (const step of some(creation)) {
      for (const finisher of ['the repeat', 'the job'] as const) {
        test(`${step.when}: ${finisher} finishes it`, async (context) => {
          const current = open(context);
          if (!current) return;
          const body = newReservation(current.org.memberId);
          const key = randomUUID();
          const request = () => send('POST', '/v1/reservations', key, body);
          const comeLate = await interrupt(current, step, request);
          if (finisher === 'the job') {
            await eventually(
              async () => assert.equal((await holdingsOf(current, body)).bookings[0], 'confirmed'),
              { everyMs: 100 },
            );
          }
          const response = await repeat(request);
          assert.equal(response.status, 201, await response.clone().text());
          const { id, status } = (await response.json()) as { id: string; status: string };
          assert.equal(status, 'confirmed');
          await comeLate();
          assert.equal(await read(id), 'confirmed');
          assert.deepEqual(await holdingsOf(current, body), {
            bookings: ['confirmed'],
            tables: ['CONFIRMED'],
          });
          assert.equal((await request()).headers.get('idempotent-replayed'), 'true');
        });
      }
    }

    for (const step of some(cancellation)) {
      test(`${step.when}: it is cancelled all the same`, async (context) => {
        const current = open(context);
        if (!current) return;
        const body = newReservation(current.org.memberId);
        const made = await send('POST', '/v1/reservations', randomUUID(), body);
        const { id } = (await made.json()) as { id: string };
        const key = randomUUID();
        const request = () => send('DELETE', `/v1/reservations/${id}`, key);
        await interrupt(current, step, request);
        await eventually(async () => assert.equal(await read(id), 'cancelled'), { everyMs: 100 });
        assert.equal((await repeat(request)).status, 204);
        assert.deepEqual(await holdingsOf(current, body), { bookings: ['cancelled'], tables: ['CANCELED'] });
      });
    }
  });
}
