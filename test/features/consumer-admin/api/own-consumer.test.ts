import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Credentials, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

interface Rotation {
  id: string;
  apiKey: string;
  apiSecret: string;
  previous: { apiKey: string; expiresAt: string };
}

const gateway = useGateway();

const rotate = (as: Credentials, body?: object) =>
  gateway.request('/v1/consumer/rotate', { method: 'POST', as, ...(body && { body }) });
const newPartner = () => gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'] });
const own = async (as: Credentials) => {
  const response = await gateway.request('/v1/consumer', { as });
  assert.equal(response.status, 200);
  return (await response.json()) as {
    permissions: object[];
    credentials: { apiKey: string; state: string }[];
  };
};

describe('rotating one’s own pair', () => {
  test('needs no permission on consumers, and changes nothing but the pair', async () => {
    const partner = await newPartner();
    const before = await own(partner);
    const response = await rotate(partner, { grace_window_hours: 2 });
    assert.equal(response.status, 200);
    const made = (await response.json()) as Rotation;
    assert.equal(made.id, partner.id);
    assert.equal(made.previous.apiKey, partner.apiKey);
    const grace = Date.parse(made.previous.expiresAt) - Date.now();
    assert.ok(grace > 1.9 * 3_600_000 && grace <= 2 * 3_600_000);
    assert.deepEqual((await own({ ...partner, ...made })).permissions, before.permissions);
    assert.deepEqual(
      (await own(partner)).credentials.map(({ apiKey, state }) => [apiKey, state]),
      [
        [made.apiKey, 'active'],
        [partner.apiKey, 'rotated'],
      ],
    );
  });

  test('cuts the old pair at once where no grace is wanted, and says which field of a request is wrong', async () => {
    const partner = await newPartner();
    await assertProblem(
      await rotate(partner, { grace_window_hours: -1 }),
      400,
      'invalid_request',
      '#/grace_window_hours',
    );
    assert.equal((await rotate(partner, { grace_window_hours: 0 })).status, 200);
    await assertProblem(await rotate(partner), 401, 'invalid_credentials');
  });

  test('is refused to a pair that was rotated already, and the new pair stays', async () => {
    const partner = await newPartner();
    const made = (await (await rotate(partner)).json()) as Rotation;
    await assertProblem(await rotate(partner, { grace_window_hours: 0 }), 403, 'permission_denied');
    await own(partner);
    assert.equal((await rotate({ ...partner, ...made })).status, 200);
  });

  test('by several at once is done once', async () => {
    const partner = await newPartner();
    const answers = await Promise.all([1, 2, 3, 4].map(() => rotate(partner)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 403, 403, 403]);
    const won = answers.find(({ ok }) => ok) as Response;
    await own({ ...partner, ...((await won.json()) as Rotation) });
  });

  test('with a pair that another rotation has ended meanwhile makes none', async () => {
    const partner = await newPartner();
    const answers = await Promise.all([1, 2, 3, 4].map(() => rotate(partner, { grace_window_hours: 0 })));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 401, 401, 401]);
    const won = answers.find(({ ok }) => ok) as Response;
    await own({ ...partner, ...((await won.json()) as Rotation) });
  });

  test('is recorded as a change by the consumer itself', async () => {
    const partner = await newPartner();
    assert.equal((await rotate(partner)).status, 200);
    const list = await gateway.request(`/v1/admin/audit-events?target_id=${partner.id}`, {
      as: gateway.admin,
    });
    const { data } = (await list.json()) as { data: { action: string; actor: { id: string } }[] };
    assert.deepEqual([data[0]?.action, data[0]?.actor.id], ['consumer.rotated', partner.id]);
  });
});

test('attempts are those of the caller alone, with its filters', async () => {
  const [partner, other] = [await newPartner(), await newPartner()];
  const wrong = { ...partner, apiSecret: other.apiSecret };
  await assertProblem(await gateway.request('/v1/quotes', { as: wrong }), 401, 'invalid_credentials');
  const read = async (query: string, as = partner) => {
    const response = await gateway.request(`/v1/consumer/auth-attempts${query}`, { as });
    assert.equal(response.status, 200);
    return (await response.json()) as {
      data: { consumer_id: string; result: string }[];
      next_cursor: string;
      has_more: boolean;
    };
  };
  const { data } = await read('?limit=200');
  assert.ok(data.length > 0 && data.every(({ consumer_id }) => consumer_id === partner.id));
  assert.equal((await read('?result=wrong_secret')).data.length, 1);
  assert.equal((await read('?result=wrong_secret', other)).data.length, 0);
  const first = await read('?limit=1');
  const strange = `?limit=1&cursor=${encodeURIComponent(first.next_cursor)}`;
  await read(strange);
  const response = await gateway.request(`/v1/consumer/auth-attempts${strange}`, { as: other });
  await assertProblem(response, 400, 'invalid_cursor', 'cursor');
  await assertProblem(
    await gateway.request(`/v1/consumer/auth-attempts?consumer_id=${other.id}`, { as: partner }),
    400,
    'invalid_request',
    'consumer_id',
  );
});
