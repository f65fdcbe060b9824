import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { accept, readHandoff, respondAsync, tripFor, untilHandoff } from '../../../support/handoffs.ts';
import type { Org } from '../../../support/org.ts';
import { assertProblem, type ProblemBody } from '../../../support/problems.ts';

interface Answer {
  items: { id?: string; status: string; external_id: string }[];
}

const item = (name: string, change: object = {}) => ({
  ...{ type: 'quote', reference: name, on_repeat: 'update' },
  result: { name, source: 'hotelbeds', details: { net: 612.4 } },
  ...change,
});
const renamed = (name: string, to: string, change: object = {}) =>
  item(name, { result: { name: to, source: 'hotelbeds', details: {} }, ...change });

/** The calls of a trip: one finds the records of its items, one reads them, one writes. */
const callsOfTrip = { match: { path: '/composite', method: 'POST' }, times: 3 };

/** Sends an update of items that have records: the org carries it out, and is down before it has answered the last of `calls`. */
async function interruptUpdate(
  org: Org,
  send: () => Promise<Response>,
  calls = callsOfTrip,
  meanwhile: () => Promise<unknown> = async () => {},
): Promise<Response> {
  const hung = await org.arm({ ...calls, effect: { kind: 'hold', stage: 'after' } });
  const sent = send();
  for (let count = 1; count < calls.times; count++) {
    await hung.hit(count);
    await hung.release();
  }
  await hung.hit(calls.times);
  await org.arm({ match: {}, effect: { kind: 'down' } });
  await meanwhile();
  return sent;
}

/** There was no room for one of two items any more. */
async function assertOneIsRefused(response: Response): Promise<void> {
  const { status, code, errors = [] } = (await response.json()) as ProblemBody;
  assert.deepEqual([status, code, errors.length], [503, 'crm_unavailable', 1]);
  assert.match(errors[0]?.pointer ?? '', /^#\/items\/[01]$/);
}

describe('a trip whose items were handed off before', () => {
  const gateway = useGateway({ CRM_TIMEOUT_MS: '1000' });
  afterEach(async () => {
    await gateway.org.disarm();
    await gateway.org.automate({});
  });

  const trip = (items: object[], change: object = {}) => tripFor(gateway.org.memberId, { items, ...change });
  const send = (body: object, headers: Record<string, string> = {}, as: Credentials = gateway.console) =>
    gateway.request('/api/v1/handoffs', { body, headers, as });
  const answerTo = async (body: object, status: number, headers: Record<string, string> = {}) => {
    const response = await send(body, headers);
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as Answer;
  };
  const namesIn = async (tripId: string) =>
    (await gateway.org.records('Quote__c', { Trip_Id__c: tripId })).map((row) => row['Name__c']).toSorted();
  const nameOf = async (id: string) => (await readHandoff(gateway, id)).request?.result['name'];

  test('leaves what waits and what has failed as it is where one item is refused', async () => {
    const down = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const body = trip([item('a'), item('b')]);
    const { items } = await answerTo(body, 202, respondAsync);
    const [a, b] = items.map(({ external_id }) => external_id) as [string, string];
    assert.equal((await gateway.request(`/v1/handoffs/${b}`, { method: 'DELETE' })).status, 204);
    const ended = item('c', { valid_until: '2020-01-01T00:00:00Z' });
    await eventually(async () => {
      const refused = { ...body, items: [renamed('a', 'z'), item('b'), ended], atomic: true };
      await assertProblem(await send(refused), 422, 'offer_expired', '#/items/2/valid_until');
    });
    assert.equal(await nameOf(a), 'a');
    assert.equal((await readHandoff(gateway, b)).status, 'cancelled');
    // Where the CRM takes nothing, nothing is changed either.
    await eventually(async () => {
      const response = await send({ ...body, items: [renamed('a', 'z'), item('d')], atomic: true });
      assert.equal(response.status, 503, await response.text());
    });
    assert.equal(await nameOf(a), 'a');
    await down.remove();
  });

  test('changes what waits with the rest, in one answer', async () => {
    const maker = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    const body = trip([item('a'), item('b')]);
    const first = await send(body, {}, maker);
    assert.equal(first.status, 202);
    const { items } = (await first.json()) as Answer;
    const other = { ...body, member_id: randomUUID(), items: [renamed('a', 'z'), renamed('b', 'z')] };
    await assertProblem(await send(other, {}, maker), 422, 'conflict', '#/items/0', '#/items/1');
    const changed = await send({ ...body, items: [renamed('a', 'z'), item('b')] }, {}, maker);
    assert.equal(changed.status, 202, await changed.text());
    assert.deepEqual(await Promise.all(items.map(({ external_id: id }) => nameOf(id))), ['z', 'b']);
  });

  test('does not overwrite what others have changed since an update of it was interrupted', async () => {
    const body = trip([item('a'), item('b')]);
    await eventually(() => answerTo(body, 201));
    const headers = { 'idempotency-key': randomUUID() };
    const update = { ...body, items: [renamed('a', 'y'), renamed('b', 'z')] };
    const interrupted = await interruptUpdate(gateway.org, () => send(update, headers));
    assert.ok(interrupted.status >= 500);
    await gateway.org.disarm();
    await gateway.org.edit('Quote__c', { Name__c: 'y' }, { Name__c: 'changed since' });
    await eventually(async () => {
      const { code } = (await (await send(update, headers)).json()) as { code: string };
      assert.equal(code, 'conflict');
    });
    assert.deepEqual(await namesIn(body.trip_id), ['changed since', 'z']);
  });

  test('says what was there before, also where the answer of the org is lost', async () => {
    const body = trip([item('a')]);
    await eventually(() => answerTo(body, 201));
    await gateway.org.arm({
      match: { path: '/composite', method: 'POST' },
      effect: { kind: 'loseAnswer' },
      times: 1,
    });
    const { items } = await answerTo({ ...body, items: [item('a'), item('b')] }, 201);
    assert.deepEqual(
      items.map(({ status }) => status),
      ['updated', 'created'],
    );
    assert.deepEqual(await namesIn(body.trip_id), ['a', 'b']);
  });

  test('is returned as it is, whatever is wrong with making its items again', async () => {
    const body = trip([item('a', { on_repeat: 'return' }), item('b', { on_repeat: 'return' })]);
    await eventually(() => answerTo(body, 201));
    const ended = body.items.map((one) => ({ ...one, valid_until: '2020-01-01T00:00:00Z' }));
    for (const headers of [{}, respondAsync])
      for (const items of [ended, body.items]) {
        const again = await answerTo({ ...body, items }, 200, headers);
        assert.deepEqual(
          again.items.map(({ status }) => status),
          ['existing', 'existing'],
        );
      }
    const response = await send({ ...body, member_id: randomUUID() });
    assert.equal(((await response.json()) as { code: string }).code, 'conflict');
  });
});

describe('a trip of which only some items could be stored', () => {
  const gateway = useGateway({
    CRM_TIMEOUT_MS: '1000',
    HANDOFF_WHEN_CRM_IS_UNAVAILABLE: 'accept',
    HANDOFF_QUEUE_LIMIT: '1',
    HANDOFF_QUEUE_LIMIT_PER_CONSUMER: '1',
  });
  afterEach(() => gateway.org.disarm());

  test('is stored whole by a repeat, also where the org refuses the rest', async () => {
    const down = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const plain = (type: string) => ({ type, result: { name: type, source: 'hotelbeds', details: {} } });
    const body = tripFor(gateway.org.memberId, { items: [plain('quote'), plain('booking')] });
    const headers = { 'idempotency-key': randomUUID() };
    const send = () => gateway.request('/api/v1/handoffs', { body, headers });
    await assertOneIsRefused(await send());
    await down.remove();
    await gateway.org.arm({
      match: { object: 'Booking__c' },
      effect: { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'x' },
    });
    const { items } = await eventually(async () => {
      const response = await send();
      assert.ok([201, 202].includes(response.status), await response.clone().text());
      return (await response.json()) as Answer;
    });
    const [made, refused] = items.map(({ external_id: id }) => id) as [string, string];
    await untilHandoff(gateway, made);
    await untilHandoff(gateway, refused, ({ status }) => status === 'failed');
  });

  test('does not overwrite what others have changed since an update of it was interrupted', async () => {
    const { answer, send, body } = await interruptTrip(gateway, [item('a')], [renamed('a', 'z'), item('b')]);
    await assertOneIsRefused(answer);
    await gateway.org.edit('Quote__c', { Name__c: 'z' }, { Name__c: 'changed since' });
    await gateway.org.disarm();
    const { items } = await eventually(async () => {
      const response = await send();
      assert.equal(response.status, 202, await response.clone().text());
      return (await response.json()) as Answer;
    });
    await assertConflict(gateway, items[0]?.external_id);
    const names = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.deepEqual(names.map((row) => row['Name__c']).toSorted(), ['b', 'changed since']);
  });

  test('does not overwrite it where none of them could be stored either', async () => {
    const items = [renamed('a', 'z'), item('b')];
    const { answer, send, body } = await interruptTrip(gateway, [item('a')], items, () => accept(gateway));
    assert.equal(answer.status, 503, await answer.text());
    await gateway.org.edit('Quote__c', { Name__c: 'z' }, { Name__c: 'changed since' });
    await gateway.org.disarm();
    const repeat = await eventually(async () => {
      const response = await send();
      assert.notEqual(response.status, 503);
      return (await response.json()) as Partial<Answer>;
    });
    // Where the other hand-off was late, one of them was stored after all.
    for (const { external_id: id, status } of repeat.items ?? [])
      if (status === 'accepted') await untilHandoff(gateway, id, (one) => one.status !== 'accepted');
    const names = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.deepEqual(names.map((row) => row['Name__c']).toSorted(), ['b', 'changed since']);
  });
});

describe('an update that was interrupted, and stored', () => {
  const gateway = useGateway({ CRM_TIMEOUT_MS: '1000', HANDOFF_WHEN_CRM_IS_UNAVAILABLE: 'accept' });
  afterEach(() => gateway.org.disarm());

  test('does not overwrite what others have changed since', async () => {
    const all = [renamed('a', 'z'), renamed('b', 'y')];
    const { answer, body } = await interruptTrip(gateway, [item('a'), item('b')], all);
    assert.equal(answer.status, 202);
    const { items } = (await answer.json()) as Answer;
    await gateway.org.edit('Quote__c', { Name__c: 'z' }, { Name__c: 'changed since' });
    await gateway.org.disarm();
    await assertConflict(gateway, items[0]?.external_id);
    await untilHandoff(gateway, items[1]?.external_id ?? '');
    const names = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.deepEqual(names.map((row) => row['Name__c']).toSorted(), ['changed since', 'y']);
  });

  /** Sends items of a new trip one by one. */
  const newTrip = () => {
    const { trip_id, member_id } = tripFor(gateway.org.memberId, { items: [] });
    const send = (one: object) =>
      gateway.request('/api/v1/handoff', {
        body: { trip_id, member_id, ...one },
        headers: { 'idempotency-key': randomUUID() },
      });
    return { trip_id, send };
  };

  test('leaves the record that was there before, however soon, where it is withdrawn', async () => {
    const { send } = newTrip();
    const made = await eventually(async () => {
      const response = await send(item('d'));
      assert.equal(response.status, 201);
      return (await response.json()) as { external_id: string; id: string };
    });
    const write = { match: { path: '/', method: 'PATCH' }, times: 1 };
    assert.equal((await interruptUpdate(gateway.org, () => send(renamed('d', 'w')), write)).status, 202);
    const path = `/v1/handoffs/${made.external_id}`;
    assert.equal((await gateway.request(path, { method: 'DELETE' })).status, 204);
    await gateway.org.disarm();
    // The item is free again once the service has looked for what it may have made.
    await eventually(async () => {
      const response = await gateway.request(`/v1/quotes/${made.external_id}`);
      assert.equal(response.status, 200);
      assert.equal((await send({ ...item('d'), on_repeat: 'return' })).status, 200);
    });
    const [row] = await gateway.org.records('Quote__c', { External_Id__c: made.external_id });
    assert.equal(row?.['Id'], made.id);
  });

  test('does not overwrite it for a single item either', async () => {
    const { trip_id, send } = newTrip();
    await eventually(async () => assert.equal((await send(item('c'))).status, 201));
    await gateway.org.edit('Quote__c', { Trip_Id__c: trip_id }, { CreatedDate: '2026-01-01T00:00:00Z' });
    const write = { match: { path: '/', method: 'PATCH' }, times: 1 };
    const answer = await interruptUpdate(gateway.org, () => send(renamed('c', 'x')), write);
    assert.equal(answer.status, 202);
    await gateway.org.edit('Quote__c', { Name__c: 'x' }, { Name__c: 'changed since' });
    await gateway.org.disarm();
    await assertConflict(gateway, ((await answer.json()) as { external_id: string }).external_id);
    const [row] = await gateway.org.records('Quote__c', { Trip_Id__c: trip_id });
    assert.equal(row?.['Name__c'], 'changed since');
  });
});

/** Hands `made` off, and then the others in their trip, which is interrupted. `send` repeats that. */
async function interruptTrip(
  gateway: TestGateway,
  made: object[],
  items: object[],
  meanwhile?: () => Promise<unknown>,
) {
  const body = tripFor(gateway.org.memberId, { items: made });
  await eventually(async () => {
    const response = await gateway.request('/api/v1/handoffs', { body });
    assert.equal(response.status, 201, await response.text());
  });
  // By its date nobody could take it for one that the interrupted request has made.
  await gateway.org.edit('Quote__c', { Trip_Id__c: body.trip_id }, { CreatedDate: '2026-01-01T00:00:00Z' });
  const headers = { 'idempotency-key': randomUUID() };
  const send = () => gateway.request('/api/v1/handoffs', { body: { ...body, items }, headers });
  return { answer: await interruptUpdate(gateway.org, send, callsOfTrip, meanwhile), send, body };
}

async function assertConflict(gateway: TestGateway, id = ''): Promise<void> {
  const { problem } = await untilHandoff(gateway, id, ({ status }) => status === 'failed');
  assert.equal(problem?.code, 'conflict');
}
