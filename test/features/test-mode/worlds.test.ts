import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { slotInDays } from '../../support/dining-partner.ts';
import { FeedReader } from '../../support/feed.ts';
import { type Credentials, type RequestOptions, startGateway, useGateway } from '../../support/gateway.ts';
import { newReservation } from '../../support/reservations.ts';
import {
  type Answer,
  faultyMember,
  handoffFor,
  makeConsumer,
  memberId,
  recordFor,
  sendTo,
  withKey,
} from './worlds.ts';

interface Parameter {
  in: string;
  name: string;
  required?: boolean;
  example?: unknown;
}

interface Operation {
  parameters: (Parameter & { $ref?: string })[];
  requestBody?: { content: { 'application/json': { example: object } } };
}

interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { parameters: Record<string, Parameter> };
}

describe('worlds of test consumers', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600', CHANGES_MINIMUM_SECONDS: '3600' });
  let own: Credentials;
  before(async () => {
    own = await makeConsumer(gateway);
  });

  /** As the test consumer, unless `as` says otherwise. */
  const send = (path: string, options: RequestOptions = {}) => sendTo(gateway, path, { as: own, ...options });

  describe('their size', () => {
    const longText = 'x'.repeat(1_000_000);
    const large = (as: Credentials) =>
      send('/v1/quotes', {
        as,
        body: recordFor(memberId, { details: { longText } }),
        headers: withKey(),
      });

    it('is 64 MiB at most, of which nothing counts that is deleted', async () => {
      const as = await makeConsumer(gateway);
      const small = await send('/v1/quotes', { as, body: recordFor(memberId), headers: withKey() });
      const trip_id = randomUUID();
      const updateItem = (details: object) => {
        const result = { name: 'a', source: 'b', details };
        const items = [{ type: 'quote', reference: 'A', on_repeat: 'update', result }];
        return send('/api/v1/handoffs', { as, body: { trip_id, member_id: memberId, items } });
      };
      assert.equal((await updateItem({})).status, 201);
      const change = (details: object) =>
        send(`/v1/quotes/${small.body.id}`, { as, method: 'PATCH', body: { details }, headers: withKey() });
      const remove = ({ body: { id } }: { body: Answer }) =>
        send(`/v1/quotes/${id}`, { as, method: 'DELETE', headers: withKey() });
      const made = [await large(as)];
      while (made.at(-1)?.status === 201) made.push(...(await Promise.all([1, 2, 3].map(() => large(as)))));
      const created = made.filter(({ status }) => status === 201);
      const bytes = created.length * longText.length;
      assert.ok(bytes > 63 * 1024 * 1024 && bytes <= 64 * 1024 * 1024, String(bytes));
      for (const refused of [await large(as), await change({ longText }), await updateItem({ longText })]) {
        assert.equal(refused.status, 422);
        assert.equal(refused.body.code, 'crm_rejected');
      }
      assert.equal((await change({ net: '1' })).status, 200);
      // However often something is made and deleted, there is as much room.
      for (const one of created.slice(0, 5)) {
        assert.equal((await remove(one)).status, 204);
        assert.equal((await large(as)).status, 201);
      }
      assert.equal((await large(as)).status, 422);
      assert.equal((await remove(created.at(-1) as { body: Answer })).status, 204);
      assert.equal((await change({ longText })).status, 200);
      assert.equal((await send('/v1/test/reset', { as, method: 'POST' })).status, 204);
      assert.equal((await large(as)).status, 201);
    });
  });

  describe('reservations', () => {
    it('are made at the double of the partner, read and cancelled', async () => {
      const wanted = newReservation(memberId);
      const made = await send('/v1/reservations', { body: wanted, headers: withKey() });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      assert.equal(made.body['status'], 'confirmed');
      const path = `/v1/reservations/${made.body.id}`;
      assert.equal((await send(path)).body['status'], 'confirmed');
      assert.equal((await send(path, { as: gateway.console })).status, 404);
      const listed = await send('/v1/reservations', { as: gateway.console });
      assert.deepEqual(listed.body['data'], []);
      assert.equal((await send(`/v1/bookings/${made.body.id}`)).body['status'], 'confirmed');
      const held = await send(`/v1/bookings/${made.body.id}`, { method: 'DELETE', headers: withKey() });
      assert.equal(held.body.code, 'conflict');
      assert.equal((await send(path, { method: 'DELETE', headers: withKey() })).status, 204);
      assert.equal((await send(path)).body['status'], 'cancelled');
      assert.deepEqual(await gateway.diningPartner.bookings(), []);
      assert.deepEqual(await gateway.org.records('Booking__c'), []);
    });

    it('are refused where there is no such table', async () => {
      const { dining } = newReservation(memberId) as { dining: Record<string, unknown> };
      for (const others of [{ merchant_id: 'another' }, { start_at: slotInDays(30).replace('T19', 'T03') }]) {
        const body = { ...newReservation(memberId), dining: { ...dining, ...others } };
        const answer = await send('/v1/reservations', { body, headers: withKey() });
        assert.equal(answer.body.code, 'partner_rejected');
      }
    });

    it('have each seat once, however many want it at the same time', async () => {
      const as = await makeConsumer(gateway);
      const body = newReservation(memberId, { party_size: 20 });
      const made = await Promise.all(
        Array.from({ length: 12 }, () => send('/v1/reservations', { as, body, headers: withKey() })),
      );
      const codes = made.map(({ status, body: { code } }) => code ?? status).sort();
      assert.deepEqual(codes, [...Array(5).fill(201), ...Array(7).fill('partner_rejected')]);
    });

    it('count in no metric of live ones', async () => {
      const text = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
      assert.doesNotMatch(text, /^handoff_reservation_outcomes_total\{outcome="confirmed"\} [1-9]/m);
      assert.match(text, /^handoff_test_requests_total\{.*\} [1-9]/m);
    });

    it('fill the tables of one world only', async () => {
      const body = newReservation(memberId, { party_size: 50 });
      const { start_at } = body['dining'] as { start_at: string };
      const isFree = async (as: Credentials) => {
        const query = new URLSearchParams({
          ...{ merchant_id: 'casa-olivo-7', service_id: 'table', start_at, party_size: '1' },
        });
        const answer = await send(`/v1/reservations/availability?${query.toString()}`, { as });
        assert.equal(answer.status, 200, JSON.stringify(answer.body));
        return answer.body['available'];
      };
      for (const _ of [1, 2])
        assert.equal((await send('/v1/reservations', { body, headers: withKey() })).status, 201);
      assert.equal(await isFree(own), false);
      assert.equal(await isFree(await makeConsumer(gateway)), true);
      assert.equal(await isFree(gateway.console), true);
    });
  });

  describe('events of hand-offs', () => {
    it('have the member and the record of the world beside them', async () => {
      const [as, other] = [await makeConsumer(gateway), await makeConsumer(gateway)];
      const headers = { prefer: 'respond-async' };
      const { status, body } = await send('/api/v1/handoff', { as, body: handoffFor(memberId), headers });
      assert.equal(status, 202);
      const id = String(body.external_id);
      const feed = new FeedReader(gateway.request, { as });
      await feed.until(({ type, resource }) => type === 'handoff.created' && resource.id === id);
      const path = `/v1/events?include=member&include=record&type=handoff.created&resource_id=${id}`;
      const read = async (reader: Credentials) =>
        (await send(path, { as: reader })).body['data'] as Record<string, Answer>[];
      const [event] = await read(as);
      assert.equal(event?.['member']?.id, memberId);
      assert.deepEqual([event?.['record']?.id, event?.['record']?.['name']], [id, 'Hotel Miramar']);
      for (const reader of [other, gateway.admin]) assert.deepEqual(await read(reader), []);
    });
  });

  describe('the examples of the documentation', () => {
    const sample = '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f';
    const collections = ['quotes', 'bookings'];
    const listed = async (as: Credentials, collection: string) =>
      (await send(`/v1/${collection}`, { as })).body['data'];

    /** Of each operation on members, quotes and bookings: as it is, and with each filter. What is deleted is needed before. */
    async function exampleRequests() {
      const { paths, components } = (await send('/v1/docs')).body as unknown as Document;
      const operations = Object.entries(paths)
        .filter(([path]) => /^\/v1\/(members|quotes|bookings)\b/.test(path))
        .flatMap(([path, methods]) => Object.entries(methods).map((one) => ({ path, one })));
      const requests = operations.flatMap(({ path, one: [method, { parameters, requestBody }] }) => {
        const all = parameters.map((one) => components.parameters[one.$ref?.split('/').at(-1) ?? ''] ?? one);
        const filled = path.replace(/\{(\w+)\}/, (_, name) =>
          String(all.find((one) => one.name === name)?.example),
        );
        // A cursor is good for the list that it came from.
        const filters = all.filter((one) => one.in === 'query' && one.name !== 'cursor');
        const queries = filters.map(
          ({ name, example }) => `?${new URLSearchParams({ [name]: String(example) }).toString()}`,
        );
        const body = requestBody?.content['application/json'].example;
        return ['', ...queries].map((query) => ({
          method: method.toUpperCase(),
          path: filled + query,
          body,
        }));
      });
      return requests.toSorted((a, b) => Number(a.method === 'DELETE') - Number(b.method === 'DELETE'));
    }

    it('work as they stand', async () => {
      const as = await makeConsumer(gateway);
      const requests = await exampleRequests();
      assert.ok(requests.length > 30, String(requests.length));
      for (const { method, path, body } of requests) {
        const options = { as, method, ...(body && { body }), headers: withKey() };
        const answer = await send(path, options);
        assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      }
    });

    it('name records that are made when they are asked for', async () => {
      const permissions = (['quotes', 'bookings'] as const).map((resource) => ({
        ...{ resource, actions: ['read' as const], records: 'own' as const },
      }));
      const as = await makeConsumer(gateway, { permissions });
      for (const collection of collections) {
        assert.deepEqual(await listed(as, collection), []);
        const path = `/v1/${collection}/${sample}`;
        const answers = await Promise.all([1, 2, 3].map(() => send(path, { as })));
        const [{ body } = { body: {} as Answer }] = answers;
        assert.deepEqual(
          answers.map((answer) => answer.body),
          [body, body, body],
        );
        assert.equal(body.id, sample);
        assert.equal(body['member_id'], memberId);
        assert.equal(body['status'], 'created');
        assert.equal((body['details'] as Answer)['nights'], 3);
        assert.equal((body['created_by'] as Answer)['consumer_id'], as.id);
        assert.deepEqual(await listed(as, collection), [body]);
        assert.equal((await send(path, { as: gateway.admin })).status, 404);
      }
      assert.deepEqual((await send('/v1/events', { as })).body['data'], []);
    });

    it('stay deleted until the reset', async () => {
      const as = await makeConsumer(gateway);
      for (const collection of collections) {
        const path = `/v1/${collection}/${sample}`;
        assert.equal((await send(path, { as, method: 'DELETE', headers: withKey() })).status, 204);
        assert.equal((await send(path, { as })).status, 404);
        assert.equal((await send('/v1/test/reset', { as, method: 'POST' })).status, 204);
        assert.deepEqual(await listed(as, collection), []);
        assert.equal((await send(path, { as })).status, 200);
      }
    });
  });

  describe('the reset', () => {
    it('empties the world, and leaves keys and events', async () => {
      const as = await makeConsumer(gateway);
      const key = withKey();
      const body = recordFor(memberId);
      const made = await send('/v1/quotes', { as, body, headers: key });
      const reserved = await send('/v1/reservations', {
        as,
        body: newReservation(memberId),
        headers: withKey(),
      });
      const accepted = await send('/api/v1/handoff', { as, body: handoffFor(faultyMember('202')) });
      const other = await send('/v1/quotes', { body: recordFor(memberId), headers: withKey() });
      assert.equal((await send('/v1/test/reset', { as, method: 'POST' })).status, 204);
      for (const path of [
        `/v1/quotes/${made.body.id}`,
        `/v1/reservations/${reserved.body.id}`,
        `/v1/bookings/${reserved.body.id}`,
        `/v1/handoffs/${accepted.body.external_id}`,
      ])
        assert.equal((await send(path, { as })).status, 404, path);
      assert.equal((await send(`/v1/quotes/${other.body.id}`)).status, 200);
      const again = await send('/v1/quotes', { as, body, headers: key });
      assert.equal(again.status, 201);
      assert.notEqual(again.body.id, made.body.id);
      const feed = new FeedReader(gateway.request, { as });
      await feed.next();
      assert.deepEqual(feed.typesOf(String(made.body.id)), ['quote.created']);
    });

    it('waits for reservations that are just being made', async () => {
      const as = await makeConsumer(gateway);
      const made = Array.from({ length: 8 }, () =>
        send('/v1/reservations', { as, body: newReservation(memberId), headers: withKey() }),
      );
      await Promise.race(made);
      assert.equal((await send('/v1/test/reset', { as, method: 'POST' })).status, 204);
      await Promise.all(made);
      // Whatever came after the reset is whole.
      const idsIn = async (path: string) =>
        ((await send(`${path}?limit=200`, { as })).body['data'] as Answer[]).map(({ id }) => id).sort();
      assert.deepEqual(await idsIn('/v1/bookings'), await idsIn('/v1/reservations'));
    });

    it('needs no permission, and is not there for live consumers', async () => {
      const as = await makeConsumer(gateway, { permissions: [{ resource: 'members', actions: ['read'] }] });
      assert.equal((await send('/v1/test/reset', { as, method: 'POST' })).status, 204);
      const live = await send('/v1/test/reset', { as: gateway.admin, method: 'POST' });
      assert.equal(live.body.code, 'not_found');
    });
  });
});

describe('the reset of a world where repeats count without a key', () => {
  it('begins again for these, too', async (t) => {
    const gateway = await startGateway({ HANDOFF_REPEAT_WINDOW_SECONDS: '600' });
    t.after(async () => {
      await gateway.stop();
    });
    const as = await makeConsumer(gateway);
    const body = handoffFor(memberId);
    const handOff = async () =>
      (await (await gateway.request('/api/v1/handoff', { as, body })).json()) as Answer;
    const first = await handOff();
    assert.deepEqual(await handOff(), first);
    assert.equal((await gateway.request('/v1/test/reset', { as, method: 'POST' })).status, 204);
    const again = await handOff();
    assert.equal(again['status'], 'created');
    assert.notEqual(again.external_id, first.external_id);
  });
});
