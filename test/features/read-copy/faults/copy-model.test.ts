import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { randomFrom } from '../../../../simulators/shared/random.ts';
import { startCluster } from '../../../support/cluster.ts';
import { startOwnOrg } from '../../../support/own-org.ts';
import { type PostgresDatabase, startPostgres } from '../../../support/postgres.ts';
import { type RedisServer, startRedis } from '../../../support/redis.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { armDelays, disrupt } from '../copy-model/disruptions.ts';
import { differencesAtEnd } from '../copy-model/end.ts';
import { Model } from '../copy-model/model.ts';
import { OrgHistory } from '../copy-model/org-history.ts';
import { read } from '../copy-model/reads.ts';
import { fill, write } from '../copy-model/writes.ts';
import { copyEnv } from '../support.ts';

/** `COPY_SECONDS=300` is a long run. Of what happens the seed decides all but the order. */
const seconds = Number(process.env['COPY_SECONDS'] ?? 12);
const seed = Number(process.env['COPY_SEED'] ?? Math.floor(Math.random() * 1e9));
/** After that time, until the copy has answered something: what goes wrong, on a busy machine, can keep it from that. */
const longestMs = 60_000;

const postgres = await startPostgres();
const redis = await startRedis();

/** Two gateways in front of an org that keeps its history, with ways to the stores that can be cut. */
async function open(using: AsyncDisposableStack) {
  const databases = [];
  for (let index = 0; index < 2; index++)
    databases.push(await startTcpProxy((postgres as PostgresDatabase).url));
  for (const database of databases) using.defer(() => database.close());
  const cache = await startTcpProxy((redis as RedisServer).url);
  using.defer(() => cache.close());
  const folder = await mkdtemp(join(tmpdir(), 'handoff-org-'));
  using.defer(() => rm(folder, { recursive: true }));
  const dataFile = join(folder, 'org.jsonl');
  const own = await startOwnOrg({ dataFile, dailyLimit: 10_000_000 });
  using.defer(() => own.close());
  const history = new OrgHistory(dataFile);
  using.defer(() => history.close());
  const cluster = await startCluster(1, own, {
    ...{ DATABASE_URL: databases[0]?.url, REDIS_URL: cache.url, RATE_LIMIT_PER_MINUTE: '0' },
    ...{ ...copyEnv, CRM_TIMEOUT_MS: '2000' },
  });
  using.defer(() => cluster.remove());
  await cluster.start(1, { DATABASE_URL: databases[1]?.url });
  const [client, watcher] = [new Client(postgres?.url), new Client(postgres?.url)];
  for (const one of [client, watcher]) {
    await one.connect();
    using.defer(() => one.end());
  }
  return { model: new Model(cluster, history, randomFrom(seed)), databases, redis: cache, client, watcher };
}

function answersOfTheCopy({ counts }: Model): number {
  return [...counts].filter(([what]) => what.endsWith('of the copy')).length;
}

/** The org's history is to know what polls have seen. */
async function watchPolls({ history }: Model, watcher: Client): Promise<void> {
  const askedAt = performance.now();
  const { rows } = await watcher.query(
    'select extract(epoch from clock_timestamp() - kept_through)::float8 * 1000 as ago from copy_state',
  );
  const [{ ago = null } = {}] = rows as { ago?: number | null }[];
  if (ago !== null) history.notePoll(askedAt - ago);
}

test('whatever goes wrong, no read is older than it says, nor than an acknowledged write', {
  skip: (!postgres || !redis) && 'there is no PostgreSQL or no Redis',
}, async (t) => {
  t.after(async () => {
    await redis?.stop();
    await postgres?.stop();
  });
  await using opened = new AsyncDisposableStack();
  const { model, watcher, ...surroundings } = await open(opened);
  await fill(model);
  await armDelays(model.cluster.org, seed);
  const workers = [
    ...Array.from({ length: 4 }, () => model.repeat(() => write(model), 60)),
    ...Array.from({ length: 6 }, () => model.repeat(() => read(model), 20)),
    model.repeat(() => watchPolls(model, watcher), 50),
    disrupt(model, surroundings),
  ];
  // So often that it is known when a state was over.
  const end = performance.now() + seconds * 1000;
  const isDone = () =>
    performance.now() > end && (answersOfTheCopy(model) > 0 || performance.now() > end + longestMs);
  while (!isDone() && model.violations.length === 0) {
    model.history.look();
    await sleep(5);
  }
  model.isOver = true;
  await Promise.all(workers);
  const counts = [...model.counts].sort().map(([what, count]) => `${what} ${count}`);
  t.diagnostic(`seed ${seed}: ${counts.join(', ')}`);
  assert.equal(model.violations.slice(0, 3).join('\n\n'), '');
  const compare = () => surroundings.client.query('update change_reader set compared_at = to_timestamp(0)');
  assert.deepEqual(await differencesAtEnd(model, compare), []);
  assert.ok(answersOfTheCopy(model) > 0, 'the copy has answered nothing');
});
