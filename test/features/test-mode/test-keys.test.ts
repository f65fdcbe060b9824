import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { FeedReader } from '../../support/feed.ts';
import { type Credentials, type RequestOptions, startGateway, useGateway } from '../../support/gateway.ts';
import { callTool, listTools } from '../../support/mcp.ts';
import { tokenCalls } from '../../support/token-calls.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';
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

describe('test keys', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '1', CHANGES_MINIMUM_SECONDS: '1' });
  let own: Credentials;
  before(async () => {
    own = await makeConsumer(gateway);
  });

  /** As the test consumer, unless `as` says otherwise. */
  const send = (path: string, options: RequestOptions = {}) => sendTo(gateway, path, { as: own, ...options });
  const handOff = (member: string, headers: Record<string, string> = {}, others: object = {}) =>
    send('/api/v1/handoff', { body: handoffFor(member, others), headers });

  describe('consumers', () => {
    it('say what they are by their keys, and in every answer to them', async () => {
      assert.match(own.id, /^con_[0-9A-Za-z]{16}$/);
      assert.match(own.apiKey, /^hgkt_/);
      assert.match(own.apiSecret, /^hgst_/);
      for (const path of ['/v1/consumer', '/v1/quotes', '/v1/quotes/nothing', '/v1/admin/consumers']) {
        const { response } = await send(path);
        assert.equal(response.headers.get('handoff-mode'), 'test', path);
      }
      const live = await gateway.request('/v1/consumer');
      assert.equal(live.headers.get('handoff-mode'), null);
      assert.equal(((await live.json()) as Answer)['mode'], 'live');
      assert.equal((await send('/v1/consumer')).body['mode'], 'test');
    });

    it('say what they are in refusals too, also where nobody looks at them', async () => {
      const wrong = { ...own, apiSecret: `${own.apiSecret.slice(0, -1)}_` };
      const token = await gateway.request('/oauth/token', {
        as: null,
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          authorization: `Basic ${Buffer.from(`${own.apiKey}:${own.apiSecret}`).toString('base64')}`,
        },
        body: 'grant_type=client_credentials',
      });
      const authorization = `Bearer ${((await token.json()) as Answer)['access_token'] as string}`;
      for (const [path, status, options] of [
        ['/v1/quotes', 401, { as: wrong }],
        ['/v1/nothing', 404, {}],
        ['/v1/nothing', 404, { as: null, headers: { authorization } }],
        ['/v1/test/reset', 405, {}],
        ['/v1/quotes', 405, { as: null, headers: { authorization }, method: 'PUT' }],
        ['/v1/quotes', 400, { headers: { authorization } }],
        ['/v1/consumer', 200, { as: null, headers: { authorization } }],
      ] as const) {
        const { response } = await send(path, options);
        assert.equal(response.status, status, path);
        assert.equal(response.headers.get('handoff-mode'), 'test', `${status} ${path}`);
      }
      // A cache may give it to others.
      const { headers } = await gateway.request('/v1/docs', { as: own });
      assert.equal(headers.get('handoff-mode'), null);
    });

    it('are live unless they are asked for, and stay what they are', async () => {
      const permissions = [{ resource: 'quotes', actions: ['read'] }];
      const made = await send('/v1/admin/consumers', { as: gateway.admin, body: { name: 'A', permissions } });
      assert.equal(made.body['mode'], 'live');
      const changed = await send(`/v1/admin/consumers/${own.id}`, {
        as: gateway.admin,
        method: 'PATCH',
        body: { mode: 'live' },
      });
      assert.equal(changed.status, 400);
    });

    it('that administer see and make test consumers only', async () => {
      const permissions = [{ resource: 'consumers' as const, actions: ['read' as const, 'write' as const] }];
      const as = await makeConsumer(gateway, { permissions });
      const make = (mode?: string) =>
        send('/v1/admin/consumers', { as, body: { name: 'B', permissions, ...(mode && { mode }) } });
      assert.equal((await make('live')).body.code, 'permission_denied');
      assert.equal((await make('test')).body['mode'], 'test');
      const made = await make();
      assert.equal(made.body['mode'], 'test');
      const { data } = (await send('/v1/admin/consumers', { as })).body as { data?: Answer[] };
      assert.ok(data?.length);
      assert.ok(data?.every(({ mode }) => mode === 'test'));
      assert.equal((await send(`/v1/admin/consumers/${made.body.id}`, { as })).status, 200);
      for (const [method, path] of [
        ['GET', ''],
        ['PATCH', ''],
        ['POST', '/rotate'],
      ] as const) {
        const body = method === 'PATCH' ? { body: { name: 'C' } } : {};
        const answer = await send(`/v1/admin/consumers/${gateway.console.id}${path}`, {
          as,
          method,
          ...body,
        });
        assert.equal(answer.status, 404, `${method} ${path}`);
      }
      for (const list of ['auth-attempts', 'audit-events']) {
        const found = (await send(`/v1/admin/${list}?limit=200`, { as })).body as { data?: Answer[] };
        assert.ok(found.data?.length, list);
        assert.ok(
          found.data?.every(({ mode }) => mode === 'test'),
          list,
        );
      }
      assert.deepEqual((await send('/v1/admin/crm-usage', { as })).body, { data: [], total: 0 });
      assert.deepEqual((await send('/v1/admin/activity', { as })).body['series'], []);
    });

    it('see of the health of the service what is connected, and nothing else', async () => {
      const { tokenFor, withPair } = tokenCalls(gateway, gateway.url);
      const authorization = `Bearer ${await tokenFor(withPair(own))}`;
      for (const options of [{ as: own }, { as: null, headers: { authorization } }]) {
        const { status: _, ...parts } = (await send('/v1/healthz', options)).body;
        assert.ok('crm' in parts && 'database' in parts);
        for (const [name, part] of Object.entries(parts))
          assert.deepEqual(Object.keys(part as object), ['connected'], name);
      }
    });

    it('have no share of the calls to the CRM', async () => {
      const body = { crmShare: 10 };
      const path = `/v1/admin/consumers/${own.id}`;
      const { status } = await send(path, { as: gateway.admin, method: 'PATCH', body });
      assert.equal(status, 400);
    });

    it('are no administrators of live ones', async () => {
      const permissions = (['members', 'quotes', 'bookings', 'webhooks', 'consumers'] as const).map(
        (resource) => ({ resource, actions: ['read' as const, 'write' as const, 'delete' as const] }),
      );
      await makeConsumer(gateway, { permissions });
      const { body } = await send(`/v1/admin/consumers/${gateway.admin.id}`, {
        as: gateway.admin,
        method: 'DELETE',
      });
      assert.equal(body.code, 'conflict');
    });
  });

  describe('records', () => {
    it('are handed off, read, changed and deleted like live ones', async () => {
      const handedOff = await handOff(memberId, withKey());
      assert.equal(handedOff.status, 201);
      const path = String(handedOff.response.headers.get('location'));
      const read = await send(path);
      assert.equal(read.status, 200);
      assert.deepEqual(read.body['details'], { net: '612.40', big: 1 });
      assert.equal((read.body['created_by'] as Answer)['consumer_id'], own.id);
      const tag = String(read.response.headers.get('etag'));
      assert.equal((await send(path, { headers: { 'if-none-match': tag } })).status, 304);
      const change = (name: string) =>
        send(path, { method: 'PATCH', body: { name }, headers: { ...withKey(), 'if-match': tag } });
      assert.equal((await change('Another name')).status, 200);
      assert.equal((await change('A third name')).status, 412);
      const trip = String(read.body['trip_id']);
      const listed = await send(`/v1/quotes?trip_id=${trip}&member_id=${memberId}`);
      assert.deepEqual(
        (listed.body['data'] as Answer[]).map(({ name }) => name),
        ['Another name'],
      );
      assert.equal((await send(path, { method: 'DELETE', headers: withKey() })).status, 204);
      assert.equal((await send(path)).status, 404);
    });

    it('of one item are made once, and updated by all others, however many come at once', async () => {
      const item = { trip_id: randomUUID(), reference: 'HB-9', on_repeat: 'update' };
      const answers = await Promise.all(
        ['Hotel Mar', 'Hotel Sol', 'Hotel Luna', 'Hotel Norte'].map((name) =>
          handOff(memberId, withKey(), { ...item, result: { name, source: 'hotelbeds', details: {} } }),
        ),
      );
      const outcomes = answers.map(({ body: { status } }) => status).toSorted();
      assert.deepEqual(outcomes, ['created', 'updated', 'updated', 'updated']);
    });

    it('are made once under a key', async () => {
      const options = { body: recordFor(memberId), headers: withKey() };
      const [first, second] = [await send('/v1/bookings', options), await send('/v1/bookings', options)];
      assert.equal(first.status, 201);
      assert.deepEqual(second.body, first.body);
      assert.equal(second.response.headers.get('idempotent-replayed'), 'true');
      assert.equal(second.response.headers.get('handoff-mode'), 'test');
    });

    it('have the members of the simulated org', async () => {
      const { body } = await send('/v1/members?limit=200');
      assert.equal((body['data'] as Answer[]).length, 100);
      const live = (await (await gateway.request(`/v1/members/${memberId}`)).json()) as Answer;
      const { created_at: _a, updated_at: _b, ...member } = (await send(`/v1/members/${memberId}`)).body;
      for (const [name, value] of Object.entries(member)) assert.equal(live[name], value, name);
      assert.equal((await send(`/v1/members/${randomUUID()}`)).status, 404);
    });

    it('have members that no cache mixes with live ones', async () => {
      const read = async (id: string, as: Credentials) => (await send(`/v1/members/${id}`, { as })).status;
      for (const id of [faultyMember('422'), randomUUID()]) {
        const expected = id === faultyMember('422') ? 200 : 404;
        for (const _ of [1, 2]) {
          assert.equal(await read(id, own), expected);
          assert.equal(await read(id, gateway.console), 404);
        }
      }
      const id = randomUUID();
      await gateway.org.insert('Contact', [{ LastName: 'Live', External_Id__c: id }]);
      for (const _ of [1, 2]) {
        assert.equal(await read(id, gateway.console), 200);
        assert.equal(await read(id, own), 404);
      }
    });

    it('do not exist for live consumers and other test consumers, nor theirs for them', async () => {
      const another = await makeConsumer(gateway);
      const makers = [own, another, gateway.console];
      const paths = await Promise.all(
        makers.map(async (as) => {
          const made = await send('/v1/quotes', { as, body: recordFor(memberId), headers: withKey() });
          assert.equal(made.status, 201);
          return String(made.response.headers.get('location'));
        }),
      );
      for (const [maker, path] of paths.entries()) {
        for (const [reader, as] of makers.entries()) {
          assert.equal((await send(path, { as })).status, reader === maker ? 200 : 404);
          const { body } = await send('/v1/quotes?limit=200', { as });
          const ids = (body['data'] as Answer[]).map(({ id }) => `/v1/quotes/${id}`);
          assert.equal(ids.includes(path), reader === maker);
          if (reader === maker) continue;
          const change = { as, method: 'PATCH', body: { name: 'x' }, headers: withKey() };
          assert.equal((await send(path, change)).status, 404);
          assert.equal((await send(path, { as, method: 'DELETE', headers: withKey() })).status, 404);
        }
      }
    });
  });

  describe('events', () => {
    it('report what the test consumer writes, to it alone', async () => {
      const made = await send('/v1/quotes', { body: recordFor(memberId), headers: withKey() });
      const id = String(made.body.id);
      const path = `/v1/quotes/${id}`;
      await send(path, { method: 'PATCH', body: { name: 'Another' }, headers: withKey() });
      await send(path, { method: 'PATCH', body: { name: 'Another' }, headers: withKey() });
      await send(path, { method: 'DELETE', headers: withKey() });
      const live = await send('/v1/quotes', {
        as: gateway.console,
        body: recordFor(memberId),
        headers: withKey(),
      });
      const liveFeed = new FeedReader(gateway.request, { as: gateway.console });
      await liveFeed.until(({ resource }) => resource.id === live.body.id);
      assert.deepEqual(liveFeed.typesOf(id), []);
      const feed = new FeedReader(gateway.request, { as: own });
      const events = await feed.next();
      assert.deepEqual(feed.typesOf(id), ['quote.created', 'quote.updated', 'quote.deleted']);
      assert.deepEqual(feed.typesOf(String(live.body.id)), []);
      assert.ok(events.every((event) => (event as unknown as Answer)['mode'] === 'test'));
      const created = events.find(({ resource }) => resource.id === id);
      assert.deepEqual(created?.data, made.body);
      assert.ok(liveFeed.events.every((event) => !('mode' in event)));
    });
  });

  describe('webhooks', () => {
    it('bring the events of a world to its consumer, and no others to it', async (t) => {
      const receivers = { test: await startWebhookReceiver(), live: await startWebhookReceiver() };
      t.after(async () => {
        for (const receiver of Object.values(receivers)) receiver.stop();
      });
      const body = ({ url }: { url: string }) => ({ url, event_types: ['quote.*'] });
      const both = { test: own, live: gateway.console };
      for (const side of ['test', 'live'] as const) {
        const options = { as: both[side], body: body(receivers[side]) };
        assert.equal((await send('/v1/webhook-endpoints', options)).status, 201);
      }
      const make = async (as: Credentials) =>
        String((await send('/v1/quotes', { as, body: recordFor(memberId), headers: withKey() })).body.id);
      const ids = { test: await make(own), live: await make(gateway.console) };
      for (const side of ['test', 'live'] as const) {
        const [received] = await receivers[side].until(1);
        assert.equal(received?.event.resource.id, ids[side]);
        const { mode } = JSON.parse(received?.body ?? '') as { mode?: string };
        assert.equal(mode, side === 'test' ? 'test' : undefined);
      }
      // Deliveries are made in the order of events: what was to come first has come.
      assert.deepEqual([receivers.test.received.length, receivers.live.received.length], [1, 1]);
    });
  });

  describe('accepted hand-offs', () => {
    const until = async (path: string, status: string) => {
      return eventually(async () => {
        const { body } = await send(path);
        assert.equal(body['status'], status, JSON.stringify(body));
        return body;
      });
    };

    it('are delivered into the world', async () => {
      const { status, body, response } = await handOff(memberId, { prefer: 'respond-async' });
      assert.equal(status, 202);
      await until(String(response.headers.get('location')), 'created');
      assert.equal((await send(`/v1/quotes/${body.external_id}`)).status, 200);
      assert.equal((await send(`/v1/handoffs/${body.external_id}`, { as: gateway.console })).status, 404);
      const { data } = (await send('/v1/handoffs?limit=200', { as: gateway.console })).body;
      assert.deepEqual(data, []);
    });

    it('may be approved by their maker', async () => {
      const actions: ('read' | 'write')[] = ['read', 'write'];
      const as = await makeConsumer(gateway, {
        permissions: [{ resource: 'quotes', actions, approval: true }],
      });
      const wait = async () => {
        const made = await send('/api/v1/handoff', { as, body: handoffFor(memberId) });
        assert.equal(made.body['status'], 'awaiting_approval');
        return `/v1/handoffs/${made.body.external_id}`;
      };
      const [first, second] = [await wait(), await wait()];
      const approved = await send(`${first}/approve`, { as, method: 'POST' });
      assert.equal(approved.status, 202);
      assert.equal((approved.body['approval'] as Answer)['status'], 'approved');
      const rejected = await send(`${second}/reject`, { as, body: { reason: 'Too dear.' } });
      assert.equal(rejected.body['status'], 'rejected');
      const tools = (await listTools(gateway.url, as)).map(({ name }) => name);
      assert.ok(tools.includes('approve_hand_off'), tools.join());
      const external_id = String((await wait()).split('/').at(-1));
      const { isError } = await callTool(gateway.url, as, 'approve_hand_off', { externalId: external_id });
      assert.equal(isError, false);
    });

    it('come about by a fixed member, and wait a little', async () => {
      const { status, response, body } = await handOff(faultyMember('202'));
      assert.equal(status, 202);
      assert.equal(body['status'], 'accepted');
      const done = await until(String(response.headers.get('location')), 'created');
      const waited = Date.parse(String(done['completed_at'])) - Date.parse(String(done['accepted_at']));
      assert.ok(waited >= 5000, String(waited));
      const ordinary = { body: recordFor(faultyMember('202')), headers: withKey() };
      assert.equal((await send('/v1/quotes', ordinary)).status, 201);
    });
  });

  describe('faults', () => {
    for (const [end, status, code] of [
      ['404', 422, 'member_not_found'],
      ['422', 422, 'crm_rejected'],
      ['503', 503, 'crm_unavailable'],
      ['429', 503, 'crm_quota_exhausted'],
      ['504', 504, 'crm_timeout'],
    ] as const) {
      it(`of members that end in ${end} are the same for each way to write`, async () => {
        for (const attempt of [1, 2]) {
          const answer = await handOff(faultyMember(end), withKey());
          assert.deepEqual([answer.status, answer.body.code], [status, code], `attempt ${attempt}`);
        }
        for (const path of ['/v1/quotes', '/v1/bookings']) {
          const options = { body: recordFor(faultyMember(end)), headers: withKey() };
          const answer = await send(path, options);
          assert.deepEqual([answer.status, answer.body.code], [status, code], path);
          if (status === 503) assert.ok(Number(answer.response.headers.get('retry-after')) > 0);
          const again = await send(path, options);
          assert.deepEqual(again.status, end === '504' ? 201 : status, path);
        }
      });
    }

    it('of a trip leave its outcome unknown until the repeat', async () => {
      const { type, result, ...trip } = handoffFor(faultyMember('504'));
      const items = [
        { type, result },
        { type: 'booking', result },
      ];
      const options = { body: { ...trip, items }, headers: withKey() };
      const { status, body } = await send('/api/v1/handoffs', options);
      assert.deepEqual([status, body.code], [504, 'crm_timeout']);
      const again = await send('/api/v1/handoffs', options);
      assert.equal(again.status, 201);
      const { body: made } = await send(`/v1/trips/${String(trip['trip_id'])}`);
      assert.deepEqual([(made['quotes'] as []).length, (made['bookings'] as []).length], [1, 1]);
    });

    it('are no errors in the log', () => {
      assert.ok(gateway.logLines.some(({ message }) => message === 'the request failed'));
      assert.deepEqual(
        gateway.logLines.filter(({ level }) => level === 'error'),
        [],
      );
    });

    it('are met by each change of a record', async () => {
      const creation = { body: recordFor(faultyMember('504')), headers: withKey() };
      assert.equal((await send('/v1/quotes', creation)).status, 504);
      const path = `/v1/quotes/${(await send('/v1/quotes', creation)).body.id}`;
      for (const name of ['A', 'B']) {
        const options = {
          method: 'PATCH',
          body: { name, member_id: faultyMember('504') },
          headers: withKey(),
        };
        assert.equal((await send(path, options)).status, 504, name);
        assert.equal((await send(path)).body['name'], name);
        const again = await send(path, options);
        assert.deepEqual([again.status, again.body['name']], [200, name]);
      }
    });

    it('mean nothing for live consumers', async () => {
      for (const end of ['202', '503']) {
        const { body } = await send('/api/v1/handoff', {
          as: gateway.console,
          body: handoffFor(faultyMember(end)),
        });
        assert.equal(body.code, 'member_not_found');
      }
    });
  });
});

describe('test keys that are turned off', () => {
  it('are refused', async (t) => {
    const gateway = await startGateway({ TEST_KEYS_ENABLED: 'false' });
    t.after(async () => {
      await gateway.stop();
    });
    const as = await makeConsumer(gateway);
    assert.equal((await gateway.request('/v1/quotes', { as })).status, 401);
    assert.equal((await gateway.request('/v1/quotes')).status, 200);
    const { ask, withPair, askWithAssertion, newPartner } = tokenCalls(gateway, gateway.url);
    const basic = Buffer.from(`${as.apiKey}:${as.apiSecret}`).toString('base64');
    for (const refused of [
      await ask(withPair(as)),
      await ask({}, { authorization: `Basic ${basic}` }),
      await askWithAssertion(await newPartner('ES256', { mode: 'test' })),
    ]) {
      assert.equal(refused.status, 401);
      assert.equal(((await refused.json()) as Answer)['error'], 'invalid_client');
    }
    assert.equal((await ask(withPair(gateway.console))).status, 200);
    assert.equal((await askWithAssertion(await newPartner())).status, 200);
  });
});
