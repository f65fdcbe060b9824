import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { PgBoss } from 'pg-boss';
import { openClaims } from '../support/claims.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import { type Answer, isReplay, type KeyedWrite, KeyedWrites } from '../support/keyed-writes.ts';
import { type Load, startLoad } from '../support/load.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { type OwnPostgresServer, startPostgresServer } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';
import { createRequests } from '../support/requests.ts';

const server = await startPostgresServer();
const redis = await startRedis();
const skip = (!server || !redis) && 'there is no PostgreSQL or no Redis';

const isQueueFailure = (line: string) => line.includes('"the job queue failed"');

describe('two gateways whose PostgreSQL crashes', { skip }, () => {
  const postgres = server as OwnPostgresServer;
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let writes: KeyedWrites;
  /** All keyed writes that were sent. */
  const sent: KeyedWrite[] = [];

  before(async () => {
    // Tokens of two seconds, of which the entry in the cache lives one: they are renewed all the time.
    ownOrg = await startOwnOrg({ tokenFormat: 'jwt', tokenLifetimeSeconds: 2 });
    cluster = await startCluster(2, ownOrg, {
      DATABASE_URL: postgres.url,
      REDIS_URL: redis?.url,
      RATE_LIMIT_PER_MINUTE: '0',
    });
    writes = new KeyedWrites(ownOrg.org, cluster.credentials.console);
  });
  after(async () => {
    await cluster.remove();
    await ownOrg.close();
    await redis?.stop();
    await postgres.stop();
  });

  const url = (client: number) => cluster.gateways[client % 2]?.url as string;
  const health = async () =>
    Promise.all(cluster.gateways.map(async (gateway) => (await fetch(`${gateway.url}/v1/healthz`)).json()));
  const tokensIssued = async () => Number((await ownOrg.org.counters())['tokensIssued']);

  /** Sends creations, each under a key of its own; every answer must be 201 or 503 `store_unavailable`. */
  function loadOfWrites(onAnswer: (answer: Answer) => void): Load {
    return startLoad(4, async (client) => {
      const write = writes.creation();
      sent.push(write);
      const answer = await write.send(url(client));
      onAnswer(answer);
      const { code } = JSON.parse(answer.text) as { code?: string };
      if (answer.status !== 201 && code !== 'store_unavailable') throw new Error(answer.text);
    });
  }

  it('read on and hand off without keys; keyed writes are refused at once, and none is lost or done twice', async (context) => {
    const requests = createRequests(cluster);
    const others = startLoad(4, async (client) => {
      await requests.read(url(client));
      await requests.handOff(url(client));
    });
    const seen = { done: 0, refused: 0 };
    const keyed = loadOfWrites(({ status }) => {
      if (status === 201) seen.done += 1;
      else seen.refused += 1;
    });
    context.after(() => Promise.all([others.stop(), keyed.stop()]));
    await Promise.all([others.successes(40), keyed.successes(40)]);
    await postgres.crash();
    const before = { ...seen, tokens: await tokensIssued() };
    await Promise.all([others.successes(40), keyed.successes(40)]);
    assert.ok(seen.refused >= before.refused + 40);
    for (const state of await health()) {
      assert.partialDeepStrictEqual(state, { status: 'unavailable', database: { connected: false } });
    }
    // The job queue stands still with the database: requests see to new tokens.
    await eventually(async () => assert.ok((await tokensIssued()) >= before.tokens + 3), {
      pause: () => others.successes(5),
    });
    await assertQueueFailuresAreLoggedOnce();
    await postgres.restart();
    await eventually(
      async () => assert.ok(!(await health()).some((state) => (state as { status: string }).status !== 'ok')),
      { everyMs: 50 },
    );
    const after = { ...seen };
    await Promise.all([others.successes(40), keyed.successes(40)]);
    assert.ok(seen.done >= after.done + 40);
    await Promise.all([others.stop(), keyed.stop()]);
    assert.deepEqual([...others.failures, ...keyed.failures], []);
    await assertCarriedOutOnce();
  });

  /** The workers of all queues ask for jobs every 5 seconds: by then each has failed, and most have twice. */
  async function assertQueueFailuresAreLoggedOnce(): Promise<void> {
    const failures = cluster.gateways.map(
      ({ output }) =>
        () =>
          output.filter(isQueueFailure),
    );
    await eventually(() => assert.ok(failures.every((lines) => lines().length > 0)), { everyMs: 50 });
    await delay(6000);
    for (const lines of failures) {
      assert.equal(lines().length, 1, lines().join('\n'));
      const { err } = JSON.parse(lines()[0] as string) as { err: { message: string } };
      assert.match(err.message, /connect|ECONNRESET|terminat/i);
    }
  }

  /** Repeats every write under its key, as its client would. */
  async function assertCarriedOutOnce(): Promise<void> {
    const claims = await openClaims(postgres.url);
    for (const [index, write] of sent.entries()) {
      let answer = await write.send(url(index));
      // A replica that lost the database in the middle could not give its claim back; time would.
      if (answer.status === 409) {
        await claims.endLease(write.key);
        answer = await write.send(url(index));
      }
      write.assertDone(answer);
      await write.assertCarriedOut();
      assert.equal(isReplay(await write.send(url(index + 1))), true);
    }
    await claims.close();
  }

  it('do nothing of what they refuse, and take up their jobs again', async () => {
    const id = randomUUID();
    await postgres.crash();
    for (const write of [writes.change(id, { name: 'x' }), writes.deletion(id), writes.handOff()]) {
      const answer = await write.send(url(0));
      assert.equal(answer.status, 503);
      assert.equal((JSON.parse(answer.text) as { code: string }).code, 'store_unavailable');
      assert.deepEqual(await write.records(), []);
    }
    await postgres.restart();
    const boss = new PgBoss({ connectionString: postgres.url, supervise: false, schedule: false });
    await boss.start();
    const job = (await boss.send('refresh-crm-token')) as string;
    await eventually(
      async () =>
        assert.equal((await boss.findJobs('refresh-crm-token', { id: job }))[0]?.state, 'completed'),
      { everyMs: 50 },
    );
    await boss.stop({ graceful: false });
  });
});
