import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { openBudget } from '../support/call-budget.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { offerFor } from '../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { assertProblem } from '../support/problems.ts';
import { recordFor } from '../support/records.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';

interface Health {
  crm: { quota: { used: number; limit: number; budget: number; budget_used: number } };
}

function clientOf(gateway: TestGateway) {
  const { memberId } = gateway.org;
  return {
    read: () => gateway.request(`/v1/quotes/${randomUUID()}`),
    list: () => gateway.request('/v1/bookings'),
    write: (key: string = randomUUID(), name = 'x') =>
      gateway.request('/v1/quotes', {
        body: recordFor(memberId, { name }),
        headers: { 'idempotency-key': key },
      }),
    handOff: (headers: Record<string, string> = {}) =>
      gateway.request('/api/v1/handoff', { body: offerFor(memberId), headers }),
    health: async () => (await (await gateway.request('/v1/healthz')).json()) as Health,
    metered: async () => (await gateway.org.counters())['metered'] as number,
  };
}

describe('a budget that is used up', () => {
  let gateway: TestGateway;
  let client: ReturnType<typeof clientOf>;
  before(async () => {
    // 30 calls at once, and one in 36 minutes.
    gateway = await startGateway({ CRM_DAILY_CALL_BUDGET: '40', RATE_LIMIT_PER_MINUTE: '0' });
    client = clientOf(gateway);
    // The service itself takes one.
    await gateway.org.untilDescribed();
    for (let calls = 0; (await client.metered()) < 30; calls += 1) {
      assert.ok(calls < 30);
      const isRead = calls % 2 === 0;
      const { status } = await (isRead ? client.read() : client.list());
      assert.equal(status, isRead ? 404 : 200);
    }
  });
  after(() => gateway.stop());

  test('refuses early, says honestly when to come again, and touches no key', async () => {
    const key = randomUUID();
    for (const send of [client.read, client.list, client.handOff, () => client.write(key)]) {
      const answer = await send();
      const { retry_after: seconds = 0 } = await assertProblem(answer, 503, 'crm_quota_exhausted');
      assert.equal(Number(answer.headers.get('retry-after')), seconds);
      assert.ok(seconds > 2000 && seconds <= 2160, `${seconds}`);
    }
    assert.equal(await client.metered(), 30);
    // Another request under the same key is refused for the same reason, and not as another use of the key.
    await assertProblem(await client.write(key, 'other'), 503, 'crm_quota_exhausted');
  });

  test('shows in health and metrics what was used', async () => {
    const { crm } = await client.health();
    assert.deepEqual({ ...crm.quota, limit: 0 }, { used: 30, limit: 0, budget: 40, budget_used: 30 });
    const metrics = await gateway.metrics();
    const shown = metrics
      .split('\n')
      .filter((line) => /^handoff_crm_(calls_total|budget(_used)? )/.test(line));
    assert.deepEqual(shown.toSorted(), [
      'handoff_crm_budget 40',
      'handoff_crm_budget_used 30',
      'handoff_crm_calls_total{operation="describe"} 1',
      'handoff_crm_calls_total{operation="query"} 29',
    ]);
    assert.ok(/^handoff_crm_turned_away_total\{reason="budget"\} [1-9]/m.test(metrics));
  });

  test('keeps hand-offs that may be delivered later', async () => {
    const answer = await client.handOff({ prefer: 'respond-async' });
    assert.equal(answer.status, 202);
    const waiting = await (await gateway.request(answer.headers.get('location') as string)).json();
    assert.equal((waiting as { status: string }).status, 'accepted');
    assert.equal(await client.metered(), 30);
  });
});

const redis = await startRedis();

describe('a budget that is short', { skip: redis === undefined && 'no redis-server' }, () => {
  // A call in two seconds, and requests wait five seconds.
  const budgetOf = 43_200;
  let gateway: TestGateway;
  let client: ReturnType<typeof clientOf>;
  let budget: Awaited<ReturnType<typeof openBudget>>;
  before(async () => {
    const { url } = redis as RedisServer;
    gateway = await startGateway({
      ...{ REDIS_URL: url, CRM_DAILY_CALL_BUDGET: String(budgetOf), CRM_MAX_WAIT_MS: '5000' },
      RATE_LIMIT_PER_MINUTE: '0',
    });
    client = clientOf(gateway);
    await gateway.org.untilDescribed();
    await client.read();
    budget = await openBudget(url, join(gateway.dataDir, 'secrets'), budgetOf);
  });
  beforeEach(() => budget.drain());
  after(async () => {
    await budget.close();
    await gateway.stop();
    await redis?.stop();
  });

  test('sends what waits in the next call', async () => {
    const before = await client.metered();
    const answers = await Promise.all(Array.from({ length: 40 }, () => client.read()));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [404]);
    assert.ok((await client.metered()) - before <= 2);
  });

  test('serves a write before a list that came before it, and reads in the same call', async () => {
    const before = await client.metered();
    const first: string[] = [];
    const note = (what: string) => () => void first.push(what);
    const lists = client.list().then(note('list'));
    const reads = client.read().then(note('read'));
    await Promise.all([client.write().then(note('write')), lists, reads]);
    assert.equal(first.at(-1), 'list');
    assert.equal((await client.metered()) - before, 2);
  });

  test('puts reads and writes of several resources into one call', async () => {
    const before = await client.metered();
    const answers = await Promise.all([
      ...[client.read(), client.read(), client.write(), client.write()],
      ...[gateway.request(`/v1/bookings/${randomUUID()}`), gateway.request(`/v1/members/${randomUUID()}`)],
    ]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [404, 404, 201, 201, 404, 404],
    );
    assert.equal((await client.metered()) - before, 1);
    const metrics = await gateway.metrics();
    assert.match(metrics, /^handoff_crm_calls_total\{operation="mixed"\} [1-9]/m);
  });

  test('delivers accepted hand-offs within it, together', async () => {
    const before = await client.metered();
    const prefer = { prefer: 'respond-async' };
    const answers = await Promise.all(Array.from({ length: 30 }, () => client.handOff(prefer)));
    for (const answer of answers) {
      const location = answer.headers.get('location') as string;
      await eventually(async () => {
        const { status } = (await (await gateway.request(location)).json()) as { status: string };
        assert.equal(status, 'created');
      });
    }
    assert.ok((await client.metered()) - before <= 4);
  });
});

describe('a replica that has made no call', { skip: redis === undefined && 'no redis-server' }, () => {
  const budgetOf = 40;
  let own: OwnOrg;
  let first: TestGateway;
  let second: TestGateway;
  let server: RedisServer;
  /** Before any replica has made a call. */
  let atFirst: Health['crm']['quota'];
  before(async () => {
    server = (await startRedis()) as RedisServer;
    own = await startOwnOrg();
    // This one cannot reach the org.
    const env = { ...own.env, REDIS_URL: server.url, CRM_DAILY_CALL_BUDGET: String(budgetOf) };
    first = await startGateway({ ...env, CRM_LOGIN_URL: 'http://127.0.0.1:1' });
    atFirst = await quotaOf(first);
    const secretsDir = join(first.dataDir, 'secrets');
    await own.trust(secretsDir);
    second = await startGateway({ ...env, SECRETS_DIR: secretsDir });
  });
  after(async () => {
    await second.stop();
    await first.stop();
    await own.close();
    await server.stop();
  });
  const quotaOf = async (gateway: TestGateway) => {
    const answer = await gateway.request('/v1/healthz', { as: first.console });
    return ((await answer.json()) as Health).crm.quota;
  };

  test('shows the budget and what is used of it, and of the org what another one has learnt', async () => {
    assert.deepEqual(atFirst, { used: 0, limit: 40, budget: 40, budget_used: 0 });
    await eventually(async () => assert.notEqual((await quotaOf(second)).limit, 40), {
      pause: () => second.request(`/v1/quotes/${randomUUID()}`, { as: first.console }),
    });
    let quota = await quotaOf(first);
    const deadline = performance.now() + 20_000;
    while (quota.limit === 40 && performance.now() < deadline) {
      await delay(50);
      // What it has learnt is shared when it next looks at the budget.
      await quotaOf(second);
      quota = await quotaOf(first);
    }
    assert.equal(quota.limit, (await quotaOf(second)).limit);
    assert.ok(quota.limit > 40 && quota.used >= 1 && quota.budget_used >= 1, JSON.stringify(quota));
    assert.match(await first.metrics(), /^handoff_crm_budget 40$/m);
    assert.doesNotMatch(await first.metrics(), /^handoff_crm_calls_total\{[^}]*\} [1-9]/m);
  });
});
