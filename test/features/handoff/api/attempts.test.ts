import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { type AcceptedHandoff, accept, readHandoff, untilHandoff } from '../../../support/handoffs.ts';
import { startPostgres } from '../../../support/postgres.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

const down = { match: {}, effect: { kind: 'down' } };
const failing = { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'Marta Ruiz' };

for (const [where, url] of [
  ['PostgreSQL', postgres?.url],
  ['the embedded database', ''],
] as const)
  describe(`attempts of a hand-off, in ${where}`, { skip: url === undefined && 'no PostgreSQL' }, () => {
    let gateway: TestGateway;
    before(async () => {
      gateway = await startGateway({ DATABASE_URL: url });
    });
    after(() => gateway?.stop());
    afterEach(() => gateway.org.disarm());

    test('in an outage each says when it was, how long it took, and what went wrong', async () => {
      const since = Date.now();
      const outage = await gateway.org.arm(down);
      const externalId = await accept(gateway);
      const waiting = await untilHandoff(gateway, externalId, ({ attempts }) => attempts > 1);
      assert.equal(waiting.next_attempt_at, null, 'when the CRM is back, nobody knows');
      const [first] = waiting.latest_attempts ?? [];
      assert.equal(first?.number, 1);
      assert.ok(Date.parse(first.at) >= since - 1000 && Date.parse(first.at) <= Date.now(), first.at);
      assert.ok(first.duration_ms >= 0);
      assert.deepEqual(first.problem, {
        code: 'crm_unavailable',
        detail: "The CRM isn't available right now.",
      });

      await outage.remove();
      const { latest_attempts: all = [], attempts } = await untilHandoff(gateway, externalId);
      assert.equal(all.length, attempts);
      assert.deepEqual(
        all.map(({ number }) => number),
        Array.from({ length: attempts }, (_, index) => index + 1),
      );
      assert.deepEqual(all.at(-1)?.problem, null);
      assert.deepEqual(all[0], {
        ...first,
        problem: { ...first.problem, detail: "The CRM isn't available." },
      });
    });

    test('a refusal stands with its words, also once it is tried again', async () => {
      const externalId = await accept(gateway, { member_id: randomUUID() });
      const isFailedAfter = (count: number) => (handoff: AcceptedHandoff) =>
        handoff.status === 'failed' && handoff.attempts === count;
      const failed = await untilHandoff(gateway, externalId, isFailedAfter(1));
      const problem = { code: 'member_not_found', detail: failed.problem?.detail };
      assert.deepEqual(
        failed.latest_attempts?.map((one) => [one.number, one.problem]),
        [[1, problem]],
      );
      await gateway.request(`/v1/handoffs/${externalId}/retry`, { method: 'POST' });
      const again = await untilHandoff(gateway, externalId, isFailedAfter(2));
      assert.deepEqual(
        again.latest_attempts?.map((one) => [one.number, one.problem]),
        [
          [1, problem],
          [2, problem],
        ],
      );
    });

    test("a hand-off's own failure sets the time of the next attempt, and says nothing of the CRM's own", async () => {
      const trip_id = randomUUID();
      await gateway.org.arm({ match: { operation: 'create', recordKey: trip_id }, effect: failing });
      const externalId = await accept(gateway, { trip_id });
      const waiting = await untilHandoff(gateway, externalId, (handoff) => handoff.next_attempt_at !== null);
      assert.ok(
        Date.parse(waiting.next_attempt_at ?? '') > Date.parse(waiting.latest_attempts?.at(-1)?.at ?? ''),
      );
      assert.equal(waiting.latest_attempts?.at(-1)?.problem?.code, 'crm_error');
      const text = JSON.stringify(waiting.latest_attempts);
      assert.ok(!/Marta|UNKNOWN_EXCEPTION|__c|[a-zA-Z0-9]{18}/.test(text), text);
    });

    test('what is withdrawn keeps no words, and lists have no attempts', async () => {
      const member_id = randomUUID();
      const externalId = await accept(gateway, { member_id });
      await untilHandoff(gateway, externalId, ({ status }) => status === 'failed');
      await gateway.request(`/v1/handoffs/${externalId}`, { method: 'DELETE' });
      const { latest_attempts } = await readHandoff(gateway, externalId);
      assert.deepEqual(latest_attempts?.[0]?.problem, {
        code: 'member_not_found',
        detail: "The member doesn't exist.",
      });
      const list = (await (await gateway.request('/v1/handoffs')).json()) as { data: AcceptedHandoff[] };
      assert.ok(list.data.every((handoff) => !('latest_attempts' in handoff)));
    });
  });

describe('stored attempts', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  let database: Client;
  before(async () => {
    gateway = await startGateway({ DATABASE_URL: postgres?.url as string });
    database = new Client({ connectionString: postgres?.url as string });
    await database.connect();
  });
  after(async () => {
    await gateway?.stop();
    await database?.end();
  });

  test('are the last twenty, without words that are too long', async () => {
    const externalId = await accept(gateway, { member_id: randomUUID() });
    await untilHandoff(gateway, externalId, ({ status }) => status === 'failed');
    await database.query(
      `update handoffs set attempts = 30, tries = (
        select jsonb_agg(jsonb_set(tries -> 0, '{number}', to_jsonb(number)) order by number)
        from generate_series(11, 30) as number) where external_id = $1`,
      [externalId],
    );
    await gateway.request(`/v1/handoffs/${externalId}/retry`, { method: 'POST' });
    const { latest_attempts } = await untilHandoff(
      gateway,
      externalId,
      ({ status, attempts }) => status === 'failed' && attempts === 31,
    );
    assert.deepEqual(
      latest_attempts?.map(({ number }) => number),
      Array.from({ length: 20 }, (_, index) => index + 12),
    );
  });
});
