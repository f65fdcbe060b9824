import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Route } from '../../../src/api/route.ts';
import { uncalledRoutes } from '../../../src/app/routes.ts';
import { historyRoutes } from '../../../src/features/history/routes/history.ts';
import { eventually } from '../../support/eventually.ts';
import { FeedReader } from '../../support/feed.ts';
import {
  type Credentials,
  type RequestOptions,
  startGateway,
  type TestGateway,
} from '../../support/gateway.ts';
import { accept, offerFor, respondAsync, tripFor, untilHandoff } from '../../support/handoffs.ts';
import { assertProblem } from '../../support/problems.ts';
import { newReservation } from '../../support/reservations.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';

interface Entry {
  at: string;
  kind: string;
  by: { consumer_id: string; consumer_name: string | null; actor: string | null; verified: boolean } | null;
  changes: { field: string; from?: unknown; to?: unknown }[] | null;
  endpoint: string | null;
}

const actions: ('read' | 'write' | 'delete')[] = ['read', 'write', 'delete'];
const own = { resource: 'quotes', actions, records: 'own' } as const;
const actor = { 'x-actor': 'ana@example.com' };

let gateway: TestGateway;
let feed: FeedReader;
let partner: Credentials;
before(async () => {
  gateway = await startGateway({ CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' });
  feed = new FeedReader(gateway.request);
  partner = await gateway.newConsumer(
    { resource: 'quotes', actions },
    { resource: 'bookings', actions },
    { resource: 'webhooks', actions },
  );
});
after(() => gateway.stop());
afterEach(() => gateway.org.disarm());

const send = (path: string, { as = partner, headers, ...options }: RequestOptions = {}) =>
  gateway.request(path, {
    ...{ as, ...options },
    headers: { 'idempotency-key': randomUUID(), ...actor, ...headers },
  });

async function historyOf(path: string, as: RequestOptions['as'] = partner): Promise<Entry[]> {
  const response = await gateway.request(`${path}/history`, { as });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const { data } = JSON.parse(text) as { data: Entry[] };
  assert.deepEqual(
    data.map(({ at }) => at),
    data.map(({ at }) => at).toSorted(),
  );
  return data;
}

const kindsOf = (entries: readonly Entry[]) => entries.map(({ kind }) => kind);
const of = (entries: readonly Entry[], kind: string) => entries.find((one) => one.kind === kind);

async function untilHistory(path: string, isThere: (kinds: string[]) => boolean, as = partner) {
  return eventually(async () => {
    const found = await historyOf(path, as);
    assert.ok(isThere(kindsOf(found)), kindsOf(found).join());
    return found;
  });
}

async function newQuote(as = partner): Promise<string> {
  const record = { trip_id: randomUUID(), member_id: gateway.org.memberId, name: 'a', source: 'b' };
  const response = await send('/v1/quotes', { as, body: { ...record, details: { net: 1 } } });
  assert.equal(response.status, 201, await response.clone().text());
  const { id } = (await response.json()) as { id: string };
  await feed.until(({ resource, type }) => resource.id === id && type === 'quote.created');
  return id;
}

const change = (id: string, body: object, as = partner) =>
  send(`/v1/quotes/${id}`, { method: 'PATCH', body, as });
const untilEvent = (id: string, type: string, count = 1) =>
  feed.until(() => feed.typesOf(id).filter((one) => one === type).length >= count);
const doer = (as: Credentials) => ({
  consumer_id: as.id,
  consumer_name: 'test',
  actor: 'ana@example.com',
  verified: false,
});

describe('the history of a quote', () => {
  test('shows who asked for it within a trip, at once or later', async () => {
    const { items: _, ...trip } = tripFor(gateway.org.memberId);
    const items = ['a', 'b'].map((name) => ({
      type: 'quote',
      ...(name === 'b' && { reference: 'B' }),
      result: { name, source: 'hotelbeds', details: {} },
    }));
    const ask = { ...trip, items };
    for (const headers of [{}, respondAsync]) {
      const response = await send('/api/v1/handoffs', {
        body: { ...ask, trip_id: randomUUID() },
        headers,
      });
      const text = await response.text();
      assert.ok(response.ok, text);
      for (const { external_id } of (JSON.parse(text) as { items: { external_id: string }[] }).items) {
        await feed.until(({ resource, type }) => resource.id === external_id && type === 'quote.created');
        const found = await historyOf(`/v1/quotes/${external_id}`);
        const asked = found.filter(({ kind }) => kind === 'requested');
        assert.deepEqual(
          asked.map(({ by, endpoint }) => ({ by, endpoint })),
          [{ by: doer(partner), endpoint: 'POST /api/v1/handoffs' }],
        );
        await assertProblem(
          await gateway.request(`/v1/bookings/${external_id}/history`, { as: partner }),
          404,
          'not_found',
        );
      }
    }
  });

  test('shows who asked for what, and each change, also once it is deleted', async () => {
    const id = await newQuote();
    const path = `/v1/quotes/${id}`;
    assert.equal((await change(id, { name: 'changed', details: { net: 2 } })).status, 200);
    await untilEvent(id, 'quote.updated');
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Status__c: 'confirmed' });
    await untilEvent(id, 'quote.updated', 2);
    assert.equal((await send(path, { method: 'DELETE' })).status, 204);
    await untilEvent(id, 'quote.deleted');
    await assertProblem(await send(path), 404, 'not_found');
    const expected = ['requested', 'created', 'requested', 'updated', 'updated', 'requested', 'deleted'];
    const found = await historyOf(path);
    // Times of the CRM are whole seconds: what comes first of its second is not known.
    assert.deepEqual(kindsOf(found).toSorted(), expected.toSorted());
    assert.deepEqual(
      found.filter(({ kind }) => kind === 'requested').map(({ endpoint, by }) => ({ endpoint, by })),
      ['POST /v1/quotes', 'PATCH /v1/quotes/:id', 'DELETE /v1/quotes/:id'].map((endpoint) => ({
        endpoint,
        by: doer(partner),
      })),
    );
    assert.equal(kindsOf(found)[0], 'requested');
    assert.deepEqual(of(found, 'created'), {
      ...{ at: of(found, 'created')?.at, kind: 'created', by: doer(partner), changes: null, endpoint: null },
    });
    assert.deepEqual(
      found.filter(({ kind }) => kind === 'updated').map(({ changes }) => changes),
      [
        [{ field: 'name', from: 'a', to: 'changed' }, { field: 'details' }],
        [{ field: 'status', from: 'created', to: 'confirmed' }],
      ],
    );
    await gateway.org.bin('Quote__c', id, 'undelete');
    await untilEvent(id, 'quote.created', 2);
    assert.equal(kindsOf(await historyOf(path)).at(-1), 'restored');
    // Under its own type only.
    await assertProblem(await send(`/v1/bookings/${id}/history`), 404, 'not_found');
    await assertProblem(await send(`/v1/handoffs/${id}/history`), 404, 'not_found');
  });

  test('that was made in the CRM itself is what the CRM says of it', async () => {
    const id = randomUUID();
    const stamp = '2025-01-01T00:00:00.000+0000';
    await gateway.org.insert('Quote__c', [
      {
        ...{ External_Id__c: id, Name__c: 'old', Source__c: 's', Trip_Id__c: randomUUID() },
        ...{ CreatedDate: stamp, LastModifiedDate: stamp, SystemModstamp: stamp },
      },
    ]);
    const at = '2025-01-01T00:00:00.000Z';
    const created = { at, kind: 'created', by: null, changes: null, endpoint: null };
    assert.deepEqual(await historyOf(`/v1/quotes/${id}`), [created]);
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Status__c: 'confirmed' });
    await feed.until(({ resource }) => resource.id === id);
    const [first] = await historyOf(`/v1/quotes/${id}`);
    assert.deepEqual(first, created);
  });

  test('needs the permission to read it, and something that exists', async () => {
    const none = `/v1/quotes/${randomUUID()}`;
    // A refused change leaves a claim that says nothing.
    assert.equal((await change(none.slice(-36), { name: 'x' })).status, 404);
    await assertProblem(await send(`${none}/history`), 404, 'not_found');
    await assertProblem(await send('/v1/quotes/x/history'), 400, 'invalid_request', 'id');
    const bookings = await gateway.newConsumer({ resource: 'bookings', actions });
    const path = `/v1/quotes/${await newQuote()}/history`;
    await assertProblem(await send(path, { as: bookings }), 403, 'permission_denied');
  });

  test('does not call the CRM where it has parts', async () => {
    const path = `/v1/quotes/${await newQuote()}`;
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    assert.deepEqual(kindsOf(await historyOf(path)), ['requested', 'created']);
  });

  test('of another consumer does not exist for one that sees only its own', async () => {
    const [first, second] = [await gateway.newConsumer(own), await gateway.newConsumer(own)];
    const id = await newQuote(first);
    const path = `/v1/quotes/${id}`;
    assert.equal((await change(id, { name: 'mine' }, second)).status, 404);
    await assertProblem(await send(`${path}/history`, { as: second }), 404, 'not_found');
    assert.equal((await send(path, { as: first, method: 'DELETE' })).status, 204);
    await untilEvent(id, 'quote.deleted');
    await assertProblem(await send(`${path}/history`, { as: second }), 404, 'not_found');
    const found = await historyOf(path, first);
    assert.deepEqual(of(found, 'created')?.by, doer(first));
    // Nor does the one that made it hear of the other's try.
    assert.ok(found.every(({ by }) => by === null || by.consumer_id === first.id));
  });

  test('shows who no longer owns the record its own requests alone', async () => {
    const [first, second] = [await gateway.newConsumer(own), await gateway.newConsumer(own)];
    const id = await newQuote(first);
    const path = `/v1/quotes/${id}`;
    assert.equal((await change(id, { name: 'ours' })).status, 200);
    await untilEvent(id, 'quote.updated');
    const before = await historyOf(path, first);
    assert.deepEqual(kindsOf(before).toSorted(), ['created', 'requested', 'requested', 'updated']);
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Consumer_Id__c: second.id });
    // Times of the CRM are whole seconds.
    const lastSeen = Date.parse(before.at(-1)?.at ?? '');
    await eventually(async () => assert.ok(Date.now() > lastSeen + 1000));
    assert.equal((await change(id, { name: 'theirs' }, second)).status, 200);
    await untilEvent(id, 'quote.updated', 2);
    assert.deepEqual(
      await historyOf(path, first),
      before.filter(({ kind, by }) => kind === 'requested' && by?.consumer_id === first.id),
    );
  });

  test('leaves out fields that are hidden, and changes of nothing else', async () => {
    const narrow = await gateway.newConsumer({ resource: 'quotes', actions, fields: ['name'] });
    const id = await newQuote();
    await change(id, { source: 'hidden' });
    await untilEvent(id, 'quote.updated');
    await change(id, { source: 'again', name: 'seen' });
    await untilEvent(id, 'quote.updated', 2);
    const found = await historyOf(`/v1/quotes/${id}`, narrow);
    assert.ok(found.every(({ by }) => by === null));
    assert.deepEqual(
      found.filter(({ kind }) => kind === 'updated').map(({ changes }) => changes),
      [[{ field: 'name', from: 'a', to: 'seen' }]],
    );
  });

  test('has the deliveries to the own endpoints alone', async () => {
    const receiver = await startWebhookReceiver();
    const other = await gateway.newConsumer(
      { resource: 'quotes', actions },
      { resource: 'webhooks', actions },
    );
    const made = await send('/v1/webhook-endpoints', { body: { url: receiver.url } });
    assert.equal(made.status, 201);
    const endpoint = ((await made.json()) as { id: string }).id;
    const path = `/v1/quotes/${await newQuote()}`;
    const delivered = of(await untilHistory(path, (kinds) => kinds.includes('delivered')), 'delivered');
    assert.deepEqual([delivered?.endpoint, delivered?.by], [endpoint, null]);
    assert.deepEqual(kindsOf(await historyOf(path, other)), ['requested', 'created']);
    // What comes later goes to nobody who has its port by then.
    assert.equal((await send(`/v1/webhook-endpoints/${endpoint}`, { method: 'DELETE' })).status, 204);
    receiver.stop();
  });
});

describe('the history of a hand-off', () => {
  const endpoint = 'POST /api/v1/handoff';

  test('that was accepted is also that of its record', async () => {
    const id = await accept(gateway, {}, { as: partner, headers: { prefer: 'respond-async', ...actor } });
    await untilHandoff(gateway, id);
    await untilEvent(id, 'quote.created');
    for (const path of [`/v1/handoffs/${id}`, `/v1/quotes/${id}`]) {
      const found = await historyOf(path);
      assert.deepEqual(kindsOf(found), ['requested', 'accepted', 'created']);
      assert.deepEqual(
        [found[0]?.endpoint, found[0]?.by, found[2]?.by],
        [endpoint, doer(partner), doer(partner)],
      );
    }
    await assertProblem(await send(`/v1/bookings/${id}/history`), 404, 'not_found');
    const bookings = await gateway.newConsumer({ resource: 'bookings', actions });
    await assertProblem(await send(`/v1/handoffs/${id}/history`, { as: bookings }), 403, 'permission_denied');
    const foreign = await gateway.newConsumer(own);
    await assertProblem(await send(`/v1/handoffs/${id}/history`, { as: foreign }), 404, 'not_found');
    await assertProblem(await send(`/v1/quotes/${id}/history`, { as: foreign }), 404, 'not_found');
  });

  test('that was made at once is that of its record alone', async () => {
    const response = await send('/api/v1/handoff', {
      body: offerFor(gateway.org.memberId, { type: 'booking' }),
    });
    assert.equal(response.status, 201);
    const { external_id: id } = (await response.json()) as { external_id: string };
    const found = await historyOf(`/v1/bookings/${id}`);
    assert.deepEqual(
      [kindsOf(found).toSorted()[1], of(found, 'requested')?.endpoint],
      ['requested', endpoint],
    );
    await assertProblem(await send(`/v1/quotes/${id}/history`), 404, 'not_found');
    await assertProblem(await send(`/v1/handoffs/${id}/history`), 404, 'not_found');
  });

  test('says who approved or rejected it', async () => {
    const agent = await gateway.newConsumer({ resource: 'quotes', actions, approval: true });
    const headers = { 'idempotency-key': randomUUID() };
    const [approved, rejected] = [
      await accept(gateway, {}, { as: agent, headers }),
      await accept(gateway, {}, { as: agent, headers: {} }),
    ];
    assert.equal((await send(`/v1/handoffs/${approved}/approve`, { method: 'POST' })).status, 202);
    await untilHandoff(gateway, approved);
    const reason = { body: { reason: 'too dear' } };
    assert.equal((await send(`/v1/handoffs/${rejected}/reject`, reason)).status, 200);
    const made = await historyOf(`/v1/handoffs/${approved}`);
    assert.deepEqual(kindsOf(made), ['requested', 'awaiting_approval', 'approved', 'created']);
    assert.deepEqual([made[0]?.by?.consumer_id, made[2]?.by], [agent.id, doer(partner)]);
    const refused = await historyOf(`/v1/quotes/${rejected}`);
    assert.deepEqual(kindsOf(refused), ['requested', 'awaiting_approval', 'rejected']);
    assert.deepEqual(refused[2]?.by, doer(partner));
    const narrow = await gateway.newConsumer({ resource: 'quotes', actions, fields: ['name'] });
    const shown = await historyOf(`/v1/handoffs/${approved}`, narrow);
    assert.deepEqual([shown[0]?.by, shown[3]?.by], [null, null]);
  });

  test('that failed, was tried again, and cancelled has all of that', async () => {
    const id = await accept(gateway, { member_id: randomUUID() }, { as: partner });
    const isFailed = ({ status }: { status: string }) => status === 'failed';
    await untilHandoff(gateway, id, isFailed);
    assert.equal((await send(`/v1/handoffs/${id}/retry`, { method: 'POST' })).status, 202);
    await untilHandoff(gateway, id, isFailed);
    assert.deepEqual(kindsOf(await historyOf(`/v1/handoffs/${id}`)), [
      ...['requested', 'accepted', 'failed', 'failed'],
    ]);
    assert.equal((await send(`/v1/handoffs/${id}`, { method: 'DELETE' })).status, 204);
    assert.equal(kindsOf(await historyOf(`/v1/handoffs/${id}`)).at(-1), 'cancelled');
  });
});

describe('the history of a reservation', () => {
  test('has its steps, from the request to the cancellation', async () => {
    const made = await send('/v1/reservations', { body: newReservation(gateway.org.memberId) });
    assert.equal(made.status, 201);
    const { id } = (await made.json()) as { id: string };
    const path = `/v1/reservations/${id}`;
    assert.equal((await send(path, { method: 'DELETE' })).status, 204);
    const found = await historyOf(path);
    assert.deepEqual(
      found.map(({ kind, endpoint, changes }) => [kind, endpoint ?? changes?.[0]?.to]),
      [
        ['requested', 'POST /v1/reservations'],
        ['step', 'making_booking'],
        ['step', 'booking_table'],
        ['step', 'writing_outcome'],
        ['created', 'confirmed'],
        ['requested', 'DELETE /v1/reservations/:id'],
        ['step', 'cancelling_table'],
        ['step', 'writing_cancellation'],
        ['cancelled', 'cancelled'],
      ],
    );
    assert.deepEqual(found[0]?.by, doer(partner));
    await untilEvent(id, 'booking.created');
    const { kind, endpoint } = (await historyOf(`/v1/bookings/${id}`))[0] as Entry;
    assert.deepEqual([kind, endpoint], ['requested', 'POST /v1/reservations']);
    const foreign = await gateway.newConsumer({ resource: 'bookings', actions, records: 'own' });
    await assertProblem(await send(`${path}/history`, { as: foreign }), 404, 'not_found');
    const narrow = await gateway.newConsumer({ resource: 'bookings', actions, fields: ['name'] });
    const shown = await historyOf(path, narrow);
    assert.deepEqual(new Set(kindsOf(shown)), new Set(['requested']));
    assert.ok(shown.every(({ by }) => by === null));
  });
});

test('requests are known by the operations of all features, also of those that are turned off by now', async () => {
  let operations: string[] = [];
  const historyBy = (possible: () => readonly Route[]) => {
    operations = possible().map(({ operationId }) => operationId);
    return async () => undefined;
  };
  const routes = uncalledRoutes(new Map([['history', { historyBy }]]));
  const route = routes.find(({ operationId }) => operationId === 'getBookingHistory');
  await assert.rejects(async () => route?.handle({ params: { id: randomUUID() } } as never));
  assert.ok(operations.includes('createReservation'), operations.join());
});

test('where a feature has no routes, such as reservations without a partner, there is none of a history', () => {
  const routes = historyRoutes(
    { historyBy: () => async () => undefined, subjects: ['quote', 'handoff'] },
    () => [],
  );
  assert.deepEqual(
    routes.map(({ path }) => path),
    ['/v1/quotes/:id/history', '/v1/handoffs/:externalId/history'],
  );
});
