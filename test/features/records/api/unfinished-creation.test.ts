import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';
import { newReservation } from '../../../support/reservations.ts';

describe('a repeat of an unfinished creation', () => {
  const gateway = useGateway();

  const cases = [
    ['approval_required', { actions: ['read', 'write'], approval: true }],
    ['permission_denied', { actions: ['read'] }],
  ] as const;
  for (const [code, permission] of cases) {
    test(`is answered with its record where a new one is ${code}`, async () => {
      const as = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'] });
      const { trip_id, member_id } = newReservation(gateway.org.memberId);
      const body = { trip_id, member_id, name: 'x', source: 'x', details: {} };
      const create = (key: string) =>
        gateway.request('/v1/quotes', { method: 'POST', as, body, headers: { 'idempotency-key': key } });
      const made = randomUUID();
      for (const [match, kind] of [
        [{ recordKey: trip_id }, 'loseAnswer'],
        [{ operation: 'query' }, 'reset'],
        [{ operation: 'queryAll' }, 'reset'],
      ] as const)
        await gateway.org.arm({ match, effect: { kind } });
      const lost = await create(made);
      assert.ok(lost.status >= 500, `${lost.status}`);
      await gateway.org.disarm();
      const narrowed = await gateway.request(`/v1/admin/consumers/${as.id}`, {
        method: 'PATCH',
        body: { permissions: [{ resource: 'quotes', ...permission }] },
        as: gateway.admin,
      });
      assert.equal(narrowed.status, 200);
      await assertProblem(await create(randomUUID()), 403, code);
      await eventually(async () => {
        const answer = await create(made);
        assert.equal(answer.status, 201, await answer.text());
      });
    });
  }
});
