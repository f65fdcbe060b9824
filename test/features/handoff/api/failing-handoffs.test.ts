import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { accept, offerFor, readHandoff, respondAsync, untilHandoff } from '../../../support/handoffs.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';

const failed = { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'x' };

/** The ids of so many that are accepted, of one consumer or of the console. */
async function acceptMany(gateway: TestGateway, count: number, change = {}, options = {}): Promise<string[]> {
  const ids: string[] = [];
  for (let number = 0; number < count; number++) ids.push(await accept(gateway, change, options));
  return ids;
}

/** Milliseconds until all are created. */
async function untilCreated(gateway: TestGateway, ids: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  for (const id of ids) await untilHandoff(gateway, id);
  return performance.now() - startedAt;
}

describe('accepted hand-offs that fail or hang', () => {
  const gateway = useGateway({ RATE_LIMIT_PER_MINUTE: '0' });
  afterEach(() => gateway.org.disarm());

  test('hold nobody up within 30 s where the CRM hangs over 12 of 48', async (context) => {
    const hold = await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const good: string[] = [];
    for (let number = 0; number < 12; number++) {
      const trip_id = randomUUID();
      await gateway.org.arm({ match: { operation: 'create', recordKey: trip_id }, effect: { kind: 'hang' } });
      await accept(gateway, { trip_id });
      good.push(...(await acceptMany(gateway, 3)));
    }
    await hold.remove();
    const ms = await untilCreated(gateway, good);
    context.diagnostic(`36 good ones among 12 that hang: ${Math.round(ms)} ms`);
    assert.ok(ms < 30_000);
    const live = await gateway.request('/api/v1/handoff', { body: offerFor(gateway.org.memberId) });
    assert.equal(live.status, 201);
  });

  for (const [what, effect] of [
    ['is locked', { kind: 'lockRow' }],
    ['is not answered for', { kind: 'reset' }],
  ] as const) {
    test(`hold nobody up where the record of the first one ${what}`, async () => {
      const trip_id = randomUUID();
      const fault = await gateway.org.arm({ match: { operation: 'create', recordKey: trip_id }, effect });
      const first = await accept(gateway, { trip_id });
      await untilHandoff(gateway, first, ({ attempts }) => attempts > 1);
      const ms = await untilCreated(gateway, await acceptMany(gateway, 5));
      assert.ok(ms < 30_000);
      assert.equal((await readHandoff(gateway, first)).status, 'accepted');
      await fault.remove();
    });
  }

  test('hold nobody up within 30 s where one type fails as a whole', async (context) => {
    await gateway.org.arm({ match: { method: 'POST', object: 'Booking__c' }, effect: failed });
    const bookings = await acceptMany(gateway, 210, { type: 'booking' });
    const ms = await untilCreated(gateway, await acceptMany(gateway, 24));
    context.diagnostic(`24 quotes behind 210 bookings that fail: ${Math.round(ms)} ms`);
    assert.ok(ms < 30_000);
    assert.equal((await readHandoff(gateway, bookings[0] ?? '')).status, 'accepted');
    await gateway.org.disarm();
  });
});

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('the end of accepted hand-offs that fail', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  let database: Client;
  before(async () => {
    gateway = await startGateway({ DATABASE_URL: postgres?.url as string, CRM_TIMEOUT_MS: '1000' });
    database = new Client({ connectionString: postgres?.url as string });
    await database.connect();
  });
  after(async () => {
    await gateway?.stop();
    await database?.end();
  });
  afterEach(() => gateway.org.disarm());

  /** Milliseconds that a hand-off was put off in all, until it ended; time is made to pass. */
  const untilEnded = async (externalId: string): Promise<number> => {
    let seconds = 0;
    await eventually(async () => {
      if ((await readHandoff(gateway, externalId)).status !== 'accepted') return;
      const { rows } = await database.query<{ pause: number }>(
        `update handoffs h set due_at = now() from handoffs before
         where h.external_id = before.external_id and h.external_id = $1 and h.status = 'accepted'
           and h.due_at > now() + interval '1 second'
         returning extract(epoch from before.due_at - now())::double precision as pause`,
        [externalId],
      );
      seconds += rows[0]?.pause ?? 0;
      assert.fail(`accepted still, put off by ${seconds} s`);
    });
    return seconds;
  };

  for (const [what, effect, code] of [
    ['fails', failed, 'crm_error'],
    ['hangs', { kind: 'hang' }, 'crm_timeout'],
    ['breaks the connection', { kind: 'reset' }, 'crm_unavailable'],
  ] as const) {
    test(`one over which the CRM ${what} has failed within 24 h, and can be tried again`, async (context) => {
      const trip_id = randomUUID();
      const fault = await gateway.org.arm({ match: { operation: 'create', recordKey: trip_id }, effect });
      const externalId = await accept(gateway, { trip_id });
      const seconds = await untilEnded(externalId);
      context.diagnostic(`after ${Math.round(seconds / 360) / 10} h`);
      assert.ok(seconds < 24 * 3600);
      const { status, problem } = await readHandoff(gateway, externalId);
      assert.deepEqual([status, problem?.code], ['failed', code]);
      await fault.remove();
      await gateway.request(`/v1/handoffs/${externalId}/retry`, { method: 'POST' });
      await untilHandoff(gateway, externalId);
    });
  }

  test('none fails for a CRM that is down, however often it is tried', async () => {
    const outage = await gateway.org.arm({ match: {}, effect: { kind: 'hang' } });
    const ids = await acceptMany(gateway, 3);
    await untilHandoff(gateway, ids[0] ?? '', ({ attempts }) => attempts > 2);
    const { rows } = await database.query('select max(troubles) as troubles from handoffs');
    await outage.remove();
    await untilCreated(gateway, ids);
    assert.equal(rows[0].troubles, 0);
  });
});

describe('consumers that hand off', () => {
  const gateway = useGateway({ HANDOFF_QUEUE_LIMIT: '20', RATE_LIMIT_PER_MINUTE: '0' });
  let other: Awaited<ReturnType<TestGateway['newConsumer']>>;
  before(async () => {
    const all = ['read', 'write', 'delete'];
    other = await gateway.newConsumer({ resource: 'quotes', actions: all } as never);
  });
  afterEach(() => gateway.org.disarm());

  test('have a fifth of the queue each', async () => {
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const ids = await acceptMany(gateway, 4);
    const body = offerFor(gateway.org.memberId);
    const refused = await gateway.request('/api/v1/handoff', { body, headers: respondAsync });
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    await assertProblem(refused, 503, 'crm_unavailable');
    ids.push(await accept(gateway, {}, { as: other }));
    await gateway.org.disarm();
    for (const id of ids) {
      await eventually(
        async () =>
          assert.notEqual((await gateway.org.records('Quote__c', { External_Id__c: id })).length, 0),
        { everyMs: 50 },
      );
    }
  });

  test('have no more of it by trying failed ones again', async () => {
    const failures: string[] = [];
    for (let number = 0; number < 5; number++) {
      const externalId = await accept(gateway, { member_id: randomUUID() });
      await untilHandoff(gateway, externalId, ({ status }) => status === 'failed');
      failures.push(externalId);
    }
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const answers: Response[] = [];
    for (const id of failures)
      answers.push(await gateway.request(`/v1/handoffs/${id}/retry`, { method: 'POST' }));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [202, 202, 202, 202, 503],
    );
    await assertProblem(answers[4] as Response, 503, 'crm_unavailable');
    await accept(gateway, {}, { as: other });
  });
});
