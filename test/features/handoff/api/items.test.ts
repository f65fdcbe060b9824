import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { offerFor, readHandoff, respondAsync, untilHandoff } from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';

interface Answer {
  id?: string;
  status: string;
  external_id: string;
}

describe('an item that is handed off again', () => {
  const gateway = useGateway();

  const item = (change: object = {}) => offerFor(gateway.org.memberId, { reference: 'HB-1', ...change });
  const send = (
    body: object,
    headers: Record<string, string> = {},
    as?: { apiKey: string; apiSecret: string },
  ) => gateway.request('/api/v1/handoff', { body, headers, ...(as && { as }) });
  const answerTo = async (body: object, status: number, headers: Record<string, string> = {}) => {
    const response = await send(body, headers);
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as Answer;
  };
  const untilReachable = () =>
    eventually(async () => assert.equal((await gateway.request('/v1/quotes')).status, 200));
  const renamed = (body: object, name: string) => ({
    ...body,
    on_repeat: 'update',
    result: { name, source: 'hotelbeds', details: { net: 700 } },
  });

  test('is found, at once and by concurrent requests, under any key', async () => {
    const body = item();
    const answers = await Promise.all(
      [{}, { 'idempotency-key': randomUUID() }, { 'idempotency-key': randomUUID() }].map((headers) =>
        send(body, headers),
      ),
    );
    const bodies = await Promise.all(answers.map((response) => response.json() as Promise<Answer>));
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 200, 201]);
    const [first] = bodies as [Answer];
    for (const { external_id, id } of bodies)
      assert.deepEqual([external_id, id], [first.external_id, first.id]);
    const again = await answerTo(renamed(body, 'Hotel Sol'), 200);
    assert.equal(again.status, 'updated');
    const [record, ...others] = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.equal(others.length, 0);
    assert.partialDeepStrictEqual(record, {
      Name__c: 'Hotel Sol',
      Details__c: '{"net":700}',
      External_Id__c: first.external_id,
    });
    assert.equal((await answerTo(body, 200)).status, 'existing');
    assert.partialDeepStrictEqual((await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id }))[0], {
      Name__c: 'Hotel Sol',
    });
  });

  test('is another one with another type, source, trip, reference or consumer', async () => {
    const body = item();
    const { external_id } = await answerTo(body, 201);
    const others = [
      { ...body, type: 'booking' },
      { ...body, trip_id: randomUUID() },
      { ...body, reference: 'hb-1' },
      { ...body, result: { ...body.result, source: 'tbo' } },
    ];
    for (const other of others) assert.notEqual((await answerTo(other, 201)).external_id, external_id);
    const response = await send(body, {}, gateway.admin);
    assert.equal(response.status, 201);
    assert.notEqual(((await response.json()) as Answer).external_id, external_id);
  });

  test('of another member is a conflict, and on_repeat without a reference a fault', async () => {
    const body = item();
    await answerTo(body, 201);
    const [other] = await gateway.org
      .records('Contact')
      .then((all) => all.filter((one) => one['External_Id__c'] !== gateway.org.memberId));
    await assertProblem(
      await send({ ...body, member_id: other?.['External_Id__c'] }),
      409,
      'conflict',
      '#/member_id',
    );
    const response = await send(offerFor(gateway.org.memberId, { on_repeat: 'return' }));
    await assertProblem(response, 400, 'invalid_request', '#/on_repeat');
  });

  test('of another member is a conflict while its hand-off waits', async () => {
    const body = item();
    const fault = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await answerTo(body, 202, respondAsync);
    for (const headers of [{}, respondAsync])
      for (const on_repeat of ['return', 'update']) {
        const other = { ...body, member_id: randomUUID(), on_repeat };
        await assertProblem(await send(other, headers), 409, 'conflict', '#/member_id');
      }
    await fault.remove();
    await gateway.org.disarm();
    await untilReachable();
  });

  test('is made again under the same id where its record was deleted', async () => {
    const body = item();
    const first = await answerTo(body, 201);
    await gateway.org.bin('Quote__c', first.external_id);
    const second = await answerTo(body, 201);
    assert.equal(second.external_id, first.external_id);
    assert.notEqual(second.id, first.id);
    assert.equal((await answerTo(body, 200)).status, 'existing');
    await gateway.org.bin('Quote__c', first.external_id);
    await answerTo(body, 202, respondAsync);
    await untilHandoff(gateway, first.external_id);
    assert.equal((await answerTo(body, 200)).status, 'existing');
  });

  test('is created where it had failed, whether it is made again at once, in time or with others', async () => {
    const trip = '/api/v1/handoffs';
    for (const again of [{}, { prefer: 'respond-async, wait=20' }, trip]) {
      const body = item();
      const unknown = { ...body, member_id: randomUUID() };
      const { external_id } = await answerTo(unknown, 202, respondAsync);
      await untilHandoff(gateway, external_id, ({ status }) => status === 'failed');
      const { trip_id, member_id, ...rest } = body;
      if (again === trip) {
        const made = await gateway.request(trip, { body: { trip_id, member_id, items: [rest] } });
        assert.equal(made.status, 201, await made.text());
      } else await answerTo(body, 201, again as Record<string, string>);
      const { id, status, completed_at } = await untilHandoff(gateway, external_id);
      assert.ok(status === 'created' && id !== null && completed_at !== null);
      const history = await gateway.request(`/v1/handoffs/${external_id}/history`);
      const { data } = (await history.json()) as { data: { kind: string }[] };
      assert.deepEqual(data.map(({ kind }) => kind).toSorted(), [
        'accepted',
        'created',
        'failed',
        'requested',
      ]);
    }
  });

  test('leaves a hand-off cancelled where the item has a record', async () => {
    const body = item();
    await answerTo(body, 201);
    const fault = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const { external_id } = await answerTo(renamed(body, 'Hotel Sol'), 202, respondAsync);
    await gateway.request(`/v1/handoffs/${external_id}`, { method: 'DELETE' });
    await fault.remove();
    await gateway.org.disarm();
    await untilReachable();
    assert.equal((await answerTo(body, 200)).status, 'existing');
    assert.equal((await readHandoff(gateway, external_id)).status, 'cancelled');
  });

  test('counts while its hand-off waits, and after it has ended', async () => {
    const body = item();
    const fault = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const accepted = await answerTo(body, 202, respondAsync);
    assert.equal((await answerTo(body, 202)).status, 'accepted');
    const response = await gateway.request(`/v1/handoffs/${accepted.external_id}`, { method: 'DELETE' });
    assert.equal(response.status, 204);
    await fault.remove();
    await gateway.org.disarm();
    await untilReachable();
    const again = await answerTo(body, 202, respondAsync);
    assert.equal(again.external_id, accepted.external_id);
    await untilHandoff(gateway, again.external_id);
    assert.equal((await answerTo(body, 200)).status, 'existing');
    const later = await answerTo(renamed(body, 'Hotel Luna'), 202, respondAsync);
    await untilHandoff(gateway, later.external_id);
    const rows = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.deepEqual(
      rows.map((row) => row['Name__c']),
      ['Hotel Luna'],
    );
  });

  test('of a consumer that needs approval waits once, asks again for other content, and changes no record', async () => {
    const maker = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    const body = item();
    const first = await send(body, {}, maker);
    assert.equal(first.status, 202);
    const { external_id } = (await first.json()) as Answer;
    const changed = await send(renamed(body, 'Hotel Mar'), {}, maker);
    assert.deepEqual([changed.status, ((await changed.json()) as Answer).status], [202, 'awaiting_approval']);
    const approved = await gateway.request(`/v1/handoffs/${external_id}/approve`, {
      method: 'POST',
      as: gateway.admin,
    });
    assert.equal(approved.status, 202);
    await untilHandoff(gateway, external_id);
    const rows = await gateway.org.records('Quote__c', { External_Id__c: external_id });
    assert.deepEqual(
      rows.map((row) => row['Name__c']),
      ['Hotel Mar'],
    );
    assert.equal((await send(body, {}, maker)).status, 200);
    await assertProblem(
      await send(renamed(body, 'Hotel Sur'), {}, maker),
      403,
      'approval_required',
      '#/on_repeat',
    );
  });

  test('whose change took effect unheard of is changed, also for a consumer that needs approval by now', async () => {
    const permission = { resource: 'quotes', actions: ['read', 'write'] };
    const made = await gateway.request('/v1/admin/consumers', {
      ...{ as: gateway.admin, body: { name: 'maker', permissions: [permission] } },
    });
    const maker = (await made.json()) as { id: string; apiKey: string; apiSecret: string };
    const body = item();
    assert.equal((await send(body, {}, maker)).status, 201);
    const change = (name: string, key: string) =>
      send(renamed(body, name), { 'idempotency-key': key }, maker);
    const [done, another] = [randomUUID(), randomUUID()];
    await gateway.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'loseAnswer' } });
    assert.ok((await change('Hotel Mar', done)).status >= 500);
    await gateway.org.disarm();
    await untilReachable();
    // As a call does that arrives late, for a record that was there long before it.
    const late = { Name__c: 'Hotel Mar', Details__c: '{"net":700}', CreatedDate: '2026-01-02T03:04:05.000Z' };
    await gateway.org.edit('Quote__c', { Trip_Id__c: body.trip_id }, late);
    const narrowed = await gateway.request(`/v1/admin/consumers/${maker.id}`, {
      ...{ method: 'PATCH', as: gateway.admin },
      body: { permissions: [{ ...permission, approval: true }] },
    });
    assert.equal(narrowed.status, 200);
    await eventually(async () =>
      assertProblem(await change('Hotel Sur', another), 403, 'approval_required', '#/on_repeat'),
    );
    const repeated = await change('Hotel Mar', done);
    assert.deepEqual([repeated.status, ((await repeated.json()) as Answer).status], [200, 'updated']);
  });

  test('that waits without approval asks for one where its content is replaced and the permission asks by now', async () => {
    const permission = { resource: 'quotes', actions: ['read', 'write'] };
    const made = await gateway.request('/v1/admin/consumers', {
      ...{ as: gateway.admin, body: { name: 'maker', permissions: [permission] } },
    });
    const maker = (await made.json()) as { id: string; apiKey: string; apiSecret: string };
    const fault = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const body = item();
    const first = await send(body, respondAsync, maker);
    assert.equal(first.status, 202);
    const { external_id } = (await first.json()) as Answer;
    const narrowed = await gateway.request(`/v1/admin/consumers/${maker.id}`, {
      ...{ method: 'PATCH', as: gateway.admin },
      body: { permissions: [{ ...permission, approval: true }] },
    });
    assert.equal(narrowed.status, 200);
    await eventually(async () => {
      const changed = await send(renamed(body, 'Hotel Mar'), {}, maker);
      const { status } = (await changed.json()) as Answer;
      assert.deepEqual([changed.status, status], [202, 'awaiting_approval']);
    });
    await fault.remove();
    await gateway.org.disarm();
    await untilReachable();
    assert.equal((await gateway.org.records('Quote__c', { External_Id__c: external_id })).length, 0);
  });
});
