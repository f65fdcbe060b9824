import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { type TestGateway, useGateway } from '../../../support/gateway.ts';
import {
  type AcceptedHandoff,
  accept,
  offerFor,
  readHandoff,
  respondAsync,
  untilHandoff,
} from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';

/** For all operations: creates of several records are another one than those of a single record. */
const down = { match: {}, effect: { kind: 'down' } };
const refused = {
  match: { operation: 'create' },
  effect: {
    kind: 'recordError',
    errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION',
    message: 'Name__c is not nice',
  },
};

describe('hand-offs that are accepted and delivered later', () => {
  const gateway = useGateway();
  afterEach(() => gateway.org.disarm());

  const recordsOf = (externalId: string, object = 'Quote__c') =>
    gateway.org.records(object, { External_Id__c: externalId });
  const untilGone = async (externalId: string) => {
    await eventually(async () => assert.ok((await recordsOf(externalId)).length <= 0), { everyMs: 50 });
  };
  const send = (headers: Record<string, string> = {}, body: object = offerFor(gateway.org.memberId)) =>
    gateway.request('/api/v1/handoff', { body, headers });

  for (const type of ['quote', 'booking']) {
    test(`a ${type} is answered 202 at once, and made once`, async () => {
      const response = await send(respondAsync, offerFor(gateway.org.memberId, { type }));
      assert.equal(response.status, 202);
      const body = (await response.json()) as { external_id: string };
      assert.deepEqual(body, { type, status: 'accepted', external_id: body.external_id });
      assert.equal(response.headers.get('location'), `/v1/handoffs/${body.external_id}`);
      assert.equal(response.headers.get('preference-applied'), 'respond-async');
      const made = await untilHandoff(gateway, body.external_id);
      const records = await recordsOf(body.external_id, type === 'quote' ? 'Quote__c' : 'Booking__c');
      assert.equal(records.length, 1);
      assert.deepEqual(Object.keys(made), [
        ...['external_id', 'type', 'status', 'id', 'problem', 'attempts', 'accepted_at', 'completed_at'],
        ...['valid_until', 'approval', 'version', 'latest_attempts', 'next_attempt_at', 'request'],
      ]);
      assert.equal(made.id, records[0]?.['Id']);
      assert.equal(made.attempts, 1);
      assert.equal(made.problem, null);
    });
  }

  test('details are kept digit for digit, and the maker with them', async () => {
    const details = '{"z":12345678901234567890.10,"a":1e400,"nul":"\\u0000","emoji":"😀"}';
    const body = JSON.stringify(offerFor(gateway.org.memberId)).replace('{"net":612.4}', details);
    const response = await gateway.request('/api/v1/handoff', {
      body,
      headers: { ...respondAsync, 'x-actor': 'marta@example.com' },
    });
    const { external_id } = (await response.json()) as { external_id: string };
    await untilHandoff(gateway, external_id);
    const [record] = await recordsOf(external_id);
    assert.equal(record?.['Details__c'], details);
  });

  test('Prefer is read as RFC 7240 says', async () => {
    for (const prefer of [
      'Respond-Async',
      'return=minimal, respond-async',
      'wait=5 , RESPOND-ASYNC; x="a,b"',
    ])
      assert.ok([201, 202].includes((await send({ prefer })).status), prefer);
    assert.equal((await send({ prefer: 'wait=5' })).status, 201);
    assert.equal((await send({ prefer: 'foo="respond-async, x"' })).status, 201);
  });

  test('with wait the record is made at once where the CRM answers in time, and nothing is left', async () => {
    const response = await send({ prefer: 'respond-async, wait=10' });
    const made = (await response.json()) as { status: string; external_id: string };
    assert.equal(response.status, 201);
    assert.equal(made.status, 'created');
    assert.equal(response.headers.get('location'), `/v1/quotes/${made.external_id}`);
    await assertProblem(await gateway.request(`/v1/handoffs/${made.external_id}`), 404, 'not_found');
  });

  test('with wait the refusal of the CRM is the answer', async () => {
    const body = offerFor(randomUUID());
    const problem = await send({ prefer: 'respond-async, wait="10"' }, body);
    await assertProblem(problem, 422, 'member_not_found', '#/member_id');
  });

  test('with wait a CRM that takes longer gets the hand-off once', async () => {
    const hold = await gateway.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'hold' },
      times: 1,
    });
    const response = await send({ prefer: 'respond-async, wait=1' });
    const { external_id } = (await response.json()) as { external_id: string };
    assert.equal(response.status, 202);
    assert.equal((await readHandoff(gateway, external_id)).status, 'accepted');
    await hold.release();
    await untilHandoff(gateway, external_id);
    assert.equal((await recordsOf(external_id)).length, 1);
  });

  test('under a key the stored answer is the 202', async () => {
    await gateway.org.arm(down);
    const headers = { ...respondAsync, 'idempotency-key': randomUUID() };
    const body = offerFor(gateway.org.memberId);
    const first = await send(headers, body);
    const text = await first.text();
    assert.equal(first.status, 202);
    const again = await send({ 'idempotency-key': headers['idempotency-key'] }, body);
    assert.equal(again.status, 202);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(again.headers.get('location'), first.headers.get('location'));
    assert.equal(await again.text(), text);
  });

  test('what the CRM refuses for good has failed, can be tried again, and holds up no other', async () => {
    const name = `poisoned ${randomUUID()}`;
    const hold = await gateway.org.arm({ match: { operation: 'create' }, effect: { kind: 'down' } });
    const first = await accept(gateway);
    const lost = await accept(gateway, { member_id: randomUUID() });
    const last = await accept(gateway, { result: { name, source: 'x', details: {} } });
    await hold.remove();
    const failed = await untilHandoff(gateway, lost, ({ status }) => status === 'failed');
    assert.equal(failed.problem?.code, 'member_not_found');
    assert.equal(failed.id, null);
    assert.notEqual(failed.completed_at, null);
    assert.equal(failed.request?.member_id.length, 36, 'says what was to be written');
    for (const id of [first, last])
      assert.equal((await recordsOf((await untilHandoff(gateway, id)).external_id)).length, 1);
    assert.equal((await untilHandoff(gateway, last)).request, null, 'the record says it now');

    await assertProblem(
      await gateway.request(`/v1/handoffs/${last}/retry`, { method: 'POST' }),
      409,
      'conflict',
    );
    const retried = await gateway.request(`/v1/handoffs/${lost}/retry`, { method: 'POST' });
    assert.equal(retried.status, 202);
    await untilHandoff(
      gateway,
      lost,
      ({ status, attempts }) => status === 'failed' && attempts > failed.attempts,
    );
  });

  test('the problem names the fields as the hand-off does', async () => {
    await gateway.org.arm(refused);
    const externalId = await accept(gateway);
    const { problem } = await untilHandoff(gateway, externalId, ({ status }) => status === 'failed');
    assert.equal(problem?.code, 'crm_rejected');
    assert.match(problem?.detail ?? '', /is not nice/);
  });

  test('one that waits or has failed can be cancelled, again and again; one that is created cannot', async () => {
    await gateway.org.arm(down);
    const waiting = await accept(gateway);
    const remove = (id: string) =>
      gateway.request(`/v1/handoffs/${id}`, { method: 'DELETE', headers: { 'idempotency-key': 'x' } });
    assert.equal((await remove(waiting)).status, 204);
    assert.equal((await remove(waiting)).status, 204);
    assert.equal((await readHandoff(gateway, waiting)).status, 'cancelled');
    await gateway.org.disarm();
    const next = await accept(gateway);
    await untilHandoff(gateway, next);
    // A call that was under way may have made it.
    await untilGone(waiting);
    await assertProblem(await remove(next), 409, 'conflict');
    await assertProblem(await remove(randomUUID()), 404, 'not_found');
  });

  test('cancelled while a call is under way, its record is removed', async () => {
    const hold = await gateway.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'hold', stage: 'after' },
      times: 1,
    });
    const externalId = await accept(gateway);
    await hold.hit();
    assert.equal((await gateway.request(`/v1/handoffs/${externalId}`, { method: 'DELETE' })).status, 204);
    await hold.release();
    await untilGone(externalId);
    assert.equal((await readHandoff(gateway, externalId)).status, 'cancelled');
  });

  test('cancelled while its caller waits, it is not confirmed, and its record is removed', async () => {
    const hold = await gateway.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'hold' },
      times: 1,
    });
    const waiting = send({ prefer: 'respond-async, wait=20' });
    await hold.hit();
    const page = await gateway.request('/v1/handoffs?limit=1');
    const [first] = ((await page.json()) as { data: AcceptedHandoff[] }).data;
    const id = first?.external_id ?? '';
    assert.equal((await gateway.request(`/v1/handoffs/${id}`, { method: 'DELETE' })).status, 204);
    await hold.release();
    assert.equal((await waiting).status, 202);
    await untilGone(id);
    assert.equal((await readHandoff(gateway, id)).status, 'cancelled');
  });

  test('the list is newest first, with filters, page by page', async () => {
    await gateway.org.arm(down);
    const trip_id = randomUUID();
    const ids: string[] = [];
    for (const type of ['quote', 'booking', 'quote']) ids.unshift(await accept(gateway, { type, trip_id }));
    const list = async (query: string) =>
      (await (await gateway.request(`/v1/handoffs?trip_id=${trip_id.toUpperCase()}${query}`)).json()) as {
        data: AcceptedHandoff[];
        next_cursor: string | null;
        has_more: boolean;
      };
    const idsOf = ({ data }: { data: AcceptedHandoff[] }) => data.map(({ external_id }) => external_id);
    assert.deepEqual(idsOf(await list('')), ids);
    assert.deepEqual(idsOf(await list('&type=booking')), [ids[1]]);
    assert.deepEqual(idsOf(await list('&status=created')), []);
    const page = await list('&status=accepted&limit=2');
    assert.equal(page.has_more, true);
    const rest = await list(`&status=accepted&limit=2&cursor=${page.next_cursor}`);
    assert.deepEqual([...idsOf(page), ...idsOf(rest)], ids);
    assert.equal(rest.has_more, false);
  });

  test('only types that the caller may read are shown, with records own only its own', async () => {
    await gateway.org.arm(down);
    const trip_id = randomUUID();
    const quote = await accept(gateway, { trip_id });
    const booking = await accept(gateway, { trip_id, type: 'booking' });
    const reader = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] } as never);
    const own = await gateway.newConsumer(
      { resource: 'quotes', actions: ['read', 'write'], records: 'own' } as never,
      { resource: 'bookings', actions: ['read'] } as never,
    );
    const seen = async (as: typeof reader) => {
      const response = await gateway.request(`/v1/handoffs?trip_id=${trip_id}`, { as });
      return ((await response.json()) as { data: AcceptedHandoff[] }).data.map(
        ({ external_id }) => external_id,
      );
    };
    assert.deepEqual(await seen(reader), [quote]);
    for (const [id, resource] of [
      [booking, 'bookings'],
      [quote, 'quotes'],
    ]) {
      for (const [method, path, action] of [
        ['GET', '', 'read'],
        ['DELETE', '', 'delete'],
        ['POST', '/retry', 'write'],
      ] as const) {
        if (resource === 'quotes' && action === 'read') continue;
        const refused = await gateway.request(`/v1/handoffs/${id}${path}`, { as: reader, method });
        const { required } = await assertProblem(refused, 403, 'permission_denied');
        assert.deepEqual(required, { resource, action });
      }
    }
    assert.deepEqual(await seen(own), [booking]);
    await assertProblem(await gateway.request(`/v1/handoffs/${quote}`, { as: own }), 404, 'not_found');
    const mine = await accept(gateway, { trip_id }, { as: own });
    assert.deepEqual(await seen(own), [mine, booking]);
  });

  test('the health report shows what waits', async () => {
    await gateway.org.arm(down);
    await accept(gateway);
    const report = (await (await gateway.request('/v1/healthz')).json()) as {
      handoffs: { connected: boolean; waiting: number; oldest_seconds: number };
    };
    assert.equal(report.handoffs.connected, true);
    assert.ok(report.handoffs.waiting > 0);
    assert.ok(report.handoffs.oldest_seconds >= 0);
  });
});

describe('a backlog of accepted hand-offs', () => {
  const count = Number(process.env['BACKLOG'] ?? 450);
  const gateway = useGateway({ RATE_LIMIT_PER_MINUTE: '0' });

  const createCalls = () => metric(gateway, 'handoff_crm_batch_size_count{operation="create"}');

  test('is delivered in few calls, in its order, and requests need not wait for it', async (context) => {
    // In whatever way it is asked for: some would be delivered by what finds out about an attempt.
    const fault = await gateway.org.arm({ match: {}, effect: down.effect });
    let left = count;
    const client = async () => {
      while (left-- > 0) await accept(gateway);
    };
    await Promise.all(Array.from({ length: 20 }, client));
    const ids = await inOrder(gateway);
    await gateway.org.change({ latencyMs: 150 });
    const callsBefore = await createCalls();
    const startedAt = performance.now();
    await fault.remove();
    let requests = 0;
    await eventually(
      async () => {
        const body = offerFor(gateway.org.memberId);
        const live = await gateway.request('/api/v1/handoff', { body });
        if (live.status === 201) requests += 1;
        assert.equal(await readWaiting(gateway), 0);
      },
      { pause: async () => {} },
    );
    const seconds = Math.round(performance.now() - startedAt) / 1000;
    const calls = (await createCalls()) - callsBefore;
    context.diagnostic(
      `${count} delivered in ${seconds} s; ${calls} calls, ${requests} of them for requests`,
    );
    assert.ok(calls - requests <= Math.max(12, count / 50), `${calls} calls, ${requests} requests`);
    assert.ok(requests > 0);

    const made = new Map<string, string>();
    for (const record of await gateway.org.records('Quote__c'))
      made.set(String(record['External_Id__c']), String(record['Id']));
    const order = ids.map((id) => made.get(id) ?? '');
    assert.deepEqual(order, order.toSorted());
    assert.equal(new Set(order).size, count);
  });
});

describe('the settings of accepted hand-offs', () => {
  const gateway = useGateway({
    HANDOFF_WHEN_CRM_IS_UNAVAILABLE: 'accept',
    HANDOFF_QUEUE_LIMIT: '2',
    HANDOFF_QUEUE_LIMIT_PER_CONSUMER: '2',
  });
  afterEach(() => gateway.org.disarm());

  test('accept: a hand-off that the CRM fails over is stored, and a refusal is a refusal', async () => {
    const lost = await gateway.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'x' },
    });
    const headers = { 'idempotency-key': randomUUID() };
    const response = await gateway.request('/api/v1/handoff', {
      body: offerFor(gateway.org.memberId),
      headers,
    });
    assert.equal(response.status, 202);
    assert.equal(response.headers.get('preference-applied'), null);
    const { external_id } = (await response.json()) as { external_id: string };
    await lost.remove();
    await untilHandoff(gateway, external_id);
    const made = await gateway.request('/api/v1/handoff', { body: offerFor(gateway.org.memberId) });
    assert.equal(made.status, 201);
    const refusal = await gateway.request('/api/v1/handoff', { body: offerFor(randomUUID()) });
    await assertProblem(refusal, 422, 'member_not_found', '#/member_id');
  });

  test('beyond the queue limit a hand-off is refused', async () => {
    await gateway.org.arm(down);
    const waiting = [await accept(gateway), await accept(gateway)];
    const response = await gateway.request('/api/v1/handoff', {
      body: offerFor(gateway.org.memberId),
      headers: respondAsync,
    });
    await assertProblem(response, 503, 'crm_unavailable');
    assert.ok(Number(response.headers.get('retry-after')) > 0);
    await gateway.org.disarm();
    for (const id of waiting) await untilHandoff(gateway, id);
  });
});

async function readWaiting(gateway: TestGateway): Promise<number> {
  const page = await gateway.request('/v1/handoffs?status=accepted&limit=1');
  return ((await page.json()) as { data: unknown[] }).data.length;
}

async function metric(gateway: TestGateway, series: string): Promise<number> {
  const text = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(series));
  return Number(line?.split(' ').at(-1) ?? 0);
}

/** The External IDs of all accepted hand-offs, the first one first. */
async function inOrder(gateway: TestGateway): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor = ''; ; ) {
    const page = await gateway.request(`/v1/handoffs?limit=200${cursor}`);
    const { data, next_cursor } = (await page.json()) as {
      data: AcceptedHandoff[];
      next_cursor: string | null;
    };
    ids.push(...data.map(({ external_id }) => external_id));
    if (next_cursor === null) return ids.toReversed();
    cursor = `&cursor=${next_cursor}`;
  }
}
