import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import type { Permission } from '../../../../src/identity/consumers/consumer.ts';
import { type Credentials, startGateway, useGateway } from '../../../support/gateway.ts';
import { tripFor, untilHandoff } from '../../../support/handoffs.ts';
import { assertProblem, type ProblemBody } from '../../../support/problems.ts';

interface TripAnswer {
  items: { type: string; status: string; external_id: string | null; problem?: ProblemBody }[];
}

const refusing = { name: 'refuse me', when: { field: 'Name__c', equals: 'refuse me' } };

describe('a trip of which items are refused', () => {
  const gateway = useGateway({ CRM_TIMEOUT_MS: '1000' });
  afterEach(async () => {
    await gateway.org.disarm();
    await gateway.org.automate({});
  });

  const item = (name: string, change: object = {}) => ({
    type: 'quote',
    result: { name, source: 'hotelbeds', details: {} },
    ...change,
  });
  const booking = (name: string, change: object = {}) => item(name, { type: 'booking', ...change });
  const trip = (items: object[], change: object = {}) => ({
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    items,
    ...change,
  });
  const send = (
    body: object,
    { as = gateway.console, path = '/api/v1/handoffs', ...headers }: Record<string, unknown> = {},
  ) => gateway.request(path as string, { body, as: as as Credentials, headers: headers as never });
  const answerTo = async (body: object, status: number, options = {}) => {
    const response = await send(body, options);
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as TripAnswer;
  };
  const problemOf = async (body: object, status: number, options = {}) => {
    const response = await send(body, options);
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as ProblemBody;
  };
  const pointers = ({ errors = [] }: ProblemBody) => errors.map(({ pointer }) => pointer);
  const namesIn = async (tripId: string) => {
    const rows = await Promise.all(
      ['Quote__c', 'Booking__c'].map((object) => gateway.org.records(object, { Trip_Id__c: tripId })),
    );
    return rows
      .flat()
      .map((row) => row['Name__c'])
      .toSorted();
  };
  const anotherMember = async () => {
    const { data } = (await (await gateway.request('/v1/members?limit=2')).json()) as {
      data: { id: string }[];
    };
    return data.find(({ id }) => id !== gateway.org.memberId)?.id;
  };
  const failBookings = () =>
    gateway.org.arm({
      match: { object: 'Booking__c' },
      effect: { kind: 'recordError', errorCode: 'UNKNOWN_EXCEPTION', message: 'x' },
    });

  describe('each for itself', () => {
    test('without a key, what was made is answered although another item fails for now', async () => {
      await failBookings();
      const body = trip([item('a'), booking('b'), item('c')], { atomic: false });
      const { items } = await answerTo(body, 201);
      assert.deepEqual(
        items.map(({ status }) => status),
        ['created', 'failed', 'created'],
      );
      const [, failed] = items;
      assert.equal(failed?.external_id, null);
      assert.ok(Number(failed?.problem?.status) >= 500, JSON.stringify(failed));
      assert.deepEqual(failed?.problem && pointers(failed.problem), ['#/items/1']);
      assert.deepEqual(await namesIn(body.trip_id), ['a', 'c']);
    });

    test('with a key, a repeat goes on with what has failed, and makes nothing twice', async () => {
      const fault = await failBookings();
      const body = trip([item('a'), booking('b')], { atomic: false });
      const key = { 'idempotency-key': randomUUID() };
      const { status, detail } = await problemOf(body, 502, key);
      assert.equal(status, 502);
      assert.match(detail, /same Idempotency-Key is safe to send again/);
      assert.deepEqual(await namesIn(body.trip_id), ['a']);
      await fault.remove();
      const { items } = await answerTo(body, 201, key);
      assert.deepEqual(
        items.map((one) => one.status),
        ['created', 'created'],
      );
      assert.deepEqual(await namesIn(body.trip_id), ['a', 'b']);
    });

    test('all refused is 422 with the first code and the places of all', async () => {
      const made = trip([item('a', { reference: 'A' }), item('b', { reference: 'B' })]);
      await answerTo(made, 201);
      const body = { ...made, member_id: await anotherMember(), atomic: false };
      const conflict = await problemOf(body, 422);
      assert.deepEqual(
        [conflict.code, conflict.status, pointers(conflict)],
        ['conflict', 422, ['#/items/0', '#/items/1']],
      );
      assert.deepEqual(pointers(await problemOf({ ...body, atomic: true }, 422)), ['#/items/0', '#/items/1']);
      assert.equal(
        ((await problemOf({ ...body, items: [...made.items, item('c')] }, 201)) as unknown as TripAnswer)
          .items[0]?.problem?.status,
        409,
      );
    });

    test('an update that needs approval is 422, and says what to send', async () => {
      const permission = { resource: 'quotes', actions: ['write'] } as Permission;
      const as = await gateway.newConsumer(permission);
      const body = trip([item('a', { reference: 'A' })]);
      await answerTo(body, 201, { as });
      await permit(as, [{ ...permission, approval: true }]);
      const update = { ...body, items: [item('a2', { reference: 'A', on_repeat: 'update' })] };
      const refused = await problemOf(update, 422, { as });
      assert.deepEqual([refused.code, pointers(refused)], ['approval_required', ['#/items/0/on_repeat']]);
    });
  });

  test('an unknown member is named once', async () => {
    const body = trip([item('a'), item('b'), booking('c')], { member_id: randomUUID() });
    for (const atomic of [true, false])
      await assertProblem(await send({ ...body, atomic }), 422, 'member_not_found', '#/member_id');
  });

  test('all items that are refused are named at once', async () => {
    const valid_until = '2020-01-01T00:00:00Z';
    const body = trip([item('a', { valid_until }), item('b'), booking('c', { valid_until })]);
    await assertProblem(
      await send(body),
      422,
      'offer_expired',
      '#/items/0/valid_until',
      '#/items/2/valid_until',
    );
    assert.deepEqual(await namesIn(body.trip_id), []);
  });

  async function permit(of: Credentials, permissions: Permission[]): Promise<void> {
    const options = { method: 'PATCH', as: gateway.admin, body: { permissions } };
    const response = await gateway.request(`/v1/admin/consumers/${of.id}`, options);
    assert.equal(response.status, 200, await response.text());
  }

  describe('for who does not see every field', () => {
    const written = ['trip_id', 'member_id', 'name', 'source', 'details'];
    const secret = 'Gold guests only';
    const narrow = (resource: 'quotes' | 'bookings', ...more: string[]): Permission => ({
      resource,
      actions: ['read', 'write'],
      fields: [...written, ...more],
    });
    const all = [narrow('quotes', 'status'), narrow('bookings', 'status')];
    /** Refuses quotes and bookings of a name because of a field that may be hidden. */
    const refuse = () =>
      gateway.org.automate({
        triggers: ['Quote__c', 'Booking__c'].map((object) => ({
          ...{ ...refusing, name: `${refusing.name} ${object}`, object, on: ['beforeInsert'] },
          action: { kind: 'addError', message: secret, field: 'Status__c' },
        })),
      });

    for (const [what, path, body, status, options] of [
      [
        'one hand-off',
        '/api/v1/handoff',
        ({ items: [one], ...shared }: ReturnType<typeof trip>) => ({ ...shared, ...one }),
        422,
        {},
      ],
      ['a trip', '/api/v1/handoffs', (body: object) => body, 422, {}],
      [
        'a trip of which a part was made',
        '/api/v1/handoffs',
        (body: ReturnType<typeof trip>) => ({ ...body, atomic: false, items: [...body.items, item('good')] }),
        201,
        {},
      ],
      [
        'a trip that waits for its delivery',
        '/api/v1/handoffs',
        (body: ReturnType<typeof trip>) => ({ ...body, items: [...body.items, item('good')] }),
        201,
        { prefer: 'respond-async, wait=5' },
      ],
    ] as const) {
      test(`${what}: a stored answer leaves out what is hidden by now`, async () => {
        await refuse();
        const as = await gateway.newConsumer(...all);
        const sent = body(trip([booking('refuse me')]));
        const key = { path, as, 'idempotency-key': randomUUID(), ...options };
        const first = await send(sent, key);
        const text = await first.text();
        assert.equal(first.status, status, text);
        assert.ok(text.includes(secret), text);
        const again = await send(sent, key);
        assert.equal(again.headers.get('idempotent-replayed'), 'true');
        assert.equal(await again.text(), text);
        await permit(as, [narrow('quotes', 'status'), narrow('bookings')]);
        const cut = await send(sent, key);
        const shown = await cut.text();
        assert.equal(cut.status, status);
        assert.ok(!shown.includes(secret), shown);
        assert.match(shown, /something these credentials can't see/);
        assert.equal(await (await send(sent, key)).text(), shown);
        await permit(as, [narrow('quotes', 'status')]);
        await assertProblem(await send(sent, key), 403, 'permission_denied');
      });

      test(`${what}: a refusal is shown by the fields of the type that is refused`, async () => {
        await refuse();
        const as = await gateway.newConsumer(narrow('quotes', 'status'), narrow('bookings'));
        const hidden = await send(body(trip([booking('refuse me')])), { path, as, ...options });
        assert.ok(!(await hidden.text()).includes(secret));
        const seen = await send(body(trip([item('refuse me')])), { path, as, ...options });
        assert.match(await seen.text(), new RegExp(secret));
      });
    }

    for (const [what, more, status] of [
      ['refused as a whole', [], 422],
      ['made in part', [item('c')], 201],
    ] as const) {
      test(`the first answer to a trip that is ${what} is that of its repeat`, async () => {
        const as = await gateway.newConsumer(narrow('quotes'));
        const made = trip([item('a', { reference: 'A' })]);
        await answerTo(made, 201, { as });
        const items = [...made.items, ...more];
        const ofAnother = { ...made, member_id: await anotherMember(), items, atomic: false };
        const key = { as, 'idempotency-key': randomUUID() };
        const first = await answerTo(ofAnother, status, key);
        assert.deepEqual(await answerTo(ofAnother, status, key), first);
      });
    }

    test('items of both types are each shown as their type', async () => {
      await refuse();
      const as = await gateway.newConsumer(narrow('quotes', 'status'), narrow('bookings'));
      const body = trip([booking('refuse me'), item('refuse me')]);
      const { errors, detail } = await problemOf(body, 422, { as });
      assert.deepEqual(errors, [
        { pointer: '#/items/0', message: "it breaks a rule about something these credentials can't see" },
        { pointer: '#/items/1/status', message: secret },
      ]);
      assert.doesNotMatch(detail, /Gold/);
    });
  });

  test('an item that waits for one member is refused for another', async () => {
    const permission = { resource: 'quotes', actions: ['write'] } as Permission;
    const as = await gateway.newConsumer({ ...permission, approval: true });
    const body = trip([item('a', { reference: 'A' }), item('b')]);
    await answerTo(body, 202, { as });
    await permit(as, [permission]);
    const { code, errors } = await problemOf({ ...body, member_id: randomUUID() }, 422, { as });
    assert.deepEqual([code, errors?.map(({ pointer }) => pointer)], ['conflict', ['#/items/0']]);
  });
});

describe('a trip of which nobody knows what became', () => {
  for (const atomic of [true, false]) {
    test(`without a key says what to look up where atomic is ${atomic}`, async (t) => {
      const gateway = await startGateway();
      t.after(() => gateway.stop());
      await gateway.org.arm({ match: { method: 'POST' }, effect: { kind: 'loseAnswer' } });
      await gateway.org.arm({ match: { path: '/query' }, effect: { kind: 'down' } });
      const body = tripFor(gateway.org.memberId, { atomic });
      const response = await gateway.request('/api/v1/handoffs', {
        body: { ...body, items: [...body.items, ...body.items] },
      });
      const { status, detail, errors } = (await response.json()) as ProblemBody;
      assert.ok(status >= 500);
      assert.match(detail, /unknown whether the write took effect; look up what it may have created/);
      await gateway.org.disarm();
      const rows = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
      assert.equal(rows.length, 2);
      for (const [index, { pointer }] of (errors ?? []).entries()) assert.equal(pointer, `#/items/${index}`);
      for (const { External_Id__c: id } of rows) assert.match(JSON.stringify(errors), new RegExp(String(id)));
    });
  }

  test('is stored item by item where Salesforce is away and that is to be accepted, unless all or none was asked for', async (t) => {
    const gateway = await startGateway({ HANDOFF_WHEN_CRM_IS_UNAVAILABLE: 'accept' });
    t.after(() => gateway.stop());
    const { items, ...trip } = tripFor(gateway.org.memberId);
    const body = { ...trip, items: [...items, { ...items[0], reference: 'A' }] };
    const send = (sent: object) => gateway.request('/api/v1/handoffs', { body: sent });
    // It is made, and nobody hears of it.
    await gateway.org.arm({ match: { method: 'POST' }, effect: { kind: 'loseAnswer' } });
    await gateway.org.arm({ match: { path: '/query' }, effect: { kind: 'down' } });
    const stored = await send(body);
    const text = await stored.text();
    assert.equal(stored.status, 202, text);
    const ids = (JSON.parse(text) as TripAnswer).items.map(({ external_id }) => String(external_id));
    const refused = await send({ ...body, trip_id: randomUUID(), atomic: true });
    assert.equal(refused.status, 503, await refused.text());
    await gateway.org.disarm();
    for (const id of ids) await untilHandoff(gateway, id);
    const rows = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.deepEqual(rows.map((row) => row['External_Id__c']).toSorted(), ids.toSorted());
  });
});
