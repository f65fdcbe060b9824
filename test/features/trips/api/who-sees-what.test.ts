import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import type { Permission } from '../../../../src/identity/consumers/consumer.ts';
import { type Credentials, type RequestOptions, useGateway } from '../../../support/gateway.ts';
import { respondAsync } from '../../../support/handoffs.ts';
import { callTool } from '../../../support/mcp.ts';
import { assertProblem } from '../../../support/problems.ts';

interface Trip {
  members: { id: string; first_name: string | null; last_name: string | null }[];
  quotes: { id: string; name?: string }[];
  bookings: { id: string }[];
  handoffs: { external_id: string; request: object | null }[];
}
interface TripAnswer {
  items: { status: string; external_id: string; problem?: { code: string } }[];
}

const all = ['read', 'write', 'delete'] as Permission['actions'];

describe('trips and who may see what', () => {
  const gateway = useGateway();

  const item = (name: string, change: object = {}) => ({
    type: 'quote',
    result: { name, source: 'hotelbeds', details: {} },
    ...change,
  });
  const trip = (items: object[], change: object = {}) => ({
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    items,
    ...change,
  });
  const answerTo = async <T = TripAnswer>(path: string, status: number, options: RequestOptions) => {
    const response = await gateway.request(path, options);
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as T;
  };
  const handOff = (body: object, as: Credentials, status = 201, headers = {}) =>
    answerTo('/api/v1/handoffs', status, { body, as, headers });
  const read = (tripId: string, as: Credentials) => answerTo<Trip>(`/v1/trips/${tripId}`, 200, { as });
  const testConsumer = async (permissions: object[]) =>
    (await (
      await gateway.request('/v1/admin/consumers', {
        as: gateway.admin,
        body: { name: 'Tester', mode: 'test', permissions },
      })
    ).json()) as Credentials;

  test('the same item of two consumers is two, and each sees its own in one trip', async () => {
    const own: Permission = { resource: 'quotes', actions: all, records: 'own' };
    const [first, second] = [await gateway.newConsumer(own), await gateway.newConsumer(own)];
    const body = trip([item('a', { reference: 'A', on_repeat: 'update' })]);
    const [made] = (await handOff(body, first)).items;
    const [other] = (await handOff(body, second)).items;
    assert.notEqual(made?.external_id, other?.external_id);
    await handOff({ ...body, items: [item('waits')] }, second, 202, respondAsync);
    assert.deepEqual(
      (await handOff(body, first, 200)).items.map(({ status }) => status),
      ['updated'],
    );
    const seen = await read(body.trip_id, first);
    assert.deepEqual(
      seen.quotes.map(({ id }) => id),
      [made?.external_id],
    );
    assert.deepEqual(seen.handoffs, []);
    await assertProblem(await gateway.request(`/v1/trips/${randomUUID()}`, { as: first }), 404, 'not_found');
    const bookings = await gateway.newConsumer({ resource: 'bookings', actions: all });
    await assertProblem(
      await gateway.request(`/v1/trips/${body.trip_id}`, { as: bookings }),
      404,
      'not_found',
    );
  });

  test('members are named only to who sees the member of what waits', async () => {
    const members: Permission = { resource: 'members', actions: ['read'] };
    const maker = await gateway.newConsumer({ resource: 'quotes', actions: all, approval: true });
    const body = trip([item('a')]);
    await handOff(body, maker, 202);
    const fields = ['trip_id', 'name'];
    const blind = await gateway.newConsumer({ resource: 'quotes', actions: all, fields }, members);
    const { members: hidden, handoffs } = await read(body.trip_id, blind);
    assert.deepEqual([hidden, handoffs.length, handoffs[0]?.request], [[], 1, null]);
    const seeing = await gateway.newConsumer({ resource: 'quotes', actions: all }, members);
    assert.deepEqual(
      (await read(body.trip_id, seeing)).members.map(({ id }) => id),
      [gateway.org.memberId],
    );
    const nameless = await gateway.newConsumer(
      { resource: 'quotes', actions: all },
      { resource: 'members', actions: ['read'], fields: ['last_name'] },
    );
    await handOff({ ...body, items: [item('b')] }, gateway.console);
    const [member] = (await read(body.trip_id, nameless)).members;
    assert.deepEqual([member?.first_name, member?.last_name], [null, 'Okafor']);
    const listed = await answerTo<{ data: { member: object }[] }>(
      `/v1/quotes?trip_id=${body.trip_id}&include=member`,
      200,
      { as: nameless },
    );
    assert.deepEqual(listed.data[0]?.member, { id: gateway.org.memberId, last_name: 'Okafor' });
  });

  test('a token does what its scopes allow, item by item', async () => {
    const { apiKey, apiSecret } = await gateway.newConsumer(
      { resource: 'quotes', actions: all },
      { resource: 'bookings', actions: all },
    );
    const tokenFor = async (scope: string) => {
      const response = await fetch(`${gateway.url}/oauth/token`, {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'client_credentials',
          client_id: apiKey,
          client_secret: apiSecret,
          scope,
        }),
      });
      return ((await response.json()) as { access_token: string }).access_token;
    };
    const by = async (scope: string): Promise<RequestOptions> => ({
      as: null,
      headers: { authorization: `Bearer ${await tokenFor(scope)}` },
    });
    const quotes = await by('quotes:write quotes:read');
    const mixed = trip([item('a'), item('b', { type: 'booking' })]);
    for (const path of ['/api/v1/handoffs', '/api/v1/handoffs/check'])
      assert.partialDeepStrictEqual(
        await assertProblem(
          await gateway.request(path, { ...quotes, body: mixed }),
          403,
          'permission_denied',
        ),
        { required: { resource: 'bookings', action: 'write' } },
      );
    await handOff(mixed, { id: '', apiKey, apiSecret });
    const { bookings, quotes: seen } = await answerTo<Trip>(`/v1/trips/${mixed.trip_id}`, 200, quotes);
    assert.deepEqual([bookings.length, seen.length], [0, 1]);
  });

  describe('with a test key', () => {
    const member = (end: string) => `00000000-0000-4000-8000-000000000${end}`;
    let as: Credentials;
    before(async () => {
      as = await testConsumer([
        { resource: 'members', actions: ['read'] },
        { resource: 'quotes', actions: all },
        { resource: 'bookings', actions: all },
      ]);
    });

    for (const [end, status, code] of [
      ['404', 422, 'member_not_found'],
      ['422', 422, 'crm_rejected'],
      ['503', 503, 'crm_unavailable'],
      ['429', 503, 'crm_quota_exhausted'],
      ['504', 504, 'crm_timeout'],
    ] as const) {
      for (const atomic of [true, false]) {
        test(`the member …${end} is ${code} where atomic is ${atomic}`, async () => {
          const body = trip([item('a'), item('b', { type: 'booking' })], { member_id: member(end), atomic });
          const response = await gateway.request('/api/v1/handoffs', { body, as });
          assert.equal(response.headers.get('handoff-mode'), 'test');
          const problem = (await response.json()) as { code: string; errors?: { pointer: string }[] };
          assert.deepEqual([response.status, problem.code], [status, code], JSON.stringify(problem));
          for (const { pointer } of problem.errors ?? [])
            assert.match(pointer, /^#\/(?:items\/\d|member_id$)/);
          const made = await gateway.request(`/v1/trips/${body.trip_id}`, { as });
          assert.equal(made.status, end === '504' ? 200 : 404);
        });
      }
    }

    test('a lost answer under a key is found again, once', async () => {
      const body = trip([item('a'), item('b')], { member_id: member('504') });
      const headers = { 'idempotency-key': randomUUID() };
      await handOff(body, as, 504, headers);
      await handOff(body, as, 201, headers);
      assert.equal((await read(body.trip_id, as)).quotes.length, 2);
    });

    test('a member who is served later has each item wait', async () => {
      const body = trip([item('a')], { member_id: member('202') });
      const { items } = await handOff(body, as, 202);
      assert.deepEqual(
        items.map(({ status }) => status),
        ['accepted'],
      );
      const explicit = { ...body, atomic: true };
      await assertProblem(
        await gateway.request('/api/v1/handoffs', { body: explicit, as }),
        400,
        'invalid_request',
        '#/atomic',
      );
      const { problems } = await answerTo<{ problems: { code: string }[] }>('/api/v1/handoffs/check', 200, {
        body: explicit,
        as,
      });
      assert.deepEqual(
        problems.map(({ code }) => code),
        ['invalid_request'],
      );
    });

    test('nothing of it is seen by live consumers', async () => {
      const [live] = (await answerTo<{ data: { id: string }[] }>('/v1/members?limit=1', 200, { as })).data;
      const body = trip([item('a')], { member_id: live?.id });
      await handOff(body, as);
      await assertProblem(await gateway.request(`/v1/trips/${body.trip_id}`), 404, 'not_found');
    });
  });

  test('tools check, hand off and read a trip, and say what was refused in words of tools', async () => {
    const as = await gateway.newConsumer(
      { resource: 'members', actions: ['read'] },
      { resource: 'quotes', actions: ['read', 'write'] },
    );
    const body = trip([item('a', { reference: 'A' }), item('b')]);
    const call = (name: string, given: object) => callTool(gateway.url, as, name, given);
    const checked = await call('check_hand_off', { ...body, items: [...body.items, item('')] });
    assert.equal(checked.structuredContent['ok'], false);
    const intent = randomUUID();
    for (let round = 0; round < 2; round++) {
      const { structuredContent, isError } = await call('hand_off_trip', { ...body, intent });
      assert.equal(isError, false, JSON.stringify(structuredContent));
      assert.deepEqual(
        (structuredContent as unknown as TripAnswer).items.map(({ status }) => status),
        ['created', 'created'],
      );
    }
    const seen = await call('get_trip', { trip_id: body.trip_id });
    assert.equal((seen.structuredContent as unknown as Trip).quotes.length, 2);
    const denied = await call('hand_off_trip', { ...body, items: [item('c', { type: 'booking' })] });
    assert.equal(denied.isError, true);
    assert.equal(denied.structuredContent['code'], 'permission_denied');
    const ended = await call('hand_off_trip', {
      ...body,
      items: [item('d', { valid_until: '2020-01-01T00:00:00Z' }), item('e')],
    });
    assert.equal(ended.structuredContent['code'], 'offer_expired');
    assert.doesNotMatch(JSON.stringify(ended.structuredContent), /Idempotency-Key|HTTP|header/);
    assert.match(JSON.stringify(ended.structuredContent), /items.0.valid_until/);
    const many = await call('hand_off_trip', { ...body, items: Array.from({ length: 26 }, () => item('x')) });
    assert.match(JSON.stringify(many.structuredContent), /at most 25 items/);
  });
});
