import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { useGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';

interface Shown {
  id: string;
  member_id: string;
  member?: Record<string, string | null> | null;
}

const all = ['read', 'write'];

for (const copied of [false, true])
  describe(`include=member, ${copied ? 'from the copy' : 'from the CRM'}`, () => {
    const gateway = useGateway({
      ...(copied && { COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '1', CHANGES_MINIMUM_SECONDS: '1' }),
    });
    let id: string;
    let tripId: string;
    const headers: Record<string, string> = copied ? { 'cache-control': 'max-age=3600' } : {};

    before(async () => {
      const body = offerFor(gateway.org.memberId);
      const made = await gateway.request('/api/v1/handoff', { body });
      assert.equal(made.status, 201);
      id =
        ((await (await gateway.request(`/v1/quotes?trip_id=${body.trip_id}`)).json()) as { data: Shown[] })
          .data[0]?.id ?? '';
      tripId = body.trip_id;
      if (copied) await untilCopied();
    });

    /** Within a minute. */
    async function untilCopied(): Promise<void> {
      for (let tries = 0; tries < 600; tries++) {
        const page = await read(`/v1/quotes?trip_id=${tripId}&include=member`);
        if (page.headers.has('age')) return;
        await sleep(100);
      }
      assert.fail('no answer came from the copy');
    }
    const read = async (path: string, as = gateway.console): Promise<Response> =>
      gateway.request(path, { as, headers });
    const expected = async () => {
      const response = await gateway.request(`/v1/members/${gateway.org.memberId}`);
      const {
        id: memberId,
        first_name,
        last_name,
        email,
      } = (await response.json()) as Record<string, string>;
      return { id: memberId, first_name, last_name, email };
    };

    test('shows the member on one record and on lists, in one call, and not without being asked', async () => {
      const member = await expected();
      const before = Number((await gateway.org.counters())['metered']);
      const one = await read(`/v1/quotes/${id}?include=member`);
      const shown = (await one.json()) as Shown;
      assert.deepEqual(shown.member, member);
      if (!copied) assert.equal(Number((await gateway.org.counters())['metered']) - before, 1);
      const page = (await (await read(`/v1/quotes?trip_id=${tripId}&include=member`)).json()) as {
        data: Shown[];
      };
      assert.deepEqual(
        page.data.map((row) => row.member),
        [member],
      );
      assert.ok(!('member' in ((await (await read(`/v1/quotes/${id}`)).json()) as Shown)));
      if (copied) assert.ok(one.headers.has('age'));
    });

    test('shows what the caller may see of members, and needs the permission', async () => {
      const narrow = await gateway.newConsumer(
        { resource: 'quotes', actions: all } as never,
        { resource: 'members', actions: ['read'], fields: ['first_name'] } as never,
      );
      const { member } = (await (await read(`/v1/quotes/${id}?include=member`, narrow)).json()) as Shown;
      assert.deepEqual(Object.keys(member ?? {}), ['id', 'first_name']);
      const none = await gateway.newConsumer({ resource: 'quotes', actions: all } as never);
      await assertProblem(await read(`/v1/quotes/${id}?include=member`, none), 403, 'permission_denied');
      await assertProblem(await read(`/v1/quotes/${id}?include=x`), 400, 'invalid_request', 'include');
    });

    test('has a tag for a change of the record', async () => {
      const tagOf = async () => (await read(`/v1/quotes/${id}?include=member`)).headers.get('etag') as string;
      const change = (ifMatch: string) =>
        gateway.request(`/v1/quotes/${id}`, {
          method: 'PATCH',
          body: { name: randomUUID() },
          headers: { 'if-match': ifMatch, 'idempotency-key': randomUUID() },
        });
      const tag = await tagOf();
      const again = await gateway.request(`/v1/quotes/${id}?include=member`, {
        headers: { ...headers, 'if-none-match': tag },
      });
      assert.equal(again.status, 304);
      assert.equal((await change(tag)).status, 200);
      await assertProblem(await change(tag), 412, 'precondition_failed');
    });

    test('asks a field that the org hides of those alone who are shown it', async () => {
      const narrow = await gateway.newConsumer(
        { resource: 'quotes', actions: all } as never,
        { resource: 'members', actions: ['read'], fields: ['first_name'] } as never,
      );
      const { first_name } = await expected();
      const fresh = { 'cache-control': 'no-cache' };
      const ask = (path: string, as = gateway.console) => gateway.request(path, { as, headers: fresh });
      await gateway.org.change({ missingFields: ['Contact.Email'] });
      try {
        for (const path of [
          `/v1/quotes/${id}?include=member`,
          `/v1/quotes?trip_id=${tripId}&include=member`,
        ]) {
          const { detail } = await assertProblem(await ask(path), 502, 'crm_error');
          assert.match(detail, /email \(Contact\.Email\) doesn't exist/);
          assert.equal((await ask(path, narrow)).status, 200);
        }
        const { member } = (await (await ask(`/v1/quotes/${id}?include=member`, narrow)).json()) as Shown;
        assert.deepEqual(member, { id: gateway.org.memberId, first_name });
        assert.equal((await ask(`/v1/trips/${tripId}`)).status, 200);
      } finally {
        await gateway.org.change({ missingFields: [] });
      }
    });
  });
