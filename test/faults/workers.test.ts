import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type Claims, openClaims } from '../support/claims.ts';
import { eventually } from '../support/eventually.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import {
  type Answer,
  assertInProgress,
  isReplay,
  type KeyedWrite,
  KeyedWrites,
} from '../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { freePort } from '../support/ports.ts';
import { startPostgres } from '../support/postgres.ts';
import { pastSlowStore } from '../support/problems.ts';
import { startRedis } from '../support/redis.ts';

const postgres = await startPostgres();
const redis = await startRedis();
after(async () => {
  await redis?.stop();
  await postgres?.stop();
});
/** Calls of the org that carry out a hand-off; its changes are read meanwhile. */
const creations = { object: 'Booking__c', operation: 'create' };

const skip = (!postgres || !redis) && 'no PostgreSQL or no redis-server';

describe('a gateway of several worker processes', { skip }, () => {
  let ownOrg: OwnOrg;
  let claims: Claims;
  let installation: Installation;
  let operations: string;

  before(async () => {
    const stores = { DATABASE_URL: postgres?.url as string, REDIS_URL: redis?.url };
    ownOrg = await startOwnOrg();
    claims = await openClaims(stores.DATABASE_URL);
    const metricsPort = await freePort();
    operations = `http://127.0.0.1:${metricsPort}`;
    installation = await createInstallation(
      { ...stores, WORKERS: '2', METRICS_PORT: String(metricsPort) },
      ownOrg,
    );
  });
  after(async () => {
    await installation.remove();
    await claims.close();
    await ownOrg.close();
  });

  const writesOf = async () => new KeyedWrites(ownOrg.org, (await installation.credentials()).console);
  const ready = async () => {
    const answer = await fetch(`${operations}/readyz`);
    await answer.text();
    return answer.status;
  };

  test('serves with all of them, and shows their metrics and readiness as those of one', async () => {
    const gateway = await installation.start();
    const first = workersOf(gateway);
    assert.equal(first.length, 2);
    for (let count = 0; count < 20; count++) await getOnNewConnection(`${gateway.url}/v1/healthz`);
    const served = await linesOf(gateway, 'request', (lines) => lines.length >= 20);
    assert.deepEqual(new Set(served.map(({ pid }) => pid)), new Set(first));
    assert.equal(await ready(), 200);
    assert.equal(await metric(operations, 'handoff_workers'), 2);
    assert.equal(await requestsTo(operations, '/v1/healthz'), 20);
    assert.equal(gateway.output.filter((line) => line.includes('"msg":"ready"')).length, 1);
    await assert.rejects(installation.start(), /is in use by process \d+ \(handoff serve/);
    gateway.signal('SIGTERM');
    assert.deepEqual(await gateway.ended, { code: 0, signal: null });
  });

  test('replaces one that is killed under load, and no acknowledged write is lost', async () => {
    const gateway = await installation.start();
    const [victim = 0, other = 0] = workersOf(gateway);
    const writes = await writesOf();
    const earlier = writes.creation();
    const acknowledged = await earlier.send(gateway.url);
    earlier.assertDone(acknowledged);

    const all = Array.from({ length: 12 }, () => writes.handOff());
    const hold = await ownOrg.org.arm({ match: creations, effect: { kind: 'hold' } });
    const sends: Promise<boolean>[] = [];
    for (const write of all) {
      sends.push(
        sendTo(gateway, write).then(
          () => true,
          () => false,
        ),
      );
      // One after the other: writes that come together would share a call.
      await hold.hit(sends.length);
    }
    const counted = await metric(operations, 'handoff_idempotency_outcomes_total{outcome="claimed"}');
    assert.equal(counted, 13);
    process.kill(victim, 'SIGKILL');
    await linesOf(gateway, 'a worker is ready', (lines) => lines.length === 3);
    await hold.remove();
    const isAnswered = await Promise.all(sends);
    const cut = all.filter((_, index) => !isAnswered[index]);
    assert.ok(cut.length > 0 && cut.length < all.length, `${cut.length} of ${all.length} were cut off`);

    for (const write of cut) {
      assertInProgress(await write.send(gateway.url));
      await claims.endLease(write.key);
    }
    for (const write of [earlier, ...all]) {
      const answer = await write.send(gateway.url);
      write.assertDone(answer);
      await write.assertCarriedOut();
      assert.equal(isReplay(answer), !cut.includes(write));
    }
    const workers = workersOf(gateway);
    assert.ok(workers.includes(other) && isAlive(other));
    assert.equal(await metric(operations, 'handoff_worker_ends_total'), 1);
    assert.equal(await metric(operations, 'handoff_workers'), 2);
    // What the dead one had counted is not forgotten.
    assert.equal(await metric(operations, 'handoff_idempotency_outcomes_total{outcome="claimed"}'), 13);
    assert.equal(await ready(), 200);
    gateway.signal('SIGTERM');
    assert.equal((await gateway.ended).code, 0);
  });

  test('answers what is in flight before it stops, also when all are signalled', async () => {
    const gateway = await installation.start({ DRAIN_SECONDS: '3' });
    const workers = workersOf(gateway);
    const writes = await writesOf();
    const all = Array.from({ length: 6 }, () => writes.handOff());
    const hold = await ownOrg.org.arm({ match: creations, effect: { kind: 'hold' } });
    const sends: Promise<Answer>[] = [];
    for (const write of all) {
      sends.push(sendTo(gateway, write));
      await hold.hit(sends.length);
    }
    for (const pid of workers) process.kill(pid, 'SIGINT');
    gateway.signal('SIGINT');
    await eventually(async () => assert.equal(await ready(), 503), { everyMs: 10 });
    // It still accepts for drainSeconds.
    const late = await fetch(`${gateway.url}/v1/docs`);
    await late.text();
    assert.equal(late.headers.get('connection'), 'close');
    await hold.remove();
    for (const [index, answer] of (await Promise.all(sends)).entries()) all[index]?.assertDone(answer);
    assert.deepEqual(await gateway.ended, { code: 0, signal: null });
    assert.deepEqual(workers.filter(isAlive), []);
  });

  for (const [what, end, expected] of [
    ['a second signal ends it at once', endWithTwoSignals, { code: 1, signal: null }],
    ['no worker outlives a parent that is killed', kill, { code: null, signal: 'SIGKILL' }],
  ] as const) {
    test(what, async () => {
      const gateway = await installation.start();
      const hold = await ownOrg.org.arm({ match: creations, effect: { kind: 'hold' } });
      const cut = assert.rejects(sendTo(gateway, (await writesOf()).handOff()));
      await hold.hit();
      await end(gateway);
      assert.deepEqual(await gateway.ended, expected);
      await cut;
      await eventually(() => assert.ok(!workersOf(gateway).some(isAlive)), { everyMs: 10 });
      await hold.remove();
    });
  }

  test('gives up in words when its workers do not live', async () => {
    const gateway = await installation.start();
    const killed = new Set<number>();
    const killing = setInterval(() => {
      for (const { worker_pid: pid } of logLines(gateway, 'a worker starts')) {
        if (!killed.has(pid) && isAlive(pid)) process.kill(pid, 'SIGKILL');
        killed.add(pid);
      }
    }, 10);
    assert.equal((await gateway.ended).code, 1);
    clearInterval(killing);
    assert.match(gateway.output.join('\n'), /10 workers exited within a minute/);
  });

  test('says once what keeps it from starting', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    await assert.rejects(installation.start({ PORT: String(port) }), ({ message }: Error) => {
      assert.equal(message.split(`Port ${port} is already in use`).length, 2);
      return true;
    });
    taken.close();
  });
});

/** Sends it until the database of a busy machine has taken its key. */
function sendTo({ url }: GatewayProcess, write: KeyedWrite): Promise<Answer> {
  return pastSlowStore(
    () => write.send(url),
    ({ text }) => text,
  );
}

async function endWithTwoSignals(gateway: GatewayProcess): Promise<void> {
  const repeat = setInterval(() => gateway.signal('SIGTERM'), 50);
  await gateway.ended;
  clearInterval(repeat);
}

async function kill(gateway: GatewayProcess): Promise<void> {
  gateway.signal('SIGKILL');
}

interface Line {
  msg: string;
  pid: number;
  worker_pid: number;
}

function logLines({ output }: GatewayProcess, message: string): Line[] {
  const lines = output.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Line);
  return lines.filter(({ msg }) => msg === message);
}

/** The lines with this message, once there are enough of them. */
async function linesOf(
  gateway: GatewayProcess,
  message: string,
  isEnough: (lines: Line[]) => boolean,
): Promise<Line[]> {
  return eventually(
    () => {
      const lines = logLines(gateway, message);
      assert.ok(isEnough(lines), `${lines.length} lines: ${message}`);
      return lines;
    },
    { everyMs: 10 },
  );
}

/** Process ids of all workers that were ever ready. */
function workersOf(gateway: GatewayProcess): number[] {
  return logLines(gateway, 'a worker is ready').map(({ worker_pid: pid }) => pid);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function getOnNewConnection(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    request(url, { agent: false }, (response) => response.resume().once('end', resolve))
      .once('error', reject)
      .end();
  });
}

async function metric(operations: string, name: string): Promise<number | undefined> {
  const text = await (await fetch(`${operations}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length));
}

async function requestsTo(operations: string, route: string): Promise<number> {
  const text = await (await fetch(`${operations}/metrics`)).text();
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith('http_server_request_duration_seconds_count'));
  return lines
    .filter((line) => line.includes(`http_route="${route}"`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
