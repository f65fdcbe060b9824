import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { offerFor, readHandoff, respondAsync, untilHandoff } from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';

interface Answer {
  id?: string;
  status: string;
  external_id: string;
}

/** What was acknowledged last is in the org, and nothing that was acknowledged is lost. */
describe('an item that is handed off again while calls for it are lost', () => {
  const gateway = useGateway({ CRM_TIMEOUT_MS: '1000' });
  afterEach(() => gateway.org.disarm());

  const item = (change: object = {}) =>
    offerFor(gateway.org.memberId, { reference: 'HB-1', on_repeat: 'update', ...change });
  const renamed = <T extends object>(body: T, name: string, change: object = {}) => ({
    ...body,
    result: { name, source: 'hotelbeds', details: { net: 700 } },
    ...change,
  });
  const send = (body: object, headers: Record<string, string> = {}) =>
    gateway.request('/api/v1/handoff', { body, headers });
  const answerTo = async (body: object, status: number, headers: Record<string, string> = {}) => {
    const response = await send(body, headers);
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as Answer;
  };
  const namesIn = async (trip: string) =>
    (await gateway.org.records('Quote__c', { Trip_Id__c: trip })).map((row) => row['Name__c']);
  const withdraw = async (id: string) =>
    assert.equal((await gateway.request(`/v1/handoffs/${id}`, { method: 'DELETE' })).status, 204);
  /** Its record is made, nobody is told, and nothing can be looked up. */
  const madeUnseen = async (body: { trip_id: string }) => {
    const made = await gateway.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'hold', stage: 'after' },
    });
    const { external_id } = await answerTo(body, 202, respondAsync);
    await made.hit();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    assert.equal((await namesIn(body.trip_id)).length, 1);
    return external_id;
  };
  /** Sends it until the one before is not tried any more. */
  const acceptAgain = (body: object) =>
    eventually(async () => {
      const response = await send(body, respondAsync);
      assert.equal(response.status, 202, await response.text());
    });

  test('ends with the content that has replaced what a lost call has written', async () => {
    const body = item();
    const id = await madeUnseen(body);
    await acceptAgain(renamed(body, 'Hotel Mar'));
    await gateway.org.disarm();
    await untilHandoff(gateway, id);
    assert.deepEqual(await namesIn(body.trip_id), ['Hotel Mar']);
  });

  test('is updated by a repeat of a request that was interrupted before it had done anything', async () => {
    const body = item();
    await answerTo(body, 201);
    const headers = { 'idempotency-key': randomUUID() };
    const down = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    assert.equal((await send(renamed(body, 'Hotel Mar'), headers)).status, 503);
    await down.remove();
    await eventually(async () => answerTo(renamed(body, 'Hotel Mar'), 200, headers));
    assert.deepEqual(await namesIn(body.trip_id), ['Hotel Mar']);
  });

  test('is not updated once the offer has ended, though the request began before', async () => {
    const body = item();
    await answerTo(body, 201);
    const headers = { 'idempotency-key': randomUUID() };
    const end = Date.now() + 4000;
    const update = renamed(body, 'Hotel Mar', { valid_until: new Date(end).toISOString() });
    const down = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    assert.equal((await send(update, headers)).status, 503);
    await eventually(async () => assert.ok(Date.now() > end));
    await down.remove();
    // For some seconds a call from before the end might still arrive.
    await eventually(async () => answerTo(update, 504, headers));
    assert.deepEqual(await namesIn(body.trip_id), ['Hotel Miramar']);
  });

  test('keeps its record where an update of it is withdrawn, however soon', async () => {
    const body = item();
    const { external_id } = await answerTo(body, 201);
    const hung = await gateway.org.arm({ match: {}, effect: { kind: 'hang' } });
    await answerTo(renamed(body, 'Hotel Mar'), 202, respondAsync);
    await untilHandoff(gateway, external_id, ({ attempts }) => attempts > 0);
    await withdraw(external_id);
    const looked = await gateway.org.arm({ match: {}, effect: { kind: 'latency', ms: 1 } });
    await hung.remove();
    // The service looks for what it may have made, and the item is not free before it is done.
    await looked.hit();
    const again = await eventually(() => answerTo({ ...body, on_repeat: 'return' }, 200));
    assert.equal(again.status, 'existing');
    assert.equal((await namesIn(body.trip_id)).length, 1);
  });

  test('is not taken for updated because its record is there', async () => {
    const body = item();
    const { external_id } = await answerTo(body, 201);
    const failing = await gateway.org.arm({
      match: { operation: 'update' },
      effect: { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'Failed.' },
    });
    await answerTo(renamed(body, 'Hotel Mar'), 202, respondAsync);
    await untilHandoff(gateway, external_id, ({ attempts, status }) => attempts > 1 || status === 'created');
    await failing.remove();
    await untilHandoff(gateway, external_id);
    assert.deepEqual(await namesIn(body.trip_id), ['Hotel Mar']);
  });

  test('is made with its new content where a lost call for one that was withdrawn has made the record', async () => {
    for (const headers of [{}, respondAsync]) {
      const body = item({ on_repeat: 'return' });
      const id = await madeUnseen(body);
      await withdraw(id);
      const second = renamed(body, 'Hotel Mar');
      if ('prefer' in headers) await acceptAgain(second);
      await gateway.org.disarm();
      if ('prefer' in headers) await untilHandoff(gateway, id);
      else await eventually(async () => assert.equal((await send(second)).status, 201));
      await eventually(async () => assert.deepEqual(await namesIn(body.trip_id), ['Hotel Mar']));
    }
  });

  test('that was withdrawn leaves no record where its repeat is refused', async () => {
    const body = item();
    const id = await madeUnseen(body);
    await withdraw(id);
    await gateway.org.disarm();
    const refused = { ...body, member_id: randomUUID() };
    await eventually(async () =>
      assertProblem(
        await send({ ...refused, valid_until: '2020-01-01T00:00:00Z' }),
        422,
        'offer_expired',
        '#/valid_until',
      ),
    );
    await eventually(async () => assert.deepEqual(await namesIn(body.trip_id), []));
    assert.equal((await readHandoff(gateway, id)).status, 'cancelled');
  });

  test('shows its hand-off as failed until another one stands', async () => {
    const body = item({ member_id: randomUUID() });
    const { external_id } = await answerTo(body, 202, respondAsync);
    await untilHandoff(gateway, external_id, ({ status }) => status === 'failed');
    for (const headers of [{}, { prefer: 'respond-async, wait=10' }])
      await assertProblem(await send(body, headers), 422, 'member_not_found', '#/member_id');
    const ended = { ...body, valid_until: '2020-01-01T00:00:00Z' };
    for (const headers of [{}, respondAsync])
      await assertProblem(await send(ended, headers), 422, 'offer_expired', '#/valid_until');
    assert.equal((await readHandoff(gateway, external_id)).status, 'failed');
    await answerTo({ ...body, member_id: gateway.org.memberId }, 201);
    assert.equal((await readHandoff(gateway, external_id)).status, 'created');
  });

  test('is returned as it is, whatever is wrong with making it again', async () => {
    const body = item({ on_repeat: 'return' });
    const { external_id } = await answerTo(body, 201);
    const ended = { valid_until: '2020-01-01T00:00:00Z' };
    for (const [change, headers] of [
      [ended, {}],
      [ended, respondAsync],
      [{}, respondAsync],
      [{}, { prefer: 'respond-async, wait=10' }],
    ] as const) {
      const again = await answerTo({ ...body, ...change }, 200, headers);
      assert.deepEqual([again.status, again.external_id], ['existing', external_id]);
    }
    for (const on_repeat of ['return', 'update'])
      for (const headers of [{}, { prefer: 'respond-async, wait=10' }])
        await assertProblem(
          await send({ ...body, on_repeat, member_id: randomUUID() }, headers),
          409,
          'conflict',
          '#/member_id',
        );
    // What has ended is not written.
    await assertProblem(
      await send({ ...body, ...ended, on_repeat: 'update' }),
      422,
      'offer_expired',
      '#/valid_until',
    );
    const updated = renamed(body, 'Hotel Mar', { on_repeat: 'update' });
    assert.equal((await answerTo(updated, 200, { prefer: 'respond-async, wait=10' })).status, 'updated');
  });
});
