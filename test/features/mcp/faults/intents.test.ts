import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { randomFrom } from '../../../../simulators/shared/random.ts';
import { type Replicas, startReplicas } from '../../../support/chaos/replicas.ts';
import { eventually } from '../../../support/eventually.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { callTool } from '../../../support/mcp.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { startRedis } from '../../../support/redis.ts';

const count = { intents: 500, calls: 10_000, kills: 4, atOnce: 24 };
/** So many calls come between the first and the last of one intent: at each kill some are under way, and some done. */
const spread = 400;
const seed = Number(process.env['SOAK_SEED'] ?? Math.floor(Math.random() * 1e9));

/** What an agent asks for, and the External IDs that it got in answers. */
interface AgentRequest {
  given: object & { trip_id: string };
  answeredIds: Set<unknown>;
}

const opened = new AsyncDisposableStack();
after(() => opened.disposeAsync());
const postgres = await startPostgres();
opened.defer(() => postgres?.stop());
const redis = await startRedis();
opened.defer(() => redis?.stop());
const skip = !(postgres && redis) && 'no PostgreSQL or no Redis';

describe('intents while replicas are killed', { skip }, () => {
  let figures: Record<'done' | 'replayed' | 'refused' | 'broken', number>;
  let ownOrg: OwnOrg;
  let database: Client;
  let replicas: Replicas;
  const random = randomFrom(seed);

  before(async () => {
    ownOrg = await startOwnOrg();
    opened.defer(() => ownOrg.close());
    database = new Client({ connectionString: postgres?.url });
    await database.connect();
    opened.defer(() => database.end());
    const env = { DATABASE_URL: postgres?.url, REDIS_URL: redis?.url, RATE_LIMIT_PER_MINUTE: '0' };
    replicas = await startReplicas(2, ownOrg, env);
    opened.defer(() => replicas.remove());
  });

  /** Whether it was done, now or before. */
  async function call({ given, answeredIds }: AgentRequest): Promise<boolean> {
    const { anyUrl, credentials } = replicas;
    const result = await callTool(anyUrl(random), credentials, 'hand_off', given).catch((error: unknown) => {
      // No answer: the replica was dead, or died. All else is wrong.
      if (error instanceof TypeError) return undefined;
      throw error;
    });
    if (result === undefined) figures.broken += 1;
    else if (result.isError) {
      figures.refused += 1;
      assert.match(String(result.structuredContent['code']), mayPass);
    } else {
      figures[result.structuredContent['replayed'] === true ? 'replayed' : 'done'] += 1;
      answeredIds.add(result.structuredContent['external_id']);
      return true;
    }
    return false;
  }

  test('500 of them, called 10,000 times, are done once each', async (context) => {
    const slow = await ownOrg.org.arm({
      match: { object: 'Quote__c' },
      effect: { kind: 'latency', ms: 20 },
    });
    figures = { done: 0, replayed: 0, refused: 0, broken: 0 };
    const requests = makeRequests(ownOrg.org.memberId);
    const left = inWaves(requests);
    const clients = Array.from({ length: count.atOnce }, async () => {
      for (let request = left.pop(); request !== undefined; request = left.pop()) {
        // A client that meets nobody tries again a little later.
        if (!(await call(request))) await delay(25);
      }
    });
    for (let kill = 1; kill <= count.kills; kill++) {
      await eventually(() => assert.ok(left.length <= count.calls * (1 - kill / (count.kills + 1))));
      await replicas.killOne(random);
    }
    await Promise.all(clients);
    await replicas.allUp();
    await slow.remove();
    for (const request of requests.filter(({ answeredIds }) => answeredIds.size === 0))
      await eventually(async () => {
        await database.query(endLeases);
        assert.ok(await call(request), JSON.stringify(request.given));
      });
    const records = Map.groupBy(await ownOrg.org.records('Quote__c'), (record) => record['Trip_Id__c']);
    for (const { given, answeredIds } of requests) {
      const found = records.get(given.trip_id)?.map((record) => record['External_Id__c']);
      assert.deepEqual(found, [...answeredIds], `seed ${seed}`);
    }
    assert.equal(records.size, count.intents);
    const { rows } = await database.query<{ taken_over: number }>(takenOver);
    context.diagnostic(`seed ${seed}, ${JSON.stringify({ ...figures, ...rows[0] })}`);
  });

  for (const [what, more] of [
    ['with a name', { intent: 'one quote' }],
    ['without a name', {}],
  ] as const)
    test(`one ${what}, whose replica dies after the write and before the answer, is the same record`, async () => {
      const first = () => 0;
      const other = () => 0.99;
      const ask = (which: () => number, tool: string, given: object) =>
        callTool(replicas.anyUrl(which), replicas.credentials, tool, given);
      /** Calls at the first replica, and kills it once the org has done what it was asked for. */
      const die = async (tool: string, given: object, recordKey: string) => {
        const held = await ownOrg.org.arm({
          match: { method: tool === 'hand_off' ? 'POST' : 'PATCH', recordKey },
          effect: { kind: 'hold', stage: 'after' },
          times: 1,
        });
        const lost = assert.rejects(ask(first, tool, given), TypeError);
        await held.hit();
        const { structuredContent } = await ask(other, tool, given);
        assert.equal(structuredContent['code'], 'idempotency_in_progress');
        assert.match(String(structuredContent['detail']), /^The same call/);
        await replicas.killOne(first);
        await lost;
        await held.remove();
        await database.query(endLeases);
      };
      const given = { ...offerFor(ownOrg.org.memberId), ...more };
      await die('hand_off', given, given.trip_id);
      const both = await Promise.all([ask(other, 'hand_off', given), ask(other, 'hand_off', given)]);
      const made = both.find(({ isError }) => !isError)?.structuredContent;
      assert.equal(made?.['status'], 'created', JSON.stringify(both));
      const again = await ask(other, 'hand_off', given);
      assert.deepEqual(again.structuredContent, { ...made, replayed: true });
      const records = await ownOrg.org.records('Quote__c', { Trip_Id__c: given.trip_id });
      assert.deepEqual(
        records.map((record) => record['External_Id__c']),
        [made['external_id']],
      );
      await replicas.allUp();
      const name = randomUUID();
      const change = { id: made['external_id'], name, ...more };
      await die('update_quote', change, name);
      const { structuredContent } = await ask(other, 'update_quote', change);
      assert.equal(structuredContent['name'], name, JSON.stringify(structuredContent));
      assert.equal((await ask(other, 'update_quote', change)).structuredContent['replayed'], true);
      await replicas.allUp();
    });

  /** Every second one is known by its arguments alone. */
  function makeRequests(memberId: string): AgentRequest[] {
    return Array.from({ length: count.intents }, (_, index) => {
      const intent = index % 2 === 0 ? { intent: `quote ${randomUUID()}` } : {};
      return { given: offerFor(memberId, intent), answeredIds: new Set() };
    });
  }

  /** All calls in the order in which they are made, the last one first. */
  function inWaves(requests: AgentRequest[]): AgentRequest[] {
    const each = count.calls / count.intents;
    const calls = requests.flatMap((request, index) =>
      Array.from({ length: each }, () => ({ request, at: index * each + random() * spread })),
    );
    return calls.sort((one, other) => other.at - one.at).map(({ request }) => request);
  }
});

/** Answers after which the same call may succeed. */
const mayPass = /^(?:idempotency_in_progress|crm_unavailable|crm_timeout|store_unavailable|rate_limited)$/;

/** Claims that another request than the first has finished. */
const takenOver = `select count(*)::integer as taken_over from idempotency_claims where created_at <> last_attempt_at`;

/** Leases of the dead end by themselves after 30 seconds; here they need not be waited for. */
const endLeases = `update idempotency_claims set lease_until = now() where completed_at is null and lease_until > now()`;
