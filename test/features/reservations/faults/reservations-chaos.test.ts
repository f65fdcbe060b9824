import assert from 'node:assert/strict';
import { randomInt, randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import type { GatewayProcess } from '../../../support/gateway-process.ts';
import { openReservationHarness, type ReservationHarness } from '../../../support/reservation-harness.ts';
import { assertWhole, holdingsOf, newReservation } from '../../../support/reservations.ts';

/*
 * Many reservations while the partner and the CRM fail and the gateway is killed. By hand, at full size:
 *
 *   RESERVATIONS=500 KILLS=20 node --test --test-timeout=1200000 test/features/reservations/faults/reservations-chaos.test.ts
 */
const reservations = Number(process.env['RESERVATIONS'] ?? 40);
const kills = Number(process.env['KILLS'] ?? 2);
const atOnce = 10;
/** The short run does not wait for leases to run out. */
const isShort = process.env['RESERVATIONS'] === undefined;

/** What the partner does to 10 % of the calls, and the CRM to 5 %. */
const partnerFaults = [
  { effect: { kind: 'loseAnswer' }, probability: 0.03 },
  { effect: { kind: 'reset' }, probability: 0.02 },
  { effect: { kind: 'error', status: 503 }, probability: 0.02 },
  { effect: { kind: 'error', status: 504, stage: 'after' }, probability: 0.02 },
  {
    match: { operation: 'CreateBooking' },
    effect: { kind: 'failure', cause: 'SLOT_UNAVAILABLE' },
    probability: 0.03,
  },
];
const crmFaults = [
  { match: { object: 'Booking__c' }, effect: { kind: 'loseAnswer' }, probability: 0.02 },
  { match: { object: 'Booking__c' }, effect: { kind: 'reset' }, probability: 0.01 },
  {
    match: { object: 'Booking__c' },
    effect: { kind: 'error', status: 503, errorCode: 'SERVER_UNAVAILABLE', message: 'busy' },
    probability: 0.02,
  },
];

interface Tried {
  key: string;
  body: Record<string, unknown>;
  /** The last answer. */
  status: number | undefined;
}

const finals = new Set(['confirmed', 'refused']);
const isFinal = (states: Record<string, number>) => Object.keys(states).every((state) => finals.has(state));

describe('many reservations, with faults on both sides and kills', () => {
  let harness: ReservationHarness | undefined;
  let gateway: GatewayProcess;
  let headers: Record<string, string> = {};
  const tried: Tried[] = [];
  /** How often each status was answered; 0: none, since the gateway died. */
  const answers: Record<number, number> = {};
  /** Resolves while a gateway runs. */
  let up = Promise.withResolvers<void>();

  before(async () => {
    harness = await openReservationHarness('PostgreSQL');
    if (!harness) return;
    gateway = await harness.installation.start();
    up.resolve();
    const { apiKey, apiSecret } = (await harness.installation.credentials()).console;
    headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'content-type': 'application/json' };
  });
  after(() => harness?.close());

  /** Sends it; no answer at all where the gateway dies. */
  const send = async (one: Tried): Promise<void> => {
    const request = fetch(`${gateway.url}/v1/reservations`, {
      method: 'POST',
      headers: { ...headers, 'idempotency-key': one.key },
      body: JSON.stringify(one.body),
    });
    one.status = await request.then(
      async (response) => (await response.arrayBuffer(), response.status),
      () => undefined,
    );
    answers[one.status ?? 0] = (answers[one.status ?? 0] ?? 0) + 1;
  };
  const sendUntilDone = async (one: Tried): Promise<void> => {
    if (isDone(one)) return;
    await eventually(async () => {
      await send(one);
      assert.ok(isDone(one), `${one.key}: ${one.status}`);
    });
  };
  const isDone = ({ status }: Tried) => status === 201 || status === 422;

  test(`${reservations} reservations and ${kills} kills: each ends, and is whole or not there`, async (context) => {
    if (!harness) return context.skip('there is no PostgreSQL');
    const { org, partner, installation, database } = harness;
    const faults = await Promise.all([
      ...partnerFaults.map((fault) => partner.arm(fault)),
      ...crmFaults.map((fault) => org.arm(fault)),
    ]);
    // Now and then a consumer sends its request again; most leave it to the gateway.
    const consumer = async () => {
      while (tried.length < reservations) {
        await up.promise;
        const one: Tried = { key: randomUUID(), body: newReservation(org.memberId), status: undefined };
        tried.push(one);
        await send(one);
        await up.promise;
        if (!isDone(one) && randomInt(2) === 0) await send(one);
      }
    };
    const consumers = Promise.all(Array.from({ length: atOnce }, consumer));
    for (let kill = 1; kill <= kills; kill++) {
      await eventually(() => assert.ok(tried.length >= (reservations * kill) / (kills + 1)), { everyMs: 5 });
      up = Promise.withResolvers();
      gateway.signal('SIGKILL');
      await gateway.ended;
      if (isShort) await database.endLeases();
      gateway = await installation.start();
      up.resolve();
    }
    await consumers;
    await Promise.all(faults.map((fault) => fault.remove()));
    context.diagnostic(`answers by status: ${JSON.stringify(answers)}`);
    const killedLast = performance.now();

    await eventually(async () => assert.ok(isFinal(await database.states())), { everyMs: 200 });
    context.diagnostic(`all plans final after ${Math.round((performance.now() - killedLast) / 1000)} s`);

    const tables = await assertWhole(harness);
    // Each key has one answer, and it is what both systems hold.
    for (const one of tried) await sendUntilDone(one);
    const made = tried.filter(({ status }) => status === 201);
    for (const one of tried) {
      const held = one.status === 201 ? ['confirmed'] : [];
      assert.deepEqual((await holdingsOf(harness, one.body)).bookings, held);
    }
    assert.ok((await assertWhole(harness)) >= tables);
    assert.equal(await assertWhole(harness), made.length);
    context.diagnostic(`${made.length} confirmed, ${tried.length - made.length} refused`);
  });
});
