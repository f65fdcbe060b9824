import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, before, describe, test } from 'node:test';
import { useGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';

/** The CRM makes a record and its answer is lost; the record is deleted, and the gateway goes on with the same request. */
describe('a record that is deleted between a lost answer and what the gateway does next', () => {
  const gateway = useGateway({ CRM_TIMEOUT_MS: '1000', RATE_LIMIT_PER_MINUTE: '0' });
  before(async () => {
    // The simulated org takes its time for the first query.
    await gateway.request(`/v1/quotes/${randomUUID()}`);
  });
  afterEach(() => gateway.org.disarm());

  const quote = (trip_id: string) => {
    const { result, member_id } = offerFor(gateway.org.memberId);
    return { trip_id, member_id, ...result };
  };
  const routes = {
    'POST /v1/quotes': (trip_id: string) =>
      gateway.request('/v1/quotes', { body: quote(trip_id), headers: { 'idempotency-key': randomUUID() } }),
    'POST /api/v1/handoff': (trip_id: string) =>
      gateway.request('/api/v1/handoff', { body: offerFor(gateway.org.memberId, { trip_id }) }),
  };

  const rowsOf = (trip_id: string) => gateway.org.records('Quote__c', { Trip_Id__c: trip_id });

  /** Of all records of the trip, how many are there and how many in the recycle bin. */
  const countsOf = async (trip_id: string) => ({
    live: (await rowsOf(trip_id)).length,
    deleted: await gateway.org.purge('Quote__c', { Trip_Id__c: trip_id }),
  });

  const made = { live: 1, deleted: 0 };
  const binned = { live: 0, deleted: 1 };
  const none = { live: 0, deleted: 0 };

  /** Sends them so that they share a call. The first call of several that makes records is not answered, and one of its records is deleted. */
  const inOneCall = async (send: (trip_id: string) => Promise<Response>, trips: readonly string[]) => {
    const hold = { match: { operation: 'create' }, effect: { kind: 'hold', stage: 'before' }, times: 1 };
    const first = await gateway.org.arm(hold);
    const opening = send(randomUUID());
    await first.hit();
    const lost = await gateway.org.arm({
      match: { operation: 'createMany' },
      effect: { kind: 'hold', stage: 'after' },
      times: 1,
    });
    const sent = trips.map(send);
    await lost.hit();
    const [deleted] = (await Promise.all(trips.map(rowsOf))).flat();
    assert.ok(deleted, 'the call has made records');
    await gateway.org.bin('Quote__c', String(deleted['External_Id__c']));
    await first.release();
    const answers = await Promise.all(sent);
    assert.equal((await opening).status, 201);
    return { answers, deletedTrip: String(deleted['Trip_Id__c']) };
  };

  const externalIdOf = (body: Record<string, unknown>) => body['external_id'] ?? body['id'];

  for (const [route, send] of Object.entries(routes)) {
    test(`${route}: it was made once, and the caller gets its 201`, async () => {
      const trip_id = randomUUID();
      const hold = await gateway.org.arm({
        match: { operation: 'create', recordKey: trip_id },
        effect: { kind: 'hold', stage: 'after' },
        times: 1,
      });
      const sent = send(trip_id);
      await hold.hit();
      const [row] = await rowsOf(trip_id);
      const externalId = String(row?.['External_Id__c']);
      await gateway.org.bin('Quote__c', externalId);
      const answer = await sent;
      const body = (await answer.json()) as Record<string, unknown>;
      assert.equal(answer.status, 201, JSON.stringify(body));
      assert.equal(externalIdOf(body), externalId);
      if (route.includes('handoff')) assert.equal(body['id'], row?.['Id']);
      assert.deepEqual(await countsOf(trip_id), binned);
    });

    test(`${route}, several in one call: one was deleted, each was made once`, async () => {
      const trips = Array.from({ length: 9 }, () => randomUUID());
      const { answers, deletedTrip } = await inOneCall(send, trips);
      for (const answer of answers) assert.equal(answer.status, 201, await answer.text());
      for (const trip of trips) assert.deepEqual(await countsOf(trip), trip === deletedTrip ? binned : made);
    });

    test(`${route}, in a part of a call that one record has failed: each was made once`, async () => {
      const trips = Array.from({ length: 9 }, () => randomUUID());
      const bad = trips.at(-1) ?? '';
      await gateway.org.arm({
        match: { recordKey: bad },
        effect: { kind: 'error', status: 400, errorCode: 'JSON_PARSER_ERROR', message: 'x' },
      });
      const { answers, deletedTrip } = await inOneCall(send, trips);
      for (const [index, trip] of trips.entries()) {
        const expected = trip === deletedTrip ? binned : made;
        assert.equal(answers[index]?.status, trip === bad ? 502 : 201);
        assert.deepEqual(await countsOf(trip), trip === bad ? none : expected);
      }
    });
  }
});
