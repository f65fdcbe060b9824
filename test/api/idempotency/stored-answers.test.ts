import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { storesAnswers } from '../../../src/api/route.ts';
import { documentedRoutes } from '../../../src/app/routes.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { accept, offerFor } from '../../support/handoffs.ts';
import { callTool } from '../../support/mcp.ts';
import { recordFor } from '../../support/records.ts';
import { newReservation } from '../../support/reservations.ts';

/** What a request is about: the resource on whose permission it stands, the path, and the body. */
interface Request {
  resource: 'quotes' | 'bookings';
  id?: string;
  body?: object;
}

interface Answer {
  status: number;
  code: unknown;
  text: string;
  isRepeat: boolean;
}

const actions = ['read', 'write', 'delete'];
/** All that a request of these tests names, and not who made the record. */
const named = ['trip_id', 'member_id', 'name', 'source', 'details', 'status'];
const routes = documentedRoutes().filter(storesAnswers);

/** Over all routes that store answers, by the key and as a tool: what a repeat gets is what its caller may do and see then. */
describe('a stored answer', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600', CHANGES_MINIMUM_SECONDS: '3600' });
  /** Its hand-offs wait for approval. */
  let agent: Credentials;
  before(async () => {
    await gateway.org.untilDescribed();
    agent = await make('Hidden agent', [{ resource: 'quotes', actions, approval: true }]);
  });

  async function make(name: string, permissions: object[]): Promise<Credentials> {
    const body = { name, permissions };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    assert.equal(made.status, 201, await made.clone().text());
    return (await made.json()) as Credentials;
  }
  const permit = async ({ id }: Credentials, permissions: object[]) => {
    const path = `/v1/admin/consumers/${id}`;
    const changed = await gateway.request(path, {
      method: 'PATCH',
      as: gateway.admin,
      body: { permissions },
    });
    assert.equal(changed.status, 200, await changed.text());
  };
  const create = async (as: Credentials, path: string, body: object): Promise<string> => {
    const made = await gateway.request(path, { as, body, headers: { 'idempotency-key': randomUUID() } });
    const text = await made.text();
    assert.equal(made.status, 201, text);
    return (JSON.parse(text) as { id: string }).id;
  };
  const record = (as: Credentials, collection: string) =>
    create(as, `/v1/${collection}`, recordFor(gateway.org.memberId));
  const waiting = () => accept(gateway, {}, { as: agent });

  /** By name of the operation, a request of it that succeeds. A route without one fails below. */
  const requests: Record<string, (as: Credentials) => Promise<Request>> = {
    handOff: async () => ({ resource: 'quotes', body: offerFor(gateway.org.memberId) }),
    handOffTrip: async () => {
      const { trip_id, member_id, type, result } = offerFor(gateway.org.memberId);
      return { resource: 'quotes', body: { trip_id, member_id, items: [{ type, result }] } };
    },
    approveHandoff: async () => ({ resource: 'quotes', id: await waiting() }),
    rejectHandoff: async () => ({ resource: 'quotes', id: await waiting(), body: { reason: 'too dear' } }),
    createQuote: async () => ({ resource: 'quotes', body: recordFor(gateway.org.memberId) }),
    changeQuote: async (as) => ({
      ...{ resource: 'quotes', id: await record(as, 'quotes'), body: { name: 'Another' } },
    }),
    deleteQuote: async (as) => ({ resource: 'quotes', id: await record(as, 'quotes') }),
    createBooking: async () => ({ resource: 'bookings', body: recordFor(gateway.org.memberId) }),
    changeBooking: async (as) => ({
      ...{ resource: 'bookings', id: await record(as, 'bookings'), body: { name: 'Another' } },
    }),
    deleteBooking: async (as) => ({ resource: 'bookings', id: await record(as, 'bookings') }),
    createReservation: async () => ({
      ...{ resource: 'bookings', body: newReservation(gateway.org.memberId) },
    }),
    cancelReservation: async (as) => ({
      resource: 'bookings',
      id: await create(as, '/v1/reservations', newReservation(gateway.org.memberId)),
    }),
  };

  for (const route of routes) {
    const { operationId, method, path, tool, idempotencyKey } = route;

    const byKey = async (as: Credentials, { id = '', body }: Request, key: string): Promise<Answer> => {
      const headers = { 'idempotency-key': key };
      const response = await gateway.request(path.replace(/:\w+/, id), {
        ...{ method, as, headers, ...(body && { body }) },
      });
      const text = await response.text();
      const { code } = (text === '' ? {} : JSON.parse(text)) as { code?: unknown };
      const isRepeat = response.headers.get('idempotent-replayed') === 'true';
      return { status: response.status, code, text, isRepeat };
    };
    const byTool = async (as: Credentials, { id, body }: Request, intent: string): Promise<Answer> => {
      const [name] = path.match(/(?<=:)\w+/) ?? [];
      const given = { ...body, ...(name && { [name]: id }), intent };
      const { isError, structuredContent } = await callTool(gateway.url, as, tool?.name ?? '', given);
      const { status = 0, code, replayed } = structuredContent;
      return {
        status: isError ? (status as number) : 200,
        code,
        text: JSON.stringify(structuredContent),
        isRepeat: replayed === true,
      };
    };
    const doors = [
      ...(idempotencyKey === 'ignored' ? [] : [['under a key', byKey] as const]),
      ...(tool ? [['as a tool', byTool] as const] : []),
    ];

    for (const [how, send] of doors)
      test(`of ${operationId} ${how}`, async () => {
        const request = requests[operationId];
        assert.ok(request, 'this test has no request of it yet');
        const all = (['quotes', 'bookings'] as const).map((resource) => ({ resource, actions }));
        const as = await make(`Maker ${randomUUID()}`, all);
        const wanted = await request(as);
        const key = randomUUID();
        const first = await send(as, wanted, key);
        assert.ok(first.status < 300 && !first.isRepeat, first.text);
        const same = await send(as, wanted, key);
        assert.ok(same.status < 300 && same.isRepeat, same.text);

        const others = all.filter(({ resource }) => resource !== wanted.resource);
        const less = { resource: wanted.resource, actions: ['read'] };
        for (const permissions of [[...others, less], others, [...others, { ...less, fields: ['name'] }]]) {
          await permit(as, permissions);
          const refused = await send(as, wanted, key);
          assert.deepEqual([refused.status, refused.code], [403, 'permission_denied'], refused.text);
        }

        await permit(as, [...others, { resource: wanted.resource, actions, fields: named }]);
        const narrowed = await send(as, wanted, key);
        assert.ok(narrowed.status < 300 && narrowed.isRepeat, narrowed.text);
        assert.doesNotMatch(narrowed.text, /Hidden agent|created_by|created_at/);

        // Nothing of others exists for it, and of hand-offs that it decided on neither.
        await permit(as, [...others, { resource: wanted.resource, actions, records: 'own' }]);
        const own = await send(as, wanted, key);
        assert.ok(own.status < 300 || own.status === 404 || own.status === 422, own.text);
        assert.doesNotMatch(own.text, /Hidden agent/);

        await permit(as, all);
        const again = await send(as, wanted, key);
        assert.ok(again.isRepeat);
        assert.equal(again.text, same.text);
      });
  }

  test('is stored by the routes that these tests know, and by no other', () => {
    assert.deepEqual(routes.map(({ operationId }) => operationId).sort(), Object.keys(requests).sort());
  });
});
