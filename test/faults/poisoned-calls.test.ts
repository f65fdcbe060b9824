import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { openBudget } from '../support/call-budget.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';

const postgres = await startPostgres();
const redis = await startRedis();
const skip = (!postgres || !redis) && 'there is no PostgreSQL or no Redis';

/** A call in two seconds. */
const dailyCalls = 43_200;
/** On each gateway; those of a name that a trigger refuses are two of all. */
const perGateway = 40;
const poisoned = 'poisoned';

describe('two gateways whose writes share calls with records that fail them, under a short budget', {
  skip,
}, () => {
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let budget: Awaited<ReturnType<typeof openBudget>>;

  before(async () => {
    const { url } = redis as RedisServer;
    ownOrg = await startOwnOrg();
    cluster = await startCluster(2, ownOrg, {
      ...{ DATABASE_URL: postgres?.url, REDIS_URL: url, RATE_LIMIT_PER_MINUTE: '0' },
      ...{ CRM_DAILY_CALL_BUDGET: String(dailyCalls), CRM_MAX_WAIT_MS: '20000' },
    });
    budget = await openBudget(url, cluster.secretsDir, dailyCalls);
  });
  after(async () => {
    await cluster.remove();
    await budget.close();
    await ownOrg.close();
    await redis?.stop();
    await postgres?.stop();
  });

  async function post(n: number, key: string, name: string) {
    const { url } = cluster.gateways[n % 2] ?? assert.fail();
    const { apiKey, apiSecret } = cluster.credentials.console;
    const offer = { trip_id: randomUUID(), member_id: cluster.org.memberId, name, source: 'x', details: {} };
    const answer = await fetch(`${url}/v1/bookings`, {
      method: 'POST',
      headers: {
        ...{ 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'content-type': 'application/json' },
        'idempotency-key': key,
      },
      body: JSON.stringify(offer),
    });
    const { code } = (await answer.json()) as { code?: string };
    return {
      name,
      outcome: `${answer.status} ${code ?? ''}`.trim(),
      retryAfter: answer.headers.get('retry-after'),
    };
  }

  it('answer what got no call 503 crm_quota_exhausted, never a timeout, and did nothing of it', async () => {
    const when = { field: 'Name__c', equals: poisoned };
    const trigger = {
      name: 'Audit',
      object: 'Booking__c',
      on: ['beforeInsert'],
      when,
      action: { kind: 'throw' },
    };
    await cluster.org.automate({ triggers: [trigger] });
    await budget.drain();
    const names = Array.from({ length: 2 * perGateway }, (_, n) =>
      n === 13 || n === 54 ? poisoned : `name ${n}`,
    );
    const answers = await Promise.all(names.map((name, n) => post(n, randomUUID(), name)));
    const outcomes = Object.groupBy(answers, ({ outcome }) => outcome);
    const unexpected = answers.filter(({ name, outcome }) => {
      const isRefused = name === poisoned && outcome === '422 crm_rejected';
      const isMade = name !== poisoned && outcome === '201';
      return !isRefused && !isMade && outcome !== '503 crm_quota_exhausted';
    });
    assert.deepEqual(unexpected, []);
    const refused = outcomes['503 crm_quota_exhausted'] ?? [];
    assert.ok(refused.every(({ retryAfter }) => Number(retryAfter) >= 1));
    const made = await cluster.org.records('Booking__c');
    assert.deepEqual(
      made.map((record) => record['Name__c']).toSorted(),
      answers.flatMap(({ name, outcome }) => (outcome === '201' ? [name] : [])).toSorted(),
    );
  });
});
