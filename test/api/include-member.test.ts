import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { type Credentials, useGateway } from '../support/gateway.ts';
import { offerFor, respondAsync } from '../support/handoffs.ts';
import { assertProblem } from '../support/problems.ts';
import { newReservation } from '../support/reservations.ts';

interface Shown {
  member?: { id: string; first_name?: string; last_name?: string; email?: string } | null;
  member_id?: string;
}

describe('members beside hand-offs and reservations', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '60' });
  let agent: Credentials;
  let memberId: string;
  before(async () => {
    memberId = gateway.org.memberId;
    agent = await make(
      { resource: 'members', actions: ['read'] },
      { resource: 'bookings', actions: ['read', 'write'], approval: true },
      { resource: 'quotes', actions: ['read'] },
    );
  });

  const make = async (...permissions: object[]): Promise<Credentials> => {
    const response = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: { name: `include ${randomUUID()}`, permissions },
    });
    assert.equal(response.status, 201, await response.clone().text());
    return (await response.json()) as Credentials;
  };
  const read = async <T = Shown>(path: string, as: Credentials = agent): Promise<T> => {
    const response = await gateway.request(path, { as });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as T;
  };
  const listed = async (path: string, as?: Credentials) => (await read<{ data: Shown[] }>(path, as)).data;
  const handOff = async () => {
    const response = await gateway.request('/api/v1/handoff', {
      as: agent,
      body: offerFor(memberId, { type: 'booking' }),
      headers: respondAsync,
    });
    assert.equal(response.status, 202, await response.clone().text());
    return ((await response.json()) as { external_id: string }).external_id;
  };
  const calls = async () => (await gateway.org.counters())['metered'];
  const amara = async () => {
    const { id, first_name, last_name, email } = await read<Record<string, string>>(
      `/v1/members/${memberId}`,
    );
    return { id, first_name, last_name, email };
  };

  test('of hand-offs come from the cache, and never from the CRM', async () => {
    const id = await handOff();
    const before = await calls();
    const path = `/v1/handoffs/${id}?include=member`;
    assert.equal((await read(path)).member, null);
    assert.equal(await calls(), before);
    const shown = await amara();
    const answered = await calls();
    assert.deepEqual((await read(path)).member, shown);
    assert.deepEqual((await listed('/v1/handoffs?include=member'))[0]?.member, shown);
    assert.equal(await calls(), answered);
    assert.equal('member' in (await read(`/v1/handoffs/${id}`)), false);
    // What is to be written stays last, with its details.
    const { request } = await read<{ request: { result: { details: unknown } } }>(path);
    assert.deepEqual(request.result.details, offerFor(memberId).result.details);
  });

  test('of reservations are those of the CRM', async () => {
    const made = await gateway.request('/v1/reservations', {
      body: newReservation(memberId),
      headers: { 'idempotency-key': randomUUID() },
    });
    assert.equal(made.status, 201, await made.clone().text());
    const { id } = (await made.json()) as { id: string };
    const shown = await amara();
    const plain = await gateway.request(`/v1/reservations/${id}`, { as: agent });
    const included = await gateway.request(`/v1/reservations/${id}?include=member`, { as: agent });
    assert.notEqual(plain.headers.get('etag'), included.headers.get('etag'));
    assert.deepEqual(((await included.json()) as Shown).member, shown);
    assert.equal('member' in ((await plain.json()) as Shown), false);
    assert.deepEqual((await listed('/v1/reservations?include=member'))[0]?.member, shown);
  });

  test('of reservations do without the CRM during an outage', async (context) => {
    const id = randomUUID();
    await gateway.org.insert('Contact', [{ External_Id__c: id, FirstName: 'Noor', LastName: 'Late' }]);
    const made = await gateway.request('/v1/reservations', {
      body: newReservation(id),
      headers: { 'idempotency-key': randomUUID() },
    });
    assert.equal(made.status, 201, await made.clone().text());
    await amara();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    context.after(() => gateway.org.disarm());
    const of = (all: Shown[], member: string) => all.find(({ member_id }) => member_id === member)?.member;
    const found = await listed('/v1/reservations?include=member');
    assert.equal(of(found, id), null);
    assert.equal(of(found, memberId)?.id, memberId);
    await gateway.org.disarm();
    await eventually(async () =>
      assert.equal(of(await listed('/v1/reservations?include=member'), id)?.last_name, 'Late'),
    );
  });

  test('need members:read and sight of the member, and show the fields that the caller may see', async () => {
    const id = await handOff();
    const paths = [`/v1/handoffs/${id}`, '/v1/handoffs', '/v1/reservations'];
    const none = await make({ resource: 'bookings', actions: ['read'] });
    const blind = await make(
      { resource: 'members', actions: ['read'] },
      { resource: 'bookings', actions: ['read'], fields: ['name'] },
    );
    const named = await make(
      { resource: 'members', actions: ['read'], fields: ['first_name'] },
      { resource: 'bookings', actions: ['read'] },
    );
    await amara();
    for (const path of paths) {
      for (const as of [none, blind])
        await assertProblem(
          await gateway.request(`${path}?include=member`, { as }),
          403,
          'permission_denied',
        );
      await assertProblem(
        await gateway.request(`${path}?include=trip`, { as: named }),
        400,
        'invalid_request',
        'include',
      );
    }
    const { member } = await read(`/v1/handoffs/${id}?include=member`, named);
    assert.deepEqual(Object.keys(member ?? {}), ['id', 'first_name']);
  });
});
