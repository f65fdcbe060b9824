import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, useGateway } from '../../../support/gateway.ts';
import {
  type AcceptedHandoff,
  accept,
  offerFor,
  readHandoff,
  respondAsync,
  untilHandoff,
} from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';

const all = ['read', 'write', 'delete'];
const on = (resource: string, more: object = {}, actions = all) => ({ resource, actions, ...more });

describe('hand-offs that need approval', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '60', CRM_MAX_CONCURRENCY: '1' });
  /** Software whose hand-offs need approval. */
  let agent: Credentials;
  let approver: Credentials;
  before(async () => {
    agent = await make(on('quotes', { approval: true }), on('bookings', { approval: true }));
    approver = await make(on('quotes'), on('bookings'));
  });
  afterEach(() => gateway.org.disarm());

  const make = async (...permissions: object[]): Promise<Credentials> => {
    const body = { name: `made ${randomUUID()}`, permissions };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    assert.equal(made.status, 201, await made.clone().text());
    return (await made.json()) as Credentials;
  };
  const handOff = (change: object = {}, headers: Record<string, string> = {}, as = agent) =>
    gateway.request('/api/v1/handoff', { as, body: offerFor(gateway.org.memberId, change), headers });
  const ask = (change: object = {}, headers: Record<string, string> = {}, as = agent) =>
    accept(gateway, change, { as, headers });
  const decide = (
    id: string,
    verdict: 'approve' | 'reject',
    options: { as?: Credentials; headers?: Record<string, string>; body?: object } = {},
  ) =>
    gateway.request(`/v1/handoffs/${id}/${verdict}`, {
      ...{ as: approver, method: 'POST' },
      ...(verdict === 'reject' && { body: { reason: 'too dear' } }),
      ...options,
    });
  const decideWithToken = async (id: string, { apiKey, apiSecret }: Credentials, scope: string) => {
    const form = { grant_type: 'client_credentials', client_id: apiKey, client_secret: apiSecret, scope };
    const body = new URLSearchParams(form);
    const asked = await fetch(`${gateway.url}/oauth/token`, { method: 'POST', body });
    const { access_token } = (await asked.json()) as { access_token: string };
    const headers = { authorization: `Bearer ${access_token}` };
    return fetch(`${gateway.url}/v1/handoffs/${id}/approve`, { method: 'POST', headers });
  };
  const recordsOf = (externalId: string) => gateway.org.records('Quote__c', { External_Id__c: externalId });
  const eventsOf = async (id: string) => {
    const response = await gateway.request(`/v1/events?resource_id=${id}`);
    const { data } = (await response.json()) as { data: { type: string; data: AcceptedHandoff }[] };
    return data.filter(({ type }) => type.startsWith('handoff.'));
  };
  const cancel = (id: string, as: Credentials) =>
    gateway.request(`/v1/handoffs/${id}`, { method: 'DELETE', as });

  test('are confirmed where an earlier try, before approval was needed, has made the record', async () => {
    const maker = await make(on('quotes'));
    const headers = { 'idempotency-key': randomUUID() };
    const body = offerFor(gateway.org.memberId);
    const send = (more: Record<string, string> = {}) =>
      gateway.request('/api/v1/handoff', { as: maker, body, headers: { ...headers, ...more } });
    const lost = await gateway.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'loseAnswer' } });
    const first = await send();
    assert.ok(first.status >= 500, String(first.status));
    const permissions = [on('quotes', { approval: true })];
    const path = `/v1/admin/consumers/${maker.id}`;
    const changed = await gateway.request(path, {
      as: gateway.admin,
      method: 'PATCH',
      body: { permissions },
    });
    assert.equal(changed.status, 200, await changed.clone().text());
    // Nobody knows yet whether there is a record: nothing is stored that could be rejected beside it.
    const unknown = await send();
    assert.ok(unknown.status >= 500, String(unknown.status));
    await lost.remove();
    for (const prefer of ['respond-async', 'respond-async, wait=5']) {
      const again = await eventually(async () => {
        const answer = await send({ prefer });
        assert.equal(answer.status, 201, await answer.clone().text());
        return answer;
      });
      const { external_id: id } = (await again.json()) as { external_id: string };
      assert.equal((await recordsOf(id)).length, 1);
      await assertProblem(await gateway.request(`/v1/handoffs/${id}`), 404, 'not_found');
    }
  });

  test('show what turns the direction of a text as escapes, and mean the same', async () => {
    const result = { name: 'Suite \u202e00.0001', source: 'ב\u2067', details: { 'a\u200e': '\u061c' } };
    const id = await ask({ result });
    for (const path of [id, '?status=awaiting_approval']) {
      const text = await (
        await gateway.request(`/v1/handoffs${path === id ? `/${id}` : path}`, { as: approver })
      ).text();
      assert.doesNotMatch(text, /\p{Bidi_Control}/u);
      assert.ok(text.includes('"Suite \\u202e00.0001"'), text);
    }
    const { request } = (await (
      await gateway.request(`/v1/handoffs/${id}`, { as: approver })
    ).json()) as AcceptedHandoff;
    assert.deepEqual(request?.result, result);
    assert.equal((await cancel(id, agent)).status, 204);
  });

  test('wait, whatever Prefer says, and are made once they are approved', async () => {
    for (const prefer of [undefined, 'respond-async', 'respond-async, wait=5']) {
      const response = await handOff({}, prefer === undefined ? {} : { prefer });
      const { external_id, ...body } = (await response.json()) as { external_id: string };
      assert.equal(response.status, 202);
      assert.deepEqual(body, { type: 'quote', status: 'awaiting_approval' });
      assert.equal(response.headers.get('location'), `/v1/handoffs/${external_id}`);
    }
    const details = '{"z":12345678901234567890.10,"a":1e400}';
    const body = JSON.stringify(offerFor(gateway.org.memberId)).replace('{"net":612.4}', details);
    const asked = await gateway.request('/api/v1/handoff', {
      as: agent,
      body,
      headers: { 'x-actor': 'ana@example.com' },
    });
    const { external_id: id } = (await asked.json()) as { external_id: string };
    const shown = await gateway.request(`/v1/handoffs/${id}`, { as: approver });
    const text = await shown.text();
    assert.ok(text.includes(`"details":${details}`), text);
    const waiting = JSON.parse(text) as AcceptedHandoff;
    const pending = { status: 'pending', decided_by: null, decided_at: null, reason: null };
    assert.deepEqual([waiting.status, waiting.approval], ['awaiting_approval', pending]);
    const { member_id, created_by } = waiting.request as NonNullable<AcceptedHandoff['request']>;
    assert.deepEqual(
      [member_id, (created_by as { actor: string }).actor],
      [gateway.org.memberId, 'ana@example.com'],
    );
    assert.deepEqual(await recordsOf(id), []);

    const approved = await decide(id, 'approve', { headers: { 'x-actor': 'boss@example.com' } });
    assert.equal(approved.status, 202);
    const accepted = (await approved.json()) as AcceptedHandoff;
    const { status, decided_by } = accepted.approval as NonNullable<AcceptedHandoff['approval']>;
    assert.deepEqual([accepted.status, status], ['accepted', 'approved']);
    assert.deepEqual([decided_by?.consumer_id, decided_by?.actor], [approver.id, 'boss@example.com']);
    await untilHandoff(gateway, id);
    const [record, ...more] = await recordsOf(id);
    assert.deepEqual(more, []);
    // The maker is who asked, not who approved.
    assert.deepEqual([record?.['Consumer_Id__c'], record?.['Actor__c']], [agent.id, 'ana@example.com']);
    assert.equal(record?.['Details__c'], details);
    const again = await decide(id, 'approve');
    assert.equal(again.status, 202);
    assert.match(await again.text(), /"actor":"boss@example.com"/);
    await assertProblem(await decide(id, 'reject'), 409, 'conflict');
    const events = await eventsOf(id);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['handoff.awaiting_approval', 'handoff.created'],
    );
    assert.ok(!('request' in (events[0] as { data: object }).data));
    const audit = await gateway.request(`/v1/admin/audit-events?target_id=${id}`, { as: gateway.admin });
    const { data } = (await audit.json()) as { data: Record<string, unknown>[] };
    assert.deepEqual(
      data.map(({ action, actor, target }) => ({ action, actor, target })),
      [
        {
          action: 'handoff.approved',
          actor: { ...(data[0]?.['actor'] as object), id: approver.id, person: 'boss@example.com' },
          target: { id, name: 'quote' },
        },
      ],
    );
  });

  test('are never made once they are rejected, and say why', async () => {
    const id = await ask();
    const withoutReason = await decide(id, 'reject', { body: {} });
    await assertProblem(withoutReason, 400, 'invalid_request', '#/reason');
    await assertProblem(
      await decide(id, 'reject', { body: { reason: 'x'.repeat(1001) } }),
      400,
      'invalid_request',
      '#/reason',
    );
    const rejected = await decide(id, 'reject');
    assert.equal(rejected.status, 200);
    const shown = (await rejected.json()) as AcceptedHandoff;
    assert.deepEqual(
      [shown.status, shown.approval?.status, shown.approval?.reason, shown.request],
      ['rejected', 'rejected', 'too dear', null],
    );
    const again = await decide(id, 'reject', { body: { reason: 'another' } });
    assert.deepEqual([again.status, await again.json()], [200, shown]);
    await assertProblem(await decide(id, 'approve'), 409, 'conflict');
    const retry = { method: 'POST', as: approver };
    await assertProblem(await gateway.request(`/v1/handoffs/${id}/retry`, retry), 409, 'conflict');
    const { detail } = await assertProblem(await cancel(id, approver), 409, 'conflict');
    assert.equal(detail, 'The hand-off is rejected and can no longer be cancelled.');
    assert.equal((await eventsOf(id)).at(-1)?.type, 'handoff.rejected');
    assert.deepEqual(await recordsOf(id), []);
  });

  test('are not for their maker to approve, whatever credentials it has, nor for others that need approval', async () => {
    const maker = await make(on('quotes', { approval: true }));
    const id = await ask({}, {}, maker);
    const rotated = await gateway.request(`/v1/admin/consumers/${maker.id}/rotate`, {
      ...{ method: 'POST', as: gateway.admin, body: {} },
    });
    const second = { ...maker, ...((await rotated.json()) as Credentials) };
    const reader = await make(on('quotes', {}, ['read']));
    const own = await make(on('quotes', { records: 'own' }));
    for (const as of [maker, second, agent, reader]) {
      await assertProblem(await decide(id, 'approve', { as }), 403, 'permission_denied');
      await assertProblem(await decide(id, 'reject', { as }), 403, 'permission_denied');
    }
    await assertProblem(await decide(id, 'approve', { as: own }), 404, 'not_found');
    const seesSome = await make(on('quotes', { fields: ['name', 'status'] }));
    await assertProblem(await decide(id, 'approve', { as: seesSome }), 403, 'permission_denied');
    // Nor with a token, nor does one approve that is for reading only.
    for (const [as, scope] of [
      [maker, 'quotes:write'],
      [approver, 'quotes:read bookings:write'],
    ] as const) {
      const answer = await decideWithToken(id, as, scope);
      await assertProblem(answer, 403, 'permission_denied');
    }
    // By its id, also when its permission says nothing of approval any more.
    await gateway.request(`/v1/admin/consumers/${maker.id}`, {
      ...{ method: 'PATCH', as: gateway.admin, body: { permissions: [on('quotes')] } },
    });
    await assertProblem(await decide(id, 'approve', { as: second }), 403, 'permission_denied');
    assert.equal((await readHandoff(gateway, id)).status, 'awaiting_approval');
  });

  test('are shown whole or not at all', async () => {
    const id = await ask();
    const written = ['trip_id', 'member_id', 'name', 'source', 'details'];
    const shownTo = async (fields: string[]) => {
      const as = await make(on('quotes', { fields }, ['read']));
      const shown = await gateway.request(`/v1/handoffs/${id}`, { as });
      return ((await shown.json()) as AcceptedHandoff).request;
    };
    const whole = await shownTo([...written, 'created_by']);
    assert.deepEqual(Object.keys(whole ?? {}), ['trip_id', 'member_id', 'created_by', 'result']);
    for (const fields of [written, [...written.slice(1), 'created_by']])
      assert.equal(await shownTo(fields), null);
  });

  test('are decided on as before when their maker is gone', async () => {
    const maker = await make(on('quotes', { approval: true }));
    const [one, other] = [await ask({}, {}, maker), await ask({}, {}, maker)];
    const path = `/v1/admin/consumers/${maker.id}`;
    const revoked = await gateway.request(path, { method: 'DELETE', as: gateway.admin });
    assert.equal(revoked.status, 204);
    assert.equal((await decide(one, 'reject')).status, 200);
    assert.equal((await decideWithToken(other, approver, 'quotes:write')).status, 202);
    await untilHandoff(gateway, other);
    assert.deepEqual(
      (await recordsOf(other)).map((record) => record['Consumer_Id__c']),
      [maker.id],
    );
    assert.deepEqual(await recordsOf(one), []);
  });

  test('can be taken back by their maker, without the permission to delete', async () => {
    const maker = await make(on('quotes', { approval: true }, ['read', 'write']));
    const id = await ask({}, {}, maker);
    await assertProblem(await cancel(id, agent), 403, 'approval_required');
    for (let i = 0; i < 2; i++) {
      const answer = await cancel(id, i === 0 ? maker : approver);
      assert.equal(answer.status, 204, await answer.text());
    }
    await assertProblem(await decide(id, 'approve'), 409, 'conflict');
    assert.equal((await readHandoff(gateway, id)).status, 'cancelled');
  });

  test('are the only way to write, on reservations too', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const { type: _, result, ...record } = offerFor(gateway.org.memberId);
    const attempts: [string, string, object?][] = [
      ['POST', '/v1/quotes', { ...record, ...result }],
      ['PATCH', `/v1/quotes/${randomUUID()}`, { name: 'x' }],
      ['DELETE', `/v1/bookings/${randomUUID()}`],
      ['POST', '/v1/reservations', {}],
      ['DELETE', `/v1/reservations/${randomUUID()}`],
    ];
    const withoutDelete = await make(
      on('quotes', { approval: true }, ['write']),
      on('bookings', { approval: true }, ['write']),
    );
    for (const as of [agent, withoutDelete])
      for (const [method, path, body] of attempts) {
        const answer = await gateway.request(path, { method, as, headers, ...(body && { body }) });
        await assertProblem(answer, 403, 'approval_required');
      }
    assert.equal((await gateway.request('/v1/quotes', { as: agent })).status, 200);
    // Where it stands on quotes alone, bookings are free.
    const half = await make(on('quotes', { approval: true }), on('bookings'));
    assert.equal((await handOff({ type: 'booking' }, {}, half)).status, 201);
    assert.equal((await handOff({}, {}, half)).status, 202);
    // Nor does it deliver again what others handed off.
    await gateway.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'no' },
    });
    const failing = await ask({}, respondAsync, approver);
    await untilHandoff(gateway, failing, ({ status }) => status === 'failed');
    const retry = await gateway.request(`/v1/handoffs/${failing}/retry`, { method: 'POST', as: agent });
    await assertProblem(retry, 403, 'approval_required');
  });

  test('need no CRM until they are approved, and keep their answer under a key', async () => {
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    for (let i = 0; i < 8; i++) await handOff({}, {}, approver);
    const headers = { 'idempotency-key': randomUUID() };
    const body = offerFor(gateway.org.memberId);
    const send = () => gateway.request('/api/v1/handoff', { as: agent, body, headers });
    const first = await send();
    assert.equal(first.status, 202);
    const again = await send();
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(await again.text(), await first.text());
  });

  test('end with their offer: a late answer is a conflict', async () => {
    const valid_until = new Date(Date.now() + 10_000).toISOString();
    const id = await ask({ valid_until });
    assert.equal((await readHandoff(gateway, id)).valid_until, valid_until);
    const failed = await untilHandoff(gateway, id, ({ status }) => status === 'failed');
    assert.deepEqual([failed.problem?.code, failed.approval?.status], ['offer_expired', 'expired']);
    await assertProblem(await decide(id, 'approve'), 409, 'conflict');
    await assertProblem(await decide(id, 'reject'), 409, 'conflict');
    const retry = { method: 'POST', as: approver };
    await assertProblem(await gateway.request(`/v1/handoffs/${id}/retry`, retry), 409, 'conflict');
    assert.deepEqual(
      (await eventsOf(id)).map(({ type }) => type),
      ['handoff.awaiting_approval', 'handoff.failed'],
    );
  });

  test('a permission that needs approval is for quotes and bookings only', async () => {
    const body = { name: 'wrong', permissions: [on('members', { approval: true }, ['read'])] };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    await assertProblem(made, 400, 'invalid_request', '#/permissions/0/approval');
  });

  describe('an offer that ends', () => {
    const soon = (ms: number) => ({ valid_until: new Date(Date.now() + ms).toISOString() });
    // A timer may be a little early.
    const untilPast = (time: string) => sleep(Date.parse(time) - Date.now() + 5);
    const expired = (response: Response) => assertProblem(response, 422, 'offer_expired', '#/valid_until');

    test('is made before, and refused after its end, however it is handed off', async () => {
      assert.equal((await handOff(soon(60_000), {}, approver)).status, 201);
      for (const prefer of [undefined, 'respond-async', 'respond-async, wait=5'])
        await expired(await handOff(soon(-1), prefer === undefined ? {} : { prefer }, approver));
      await expired(await handOff(soon(-1)));
      for (const valid_until of ['tomorrow', 5, '2026-02-30T00:00:00Z'])
        await assertProblem(
          await handOff({ valid_until }, {}, approver),
          400,
          'invalid_request',
          '#/valid_until',
        );
    });

    test('keeps its answer under a key, also when it has ended since', async () => {
      const body = offerFor(gateway.org.memberId, soon(10_000));
      const send = (headers: Record<string, string>) =>
        gateway.request('/api/v1/handoff', { as: approver, body, headers });
      const headers = { 'idempotency-key': randomUUID() };
      const first = await send(headers);
      assert.equal(first.status, 201);
      await untilPast((body as { valid_until?: string }).valid_until ?? '');
      const again = await send(headers);
      assert.deepEqual([again.status, await again.text()], [201, await first.text()]);
      const late = { 'idempotency-key': randomUUID() };
      await expired(await send(late));
      const replayed = await send(late);
      assert.deepEqual([replayed.status, replayed.headers.get('idempotent-replayed')], [422, 'true']);
    });

    test('is not made when it is executed too late, and disturbs no other of its call', async () => {
      const hold = await gateway.org.arm({
        ...{ match: { operation: 'create' }, effect: { kind: 'hold' }, times: 1 },
      });
      const first = handOff({}, {}, approver);
      await hold.hit();
      // There is one slot for calls.
      const offer = soon(4000);
      const late = handOff(offer, {}, approver);
      const other = handOff({}, {}, approver);
      await untilPast(offer.valid_until);
      await hold.release();
      assert.deepEqual([(await first).status, (await other).status], [201, 201]);
      await expired(await late);
    });

    test('that waits for the CRM fails, without the CRM', async () => {
      const down = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
      const id = await ask(soon(10_000), respondAsync, approver);
      const other = await ask({}, respondAsync, approver);
      const failed = await untilHandoff(gateway, id, ({ status }) => status === 'failed');
      assert.equal(failed.problem?.code, 'offer_expired');
      await down.remove();
      await untilHandoff(gateway, other);
      assert.deepEqual(await recordsOf(id), []);
    });

    test('that may have been made is looked for, and found', async () => {
      const offer = soon(10_000);
      const body = offerFor(gateway.org.memberId, offer);
      const headers = { 'idempotency-key': randomUUID() };
      const lost = await gateway.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'loseAnswer' } });
      const first = await gateway.request('/api/v1/handoff', { as: approver, body, headers });
      assert.ok(first.status >= 500, String(first.status));
      await sleep(Date.parse(offer.valid_until) - Date.now());
      await lost.remove();
      const again = await eventually(async () => {
        const answer = await gateway.request('/api/v1/handoff', { as: approver, body, headers });
        assert.equal(answer.status, 201, await answer.clone().text());
        return answer;
      });
      const { external_id } = (await again.json()) as { external_id: string };
      assert.equal((await recordsOf(external_id)).length, 1);
    });
  });
});
