import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

describe('/v1/members', () => {
  const gateway = useGateway();

  test('reads one and lists them, filtered by email', async () => {
    const response = await gateway.request(`/v1/members/${gateway.org.memberId}`);
    const member = (await response.json()) as Record<string, string>;
    assert.equal(response.status, 200);
    assert.ok(response.headers.get('etag'));
    assert.deepEqual(Object.keys(member), [
      'id',
      'first_name',
      'last_name',
      'email',
      'phone',
      'created_at',
      'updated_at',
    ]);
    const page = await gateway.request(`/v1/members?email=${encodeURIComponent(member.email ?? '')}`);
    const { data } = (await page.json()) as { data: Record<string, string>[] };
    assert.ok(data.some(({ id }) => id === member.id));
    assert.ok(data.every(({ email }) => email === member.email));
  });

  test('is null where the CRM has nothing', async () => {
    const id = randomUUID();
    await gateway.org.insert('Contact', [{ LastName: 'Only', External_Id__c: id }]);
    const member = (await (await gateway.request(`/v1/members/${id}`)).json()) as object;
    assert.partialDeepStrictEqual(member, {
      id,
      first_name: null,
      last_name: 'Only',
      email: null,
      phone: null,
    });
  });

  test('answers 404 for an unknown one, 400 for no UUID, 405 for writes', async () => {
    await assertProblem(await gateway.request(`/v1/members/${randomUUID()}`), 404, 'not_found');
    await assertProblem(await gateway.request('/v1/members/1'), 400, 'invalid_request', 'externalId');
    const post = await gateway.request('/v1/members', { body: {} });
    await assertProblem(post, 405, 'method_not_allowed');
    assert.equal(post.headers.get('allow'), 'GET, HEAD, OPTIONS');
  });
});
