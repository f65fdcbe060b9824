import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import { isPublic } from '../../../../src/api/route.ts';
import { documentedRoutes } from '../../../../src/app/routes.ts';
import type { Permission } from '../../../../src/identity/consumers/consumer.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, type RequestOptions, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';
import { newReservation } from '../../../support/reservations.ts';

const actions: Permission['actions'] = ['read', 'write', 'delete'];
const collections = ['quotes', 'bookings', 'reservations'] as const;
type Collection = (typeof collections)[number];

/** The operations that this test covers, or that disclose no record. */
const covered = new Set([
  ...['handOff', 'createQuote', 'createBooking', 'createReservation', 'getTableAvailability'],
  ...['listQuotes', 'getQuote', 'changeQuote', 'deleteQuote'],
  ...['listBookings', 'getBooking', 'changeBooking', 'deleteBooking'],
  ...['listReservations', 'getReservation', 'cancelReservation'],
  ...['listHandoffs', 'getHandoff', 'retryHandoff', 'cancelHandoff'],
  ...['getQuoteHistory', 'getBookingHistory', 'getReservationHistory', 'getHandoffHistory'],
  // test/features/trips/api
  ...['handOffTrip', 'checkHandoff', 'checkTripHandoff', 'getTrip', 'listMerchants'],
  // test/features/handoff/api/approvals.test.ts
  ...['approveHandoff', 'rejectHandoff'],
]);

/** Those that need no permission on records: they show none, or a test of their own is named. */
const coveredElsewhere = new Set([
  ...[
    'listMembers',
    'getMember',
    'getOwnConsumer',
    'getOwnUsage',
    'listOwnAuthenticationAttempts',
    'rotateOwnConsumer',
  ],
  ...['listConsumers', 'createConsumer', 'getConsumer', 'updateConsumer', 'deleteConsumer', 'rotateConsumer'],
  ...['listAuthenticationAttempts', 'listAuditEvents', 'getActivity', 'getCrmUsage', 'getConsumerUsage'],
  // test/features/test-mode/test-keys.test.ts
  'resetTestWorld',
  // test/features/events/feed.test.ts
  'listEvents',
  // test/features/partner-webhooks/deliveries.test.ts: each has its owner, and each delivery is checked.
  ...['createWebhookEndpoint', 'listWebhookEndpoints', 'getWebhookEndpoint', 'updateWebhookEndpoint'],
  ...['deleteWebhookEndpoint', 'rotateWebhookSecret', 'testWebhookEndpoint'],
  ...['listWebhookDeliveries', 'resendWebhookDelivery', 'recoverWebhookEndpoint', 'callMcp'],
]);

interface Made {
  collection: Collection;
  id: string;
  etag: string;
  by: string;
}

describe('consumers that see only their own records', () => {
  const gateway = useGateway();
  let consumers: Record<'first' | 'second' | 'all', Credentials>;
  const made: Made[] = [];

  before(async () => {
    const own = (['quotes', 'bookings'] as const).map((resource) => ({
      resource,
      actions,
      records: 'own' as const,
    }));
    const all = own.map(({ resource }) => ({ resource, actions }));
    consumers = {
      first: await gateway.newConsumer(...own),
      second: await gateway.newConsumer(...own),
      all: await gateway.newConsumer(...all),
    };
  });

  const send = (as: Credentials, path: string, options: RequestOptions = {}) =>
    gateway.request(path, {
      ...options,
      as,
      headers: { 'idempotency-key': randomUUID(), 'x-actor': 'In%C3%A9s', ...options.headers },
    });
  const isSeen = ({ by }: Made, as: Credentials) => as === consumers.all || by === as.id;

  async function make(collection: Collection, as: Credentials, byHandOff: boolean): Promise<void> {
    const { trip_id, member_id, name, ...rest } = newReservation(gateway.org.memberId);
    const result = { name, source: 'x', details: {} };
    const handOff = byHandOff && collection !== 'reservations';
    const body = handOff
      ? { type: collection.slice(0, -1), trip_id, member_id, result }
      : { trip_id, member_id, ...(collection === 'reservations' ? { name, ...rest } : result) };
    const response = await send(as, handOff ? '/api/v1/handoff' : `/v1/${collection}`, { body });
    const answer = (await response.json()) as { id: string; external_id?: string };
    assert.equal(response.status, 201, JSON.stringify(answer));
    const id = answer.external_id ?? answer.id;
    const read = await send(as, `/v1/${collection}/${id}`);
    const { created_by } = (await read.json()) as { created_by: object };
    const verified = false;
    assert.deepEqual(created_by, { consumer_id: as.id, consumer_name: 'test', actor: 'Inés', verified });
    made.push({ collection, id, etag: read.headers.get('etag') ?? '', by: as.id });
    // Its booking is a record of its own.
    if (collection === 'reservations') made.push({ collection: 'bookings', id, etag: '', by: as.id });
  }

  /** What an answer has, without what is new in each. */
  async function tellTale(response: Response, id: string) {
    const text = (await response.text()).replaceAll(id, 'ID').replace(/"request_id":"[^"]*"/, '');
    const { etag, location, 'retry-after': retryAfter } = Object.fromEntries(response.headers);
    return { status: response.status, text, etag, location, retryAfter };
  }

  /** A foreign record answers like one that does not exist, whatever is done with it. */
  async function assertAbsent({ collection, id, etag }: Made, as: Credentials): Promise<void> {
    const none = randomUUID();
    const requests: RequestOptions[] = [
      {},
      { headers: { 'if-none-match': etag || '*' } },
      { method: 'DELETE' },
      { method: 'DELETE', headers: { 'if-match': etag || '"x"' } },
      ...(collection === 'reservations'
        ? []
        : [
            { method: 'PATCH', body: { name: 'x' } },
            { method: 'PATCH', body: { name: 'x' }, headers: { 'if-match': etag || '"x"' } },
          ]),
    ];
    for (const options of requests) {
      const [foreign, missing] = await Promise.all([
        send(as, `/v1/${collection}/${id}`, options),
        send(as, `/v1/${collection}/${none}`, options),
      ]);
      assert.equal(foreign.status, 404);
      assert.deepEqual(await tellTale(foreign, id), await tellTale(missing, none));
    }
    const [foreign, missing] = [
      await send(as, `/v1/${collection}/${id}/history`),
      await send(as, `/v1/${collection}/${none}/history`),
    ];
    assert.equal(foreign.status, 404);
    assert.deepEqual(await tellTale(foreign, id), await tellTale(missing, none));
  }

  async function listed(collection: Collection, as: Credentials, query = ''): Promise<string[]> {
    const ids: string[] = [];
    for (let cursor = ''; ; ) {
      const response = await send(as, `/v1/${collection}?limit=3${query}${cursor}`);
      const page = (await response.json()) as {
        data: { id: string }[];
        next_cursor: string;
        has_more: boolean;
      };
      assert.equal(response.status, 200, JSON.stringify(page));
      ids.push(...page.data.map(({ id }) => id));
      // A cursor is good for what its maker sees.
      if (page.has_more && as !== consumers.all) {
        const other = as === consumers.first ? consumers.second : consumers.all;
        const path = `/v1/${collection}?limit=3${query}&cursor=${page.next_cursor}`;
        await assertProblem(await send(other, path), 400, 'invalid_cursor', 'cursor');
      }
      if (!page.has_more) return ids.sort();
      cursor = `&cursor=${page.next_cursor}`;
    }
  }

  test('no route shows foreign records, whichever consumer made which', async () => {
    const who = fc.constantFrom('first' as const, 'second' as const, 'all' as const);
    const creations = fc.tuple(fc.constantFrom(...collections), who, fc.boolean());
    for (const [collection, as, byHandOff] of fc.sample(creations, 12))
      await make(collection, consumers[as], byHandOff);
    for (const collection of collections) await make(collection, consumers.second, true);
    for (const as of Object.values(consumers)) {
      for (const collection of collections) {
        const seen = made.filter((record) => record.collection === collection && isSeen(record, as));
        const ids = (records: Made[]) => records.map(({ id }) => id).sort();
        assert.deepEqual(await listed(collection, as), ids(seen));
        for (const { id } of Object.values(consumers)) {
          const wanted = ids(seen.filter(({ by }) => by === id));
          assert.deepEqual(await listed(collection, as, `&consumer_id=${id}`), wanted);
        }
      }
    }
    const foreign = made.filter((record) => !isSeen(record, consumers.first));
    assert.ok(foreign.length >= 3);
    for (const record of foreign) await assertAbsent(record, consumers.first);
    // Asked for at the same time, so that they share calls.
    await Promise.all(
      made.flatMap((record) =>
        Object.values(consumers).map(async (as) => {
          const { status } = await send(as, `/v1/${record.collection}/${record.id}`);
          assert.equal(status, isSeen(record, as) ? 200 : 404);
          const history = await send(as, `/v1/${record.collection}/${record.id}/history`);
          assert.equal(history.status, status);
        }),
      ),
    );
  });

  test('accepted hand-offs of others do not exist', async () => {
    const { trip_id, member_id } = newReservation(gateway.org.memberId);
    const body = { type: 'quote', trip_id, member_id, result: { name: 'x', source: 'x', details: {} } };
    const accepted = await send(consumers.second, '/api/v1/handoff', {
      body,
      headers: { prefer: 'respond-async' },
    });
    const location = accepted.headers.get('location') ?? '';
    assert.equal(accepted.status, 202, await accepted.text());
    assert.equal((await send(consumers.second, location)).status, 200);
    const none = `/v1/handoffs/${randomUUID()}`;
    for (const [path, method] of [
      ['', 'GET'],
      ['/history', 'GET'],
      ['', 'DELETE'],
      ['/retry', 'POST'],
    ] as const) {
      const foreign = await send(consumers.first, location + path, { method });
      const missing = await send(consumers.first, none + path, { method });
      assert.equal(foreign.status, 404);
      assert.deepEqual(await tellTale(foreign, location), await tellTale(missing, none));
    }
    const list = await send(consumers.first, `/v1/handoffs?trip_id=${String(trip_id)}`);
    assert.deepEqual(((await list.json()) as { data: unknown[] }).data, []);
    // Nor does a refusal show them, where the action is allowed for the other type only.
    const reader = await gateway.newConsumer(
      { resource: 'quotes', actions: ['read'], records: 'own' },
      { resource: 'bookings', actions },
    );
    await assertProblem(await send(reader, location, { method: 'DELETE' }), 404, 'not_found');
    await assertProblem(await send(reader, `${location}/retry`, { method: 'POST' }), 404, 'not_found');
  });

  test('accepted hand-offs of others do not exist either of a type on which there is no permission', async () => {
    const { trip_id, member_id } = newReservation(gateway.org.memberId);
    const accept = async (as: Credentials, type: string) => {
      const body = { type, trip_id, member_id, result: { name: 'x', source: 'x', details: {} } };
      const options = { body, headers: { prefer: 'respond-async' } };
      return (await send(as, '/api/v1/handoff', options)).headers.get('location') ?? '';
    };
    const bookings = { resource: 'bookings', actions, records: 'own' } as const;
    const former = await gateway.newConsumer({ resource: 'quotes', actions }, bookings);
    const its = await accept(former, 'quote');
    const patch = { method: 'PATCH', body: { permissions: [bookings] }, as: gateway.admin };
    assert.equal((await gateway.request(`/v1/admin/consumers/${former.id}`, patch)).status, 200);
    const readers = [former, await gateway.newConsumer({ ...bookings, actions: ['read'] })];
    const none = `/v1/handoffs/${randomUUID()}`;
    for (const foreign of [await accept(consumers.all, 'quote'), await accept(consumers.all, 'booking')]) {
      for (const as of readers) {
        for (const [path, method] of [
          ['', 'GET'],
          ['/history', 'GET'],
          ['', 'DELETE'],
          ['/retry', 'POST'],
        ] as const) {
          const answer = await send(as, foreign + path, { method });
          const missing = await send(as, none + path, { method });
          assert.equal(answer.status, as === former || method === 'GET' ? 404 : 403);
          assert.deepEqual(await tellTale(answer, foreign), await tellTale(missing, none));
        }
      }
    }
    // Its own exists: it got the id in an answer.
    for (const path of [its, `${its}/history`]) {
      const { required } = await assertProblem(await send(former, path), 403, 'permission_denied');
      assert.deepEqual(required, { resource: 'quotes', action: 'read' });
    }
  });

  test('a change of a foreign record holds up nobody, and one of an own record does', async () => {
    await make('quotes', consumers.second, false);
    const { id, etag } = made.at(-1) as Made;
    const path = `/v1/quotes/${id}`;
    const tagged = { method: 'PATCH', body: { name: 'Tagged' }, headers: { 'if-match': etag } };
    const free = { method: 'PATCH', body: { name: 'Free' } };
    const query = await gateway.org.arm({
      match: { operation: 'query', recordKey: id },
      effect: { kind: 'hold', stage: 'before' },
      times: 1,
    });
    const foreign = send(consumers.first, path, free);
    await query.hit();
    assert.equal((await send(consumers.second, path, tagged)).status, 200);
    await query.release();
    assert.equal((await foreign).status, 404);
    const { headers } = await send(consumers.second, path);
    const update = await gateway.org.arm({
      match: { operation: 'update', recordKey: 'Free' },
      effect: { kind: 'hold', stage: 'before' },
      times: 1,
    });
    const running = send(consumers.second, path, free);
    await update.hit();
    const again = { ...tagged, headers: { 'if-match': headers.get('etag') ?? '' } };
    await assertProblem(await send(consumers.second, path, again), 409, 'idempotency_in_progress');
    await update.release();
    assert.equal((await running).status, 200);
    await assertProblem(await send(consumers.second, path, again), 412, 'precondition_failed');
  });

  describe('a repeat after the permission has changed', () => {
    const keyed = () => ({ 'idempotency-key': randomUUID() });
    const permit = async ({ id }: Credentials & { id: string }, records: 'all' | 'own') => {
      const body = { permissions: [{ resource: 'quotes', actions, records }] };
      const answer = await gateway.request(`/v1/admin/consumers/${id}`, {
        method: 'PATCH',
        body,
        as: gateway.admin,
      });
      assert.equal(answer.status, 200, await answer.text());
    };
    const make = async (as: Credentials) => {
      const { trip_id, member_id } = newReservation(gateway.org.memberId);
      const body = { trip_id, member_id, name: 'x', source: 'x', details: {} };
      const answer = await send(as, '/v1/quotes', { method: 'POST', body, headers: keyed() });
      return ((await answer.json()) as { id: string }).id;
    };
    const assertReplayed = async (answer: Response, status: number) => {
      assert.equal(answer.status, status, await answer.text());
      assert.equal(answer.headers.get('idempotent-replayed'), 'true');
    };

    for (const [before, after] of [
      ['all', 'own'],
      ['own', 'all'],
    ] as const) {
      test(`gets its answer, from ${before} to ${after}, for a record that it sees`, async () => {
        const consumer = await gateway.newConsumer({ resource: 'quotes', actions, records: before });
        const path = `/v1/quotes/${await make(consumer)}`;
        const change = { method: 'PATCH', body: { name: 'Seen' }, headers: keyed() };
        const removal = { method: 'DELETE', headers: keyed() };
        assert.equal((await send(consumer, path, change)).status, 200);
        assert.equal((await send(consumer, path, removal)).status, 204);
        await permit(consumer, after);
        await assertReplayed(await send(consumer, path, change), 200);
        await assertReplayed(await send(consumer, path, removal), 204);
      });
    }

    test('is 404 for a record that it does not see now, also unfinished, and 200 once it does', async () => {
      const consumer = await gateway.newConsumer({ resource: 'quotes', actions });
      const path = `/v1/quotes/${await make(consumers.second)}`;
      const change = { method: 'PATCH', body: { name: 'Seen' }, headers: keyed() };
      const removal = { method: 'DELETE', headers: keyed() };
      assert.equal((await send(consumer, path, change)).status, 200);
      const fault = { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'x' };
      await gateway.org.arm({ match: { operation: 'delete' }, effect: fault });
      assert.ok((await send(consumer, path, removal)).status >= 500);
      await gateway.org.disarm();
      await permit(consumer, 'own');
      await assertProblem(await send(consumer, path, change), 404, 'not_found');
      await assertProblem(await send(consumer, path, removal), 404, 'not_found');
      await permit(consumer, 'all');
      await assertReplayed(await send(consumer, path, change), 200);
    });
  });

  test('every operation on records is covered', async () => {
    const routes = documentedRoutes();
    const ofRecords = routes.filter(({ permission }) =>
      /"(quotes|bookings)"/.test(JSON.stringify(permission)),
    );
    assert.deepEqual(new Set(ofRecords.map(({ operationId }) => operationId)), covered);
    const others = routes.filter((route) => !ofRecords.includes(route) && !isPublic(route.permission));
    assert.deepEqual(new Set(others.map(({ operationId }) => operationId)), coveredElsewhere);
  });
});

describe('an own consumer in an org that does not know who made a record', () => {
  const missingFields = ['Consumer_Id__c', 'Consumer_Name__c', 'Actor__c'].map((name) => `Quote__c.${name}`);
  const gateway = useGateway({ HANDOFF_WHEN_CRM_IS_UNAVAILABLE: 'accept' });
  before(async () => {
    await gateway.org.change({ missingFields });
  });

  test('has its accepted hand-off wait rather than made without its name, and holds up no other', async () => {
    const own = await gateway.newConsumer({ resource: 'quotes', actions, records: 'own' });
    const { trip_id, member_id } = newReservation(gateway.org.memberId);
    const body = { type: 'quote', trip_id, member_id, result: { name: 'x', source: 'x', details: {} } };
    const handOff = async (as: Credentials, prefer = '') => {
      const response = await gateway.request('/api/v1/handoff', { as, body, headers: { prefer } });
      return { ...((await response.json()) as { external_id: string }), status: response.status };
    };
    const stateOf = async (as: Credentials, id: string) =>
      (await (await gateway.request(`/v1/handoffs/${id}`, { as })).json()) as {
        status: string;
        attempts: number;
      };
    const stored = await handOff(own);
    assert.equal(stored.status, 202);
    await eventually(async () => assert.notEqual((await stateOf(own, stored.external_id)).attempts, 0));
    const others = await handOff(gateway.console, 'respond-async');
    await eventually(async () =>
      assert.equal((await stateOf(gateway.console, others.external_id)).status, 'created'),
    );
    assert.equal((await stateOf(own, stored.external_id)).status, 'accepted');
    const where = { External_Id__c: stored.external_id };
    assert.deepEqual(await gateway.org.records('Quote__c', where), []);
  });
});
