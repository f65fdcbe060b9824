import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { documentedRoutes } from '../../../../src/app/routes.ts';
import type { Permission } from '../../../../src/identity/consumers/consumer.ts';
import { listOf, resourcesOf } from '../../../../src/records/mapping.ts';
import { fieldNamesOf } from '../../../../src/records/shown-fields.ts';
import { FeedReader } from '../../../support/feed.ts';
import {
  type Credentials,
  type RequestOptions,
  startGateway,
  type TestGateway,
} from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';
import { newReservation } from '../../../support/reservations.ts';

const fieldNames = fieldNamesOf(() => listOf(resourcesOf()));

type Collection = 'members' | 'quotes' | 'bookings';
type Shown = Record<string, unknown>;

const actions: Permission['actions'] = ['read', 'write', 'delete'];
const collections: Collection[] = ['members', 'quotes', 'bookings'];
const namesOf = (collection: Collection) => fieldNames(collection) as string[];
/** What a creation and a hand-off write. */
const written = ['trip_id', 'member_id', 'name', 'source', 'details'];
/** Parameters of lists, by the field that they are about. */
const filters: Record<Collection | 'reservations', Record<string, string>> = {
  members: { email: 'email', updated_since: 'updated_at' },
  quotes: {
    ...{ trip_id: 'trip_id', member_id: 'member_id', status: 'status' },
    ...{ consumer_id: 'created_by', updated_since: 'updated_at' },
  },
  bookings: {},
  reservations: { trip_id: 'trip_id', member_id: 'member_id', status: 'status', consumer_id: 'created_by' },
};
filters.bookings = filters.quotes;

let gateway: TestGateway;
before(async () => {
  gateway = await startGateway({
    ...{ CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' },
    ...{ COPY_ENABLED: 'true', COPY_DEFAULT_MAX_AGE_SECONDS: '60' },
  });
});
after(() => gateway.stop());

const send = (as: Credentials, path: string, options: RequestOptions = {}) =>
  gateway.request(path, {
    ...options,
    as,
    headers: { 'idempotency-key': randomUUID(), ...options.headers },
  });

async function permit(of: Credentials, permissions: Permission[]): Promise<void> {
  const options = { method: 'PATCH', as: gateway.admin, body: { permissions } };
  const response = await gateway.request(`/v1/admin/consumers/${of.id}`, options);
  assert.equal(response.status, 200, await response.text());
}

const newRecord = (mark: string) => ({
  ...{
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    name: `name ${mark}`,
    source: `source ${mark}`,
  },
  details: { mark: `details ${mark}`, big: 1 },
});

async function textOf(response: Response, status = 200): Promise<string> {
  const text = await response.text();
  assert.equal(response.status, status, text);
  return text;
}

describe('permissions that name fields', () => {
  /** All that one consumer wrote while it saw everything, with the keys of its requests. */
  async function writeAll(as: Credentials, mark: string, feed: FeedReader) {
    const record = newRecord(mark);
    const keys = { quote: randomUUID(), reservation: randomUUID() };
    const key = (name: keyof typeof keys) => ({ headers: { 'idempotency-key': keys[name] } });
    const quote = JSON.parse(
      await textOf(await send(as, '/v1/quotes', { body: record, ...key('quote') }), 201),
    ) as { id: string };
    const { trip_id, member_id, ...result } = record;
    const handOff = { type: 'booking', trip_id, member_id, result };
    const booking = JSON.parse(await textOf(await send(as, '/api/v1/handoff', { body: handOff }), 201)) as {
      external_id: string;
    };
    const order = { ...newReservation(gateway.org.memberId), name: `name ${mark}` };
    const reservation = JSON.parse(
      await textOf(await send(as, '/v1/reservations', { body: order, ...key('reservation') }), 201),
    ) as { id: string };
    const accepted = await send(as, '/api/v1/handoff', {
      body: { ...handOff, type: 'quote', member_id: randomUUID() },
      headers: { prefer: 'respond-async' },
    });
    const handoff = accepted.headers.get('location') ?? '';
    await textOf(accepted, 202);
    for (const [object, id] of [
      ['Quote__c', quote.id],
      ['Booking__c', booking.external_id],
    ] as const) {
      // Two changes within one poll are one event.
      await feed.until(({ type, resource }) => type.endsWith('.created') && resource.id === id);
      await gateway.org.edit(object, { External_Id__c: id }, { Status__c: `status ${mark}` });
    }
    return {
      record,
      order,
      keys,
      quote: quote.id,
      booking: booking.external_id,
      reservation: reservation.id,
      handoff,
    };
  }

  test('no way out shows another field, whichever they are', async () => {
    const feed = new FeedReader(gateway.request);
    const subset = (names: string[]) => fc.option(fc.subarray(names), { freq: 6, nil: undefined });
    const some = fc.record({
      ...{ members: subset(namesOf('members')), quotes: subset(namesOf('quotes')) },
      ...{ bookings: subset(namesOf('bookings')), isOwn: fc.boolean() },
    });
    const corner = { members: [], quotes: [], bookings: [], isOwn: true };
    for (const { isOwn, ...fields } of [corner, ...fc.sample(some, 5)]) {
      const permissionsOn = (resource: Collection, named: string[] | undefined): Permission => ({
        ...{ resource, actions },
        ...(isOwn && resource !== 'members' && { records: 'own' }),
        ...(named && { fields: named }),
      });
      const all = collections.map((one) => permissionsOn(one, undefined));
      const as = await gateway.newConsumer(...all);
      const mark = randomUUID().slice(0, 8);
      const made = await writeAll(as, mark, feed);
      for (const id of [made.quote, made.booking])
        await feed.until(({ data, resource }) => resource.id === id && data['status'] === `status ${mark}`);
      await feed.until(
        ({ type, resource }) => type === 'handoff.failed' && made.handoff.endsWith(resource.id),
      );
      await permit(
        as,
        collections.map((one) => permissionsOn(one, fields[one])),
      );
      await assertNarrow(as, fields, made, mark);
    }
  });

  type Entry = { kind: string; by: object | null; changes: { field: string }[] | null };
  type Named = Record<Collection, string[] | undefined>;
  type Made = Awaited<ReturnType<typeof writeAll>>;

  type Sees = (collection: Collection, name: string) => boolean;

  async function assertNarrow(as: Credentials, fields: Named, made: Made, mark: string): Promise<void> {
    const sees: Sees = (collection, name) => name === 'id' || (fields[collection]?.includes(name) ?? true);
    await assertReads(as, sees, made, mark);
    await assertFilters(as, sees, made);
    await assertWrites(as, sees, made);
    await assertReservations(as, sees, made);
    const { problem } = JSON.parse(await textOf(await send(as, made.handoff))) as { problem: Shown };
    if (fields.quotes) assert.equal(problem['errors'], undefined);
    await assertEvents(as, sees, made, fields);
    await assertHistories(as, sees, made, mark);
  }

  async function assertHistories(as: Credentials, sees: Sees, made: Made, mark: string): Promise<void> {
    const histories = [
      ['quotes', `/v1/quotes/${made.quote}`],
      ['quotes', made.handoff],
      ['bookings', `/v1/bookings/${made.booking}`],
      ['bookings', `/v1/reservations/${made.reservation}`],
    ] as const;
    for (const [collection, path] of histories) {
      const text = await textOf(await send(as, `${path}/history`));
      const { data } = JSON.parse(text) as { data: Entry[] };
      assert.equal(data[0]?.kind, 'requested');
      for (const { kind, by, changes } of data) {
        assert.ok(by === null || sees(collection, 'created_by'), text);
        const names = (changes ?? []).map(({ field }) => (field === 'step' ? 'status' : field));
        assert.ok(kind !== 'updated' || names.length > 0, text);
        assert.ok(
          names.every((name) => sees(collection, name)),
          text,
        );
      }
      if (!sees(collection, 'status')) assert.ok(!text.includes(`status ${mark}`), text);
    }
  }

  const assertShown = (sees: Sees, collection: Collection, shown: Shown) =>
    assert.deepEqual(
      Object.keys(shown),
      namesOf(collection).filter((name) => sees(collection, name)),
    );

  async function assertReads(as: Credentials, sees: Sees, made: Made, mark: string): Promise<void> {
    /** Values that are nowhere else. */
    const assertNoValues = (collection: Collection, text: string) => {
      for (const name of ['name', 'source', 'details', 'status'])
        if (!sees(collection, name)) assert.ok(!text.includes(`${name} ${mark}`), `${name} in ${text}`);
      if (!sees(collection, 'trip_id')) assert.ok(!text.includes(made.record.trip_id), `trip_id in ${text}`);
    };
    const of = { members: gateway.org.memberId, quotes: made.quote, bookings: made.booking };
    for (const collection of collections) {
      const path = `/v1/${collection}/${of[collection]}`;
      for (const headers of [{}, { 'cache-control': 'no-cache' }] as Record<string, string>[]) {
        const response = await send(as, path, { headers });
        const etag = response.headers.get('etag') ?? '';
        const text = await textOf(response);
        assertShown(sees, collection, JSON.parse(text) as Shown);
        assertNoValues(collection, text);
        const again = await send(as, path, { headers: { ...headers, 'if-none-match': etag } });
        assert.equal(again.status, 304);
        const page = await textOf(await send(as, `/v1/${collection}?limit=200`, { headers }));
        for (const shown of (JSON.parse(page) as { data: Shown[] }).data)
          assertShown(sees, collection, shown);
        assertNoValues(collection, page);
      }
    }
  }

  async function assertReservations(as: Credentials, sees: Sees, { reservation }: Made): Promise<void> {
    const one = JSON.parse(await textOf(await send(as, `/v1/reservations/${reservation}`))) as Shown;
    const { data } = JSON.parse(await textOf(await send(as, '/v1/reservations'))) as { data: Shown[] };
    const known = namesOf('bookings');
    for (const shown of [one, ...data]) {
      for (const name of Object.keys(shown))
        assert.ok(!known.includes(name) || sees('bookings', name), `${name} of a reservation`);
      assert.equal('dining' in shown, sees('bookings', 'details'));
      assert.equal('status' in (shown['booking'] as Shown), sees('bookings', 'status'));
    }
  }

  /** Every event that it ever had, as it is shown now. */
  async function assertEvents(as: Credentials, sees: Sees, made: Made, fields: Named): Promise<void> {
    const events = await new FeedReader(gateway.request, { as }).next();
    for (const { resource, type, data, data_omitted } of events) {
      const collection = `${resource.type}s` as Collection;
      if (!collections.includes(collection)) {
        const on = resource.type === 'reservation' || resource.id === made.booking ? 'bookings' : 'quotes';
        if (fields[on]) assert.deepEqual([data, data_omitted], [{ id: resource.id }, true]);
      } else if (type.endsWith('.deleted')) assert.deepEqual(data, { id: resource.id });
      else assertShown(sees, collection, data);
    }
    const seen = events.filter(({ resource }) => resource.id === made.quote).map(({ type }) => type);
    assert.deepEqual(seen, ['quote.created', ...(sees('quotes', 'status') ? ['quote.updated'] : [])]);
  }

  async function assertFilters(as: Credentials, sees: Sees, { record }: Made): Promise<void> {
    const values: Record<string, string> = {
      ...{
        trip_id: record.trip_id,
        member_id: record.member_id,
        status: 'confirmed',
        email: 'a@example.com',
      },
      ...{ consumer_id: as.id, updated_since: '2027-01-01T00:00:00.000Z' },
    };
    for (const [list, parameters] of Object.entries(filters)) {
      const collection = (list === 'reservations' ? 'bookings' : list) as Collection;
      for (const [parameter, field] of Object.entries(parameters)) {
        const response = await send(as, `/v1/${list}?${parameter}=${values[parameter]}`);
        if (sees(collection, field)) await textOf(response);
        else {
          const { required, detail } = await assertProblem(response, 403, 'permission_denied');
          assert.deepEqual(required, { resource: collection, action: 'read', field });
          assert.match(detail, new RegExp(`\\b${field}\\b`));
        }
      }
    }
    const byTrip = await send(as, `/v1/handoffs?trip_id=${record.trip_id}`);
    const isHidden = (['quotes', 'bookings'] as const).some((one) => !sees(one, 'trip_id'));
    assert.equal(byTrip.status, isHidden ? 403 : 200);
  }

  async function assertWrites(
    as: Credentials,
    sees: Sees,
    { record, order, keys, quote }: Made,
  ): Promise<void> {
    const repeat = { body: record, headers: { 'idempotency-key': keys.quote } };
    const refused = (collection: Collection) => written.find((name) => !sees(collection, name));
    const assertCreation = async (response: Response, resource: Collection) => {
      const field = refused(resource);
      if (field === undefined) return textOf(response, 201);
      const { required } = await assertProblem(response, 403, 'permission_denied');
      assert.deepEqual(required, { resource, action: 'write', field });
      return undefined;
    };
    // Stored while all was seen.
    const replay = await assertCreation(await send(as, '/v1/quotes', repeat), 'quotes');
    if (replay !== undefined)
      assert.deepEqual(
        Object.keys(JSON.parse(replay) as Shown),
        namesOf('quotes').filter((name) => sees('quotes', name)),
      );
    await assertCreation(await send(as, '/v1/quotes', { body: record }), 'quotes');
    const { trip_id, member_id, ...result } = record;
    for (const [type, resource] of [
      ['quote', 'quotes'],
      ['booking', 'bookings'],
    ] as const)
      await assertCreation(
        await send(as, '/api/v1/handoff', { body: { type, trip_id, member_id, result } }),
        resource,
      );
    const booked = { body: order, headers: { 'idempotency-key': keys.reservation } };
    const again = await assertCreation(await send(as, '/v1/reservations', booked), 'bookings');
    if (again !== undefined) assert.equal('created_by' in JSON.parse(again), sees('bookings', 'created_by'));
    const path = `/v1/quotes/${quote}`;
    for (const name of namesOf('quotes')) {
      const body = { [name]: name === 'details' ? { ...record.details } : ((record as Shown)[name] ?? 'x') };
      const response = await send(as, path, { method: 'PATCH', body });
      if (!sees('quotes', name)) await assertProblem(response, 403, 'permission_denied');
      else assert.equal(response.status, written.includes(name) ? 200 : 400);
    }
  }
});

test('every operation on what has fields is covered', () => {
  const known = [
    ...[
      'handOff',
      'listHandoffs',
      'getHandoff',
      'retryHandoff',
      'cancelHandoff',
      'approveHandoff',
      'rejectHandoff',
    ],
    // test/features/trips/api, test/features/records/api/included-member.test.ts
    ...['handOffTrip', 'checkHandoff', 'checkTripHandoff', 'getTrip', 'listMerchants'],
    ...['getQuoteHistory', 'getBookingHistory', 'getReservationHistory', 'getHandoffHistory'],
    ...['listMembers', 'getMember', 'listQuotes', 'createQuote', 'getQuote', 'changeQuote', 'deleteQuote'],
    ...['listBookings', 'createBooking', 'getBooking', 'changeBooking', 'deleteBooking'],
    ...[
      'listReservations',
      'createReservation',
      'getReservation',
      'cancelReservation',
      'getTableAvailability',
    ],
  ];
  const found = documentedRoutes().filter(({ permission }) =>
    /"(members|quotes|bookings)"/.test(JSON.stringify(permission)),
  );
  assert.deepEqual(new Set(found.map(({ operationId }) => operationId)), new Set(known));
});

describe('an entity tag of some fields', () => {
  test('changes with these alone, and a write with it is conditional', async () => {
    const as = await gateway.newConsumer({ resource: 'quotes', actions, fields: ['name', 'status'] });
    const full = await gateway.newConsumer({ resource: 'quotes', actions });
    const { id } = JSON.parse(
      await textOf(await send(full, '/v1/quotes', { body: newRecord('tag') }), 201),
    ) as { id: string };
    const path = `/v1/quotes/${id}`;
    const read = async (who: Credentials) =>
      (await send(who, path, { headers: { 'cache-control': 'no-cache' } })).headers.get('etag') ?? '';
    const [narrow, whole] = [await read(as), await read(full)];
    assert.notEqual(narrow, whole);
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Source__c: 'another' });
    assert.equal(await read(as), narrow);
    assert.notEqual(await read(full), whole);
    const unchanged = await send(as, path, {
      headers: { 'if-none-match': narrow, 'cache-control': 'no-cache' },
    });
    assert.equal(unchanged.status, 304);
    const write = (who: Credentials, tag: string, name: string, headers = {}) =>
      send(who, path, { method: 'PATCH', body: { name }, headers: { 'if-match': tag, ...headers } });
    await assertProblem(await write(full, narrow, 'x'), 412, 'precondition_failed');
    const key = { 'idempotency-key': randomUUID() };
    const won = await write(as, narrow, 'changed', key);
    const etag = won.headers.get('etag') ?? '';
    assert.deepEqual(JSON.parse(await textOf(won)), { id, name: 'changed', status: 'created' });
    assert.equal(await read(as), etag);
    await assertProblem(await write(as, narrow, 'later'), 412, 'precondition_failed');
    const replayed = await write(as, narrow, 'changed', key);
    assert.equal(replayed.headers.get('idempotent-replayed'), 'true');
    assert.equal(replayed.headers.get('etag'), etag);
    const removal = { method: 'DELETE', headers: { 'if-match': narrow } };
    await assertProblem(await send(as, path, removal), 412, 'precondition_failed');
    assert.equal((await send(as, path, { method: 'DELETE', headers: { 'if-match': etag } })).status, 204);
  });
});

describe('the administration of fields', () => {
  const create = (permissions: object[], as: Credentials = gateway.admin) =>
    gateway.request('/v1/admin/consumers', { as, body: { name: 'fields', permissions } });

  test('takes the names of answers, and shows them', async () => {
    const wanted = {
      resource: 'quotes',
      actions: ['read', 'write'],
      fields: ['name', 'status', 'created_by'],
    };
    const made = JSON.parse(await textOf(await create([wanted]), 201)) as { permissions: object[] };
    assert.deepEqual(made.permissions, [{ ...wanted, records: 'all' }]);
    const bad = await create([
      { resource: 'quotes', actions: ['read'], fields: ['name', 'consumer_id'] },
      { resource: 'webhooks', actions: ['read'], fields: ['url'] },
    ]);
    const wrong = ['#/permissions/0/fields/1', '#/permissions/1/fields'];
    await assertProblem(bad, 400, 'invalid_request', ...wrong);
  });

  test('grants no field that the caller lacks', async () => {
    const limited = await gateway.newConsumer(
      { resource: 'consumers', actions },
      { resource: 'quotes', actions, fields: ['name', 'status'] },
    );
    const grant = (fields: string[] | undefined) =>
      create([{ resource: 'quotes', actions: ['read'], ...(fields && { fields }) }], limited);
    await textOf(await grant(['id', 'name']), 201);
    for (const fields of [undefined, ['name', 'source']]) {
      const { detail } = await assertProblem(await grant(fields), 403, 'permission_denied');
      assert.match(detail, fields ? /on the field source/ : /on all fields/);
    }
  });
});
