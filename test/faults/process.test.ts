import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { embedded } from '../support/own-database.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';

describe('a gateway as a process', () => {
  let installation: Installation;

  before(async () => {
    installation = await createInstallation();
  });
  after(() => installation.remove());

  async function handOff(
    gateway: GatewayProcess,
    body: object,
    key: string,
    of = installation,
  ): Promise<Response> {
    const { apiKey, apiSecret } = (await of.credentials()).console;
    return fetch(`${gateway.url}/api/v1/handoff`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-api-key': apiKey,
        'x-api-secret': apiSecret,
        'idempotency-key': key,
      },
      body: JSON.stringify(body),
    });
  }
  const offer = (gateway: GatewayProcess) => ({
    type: 'booking',
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    result: { name: 'Casa Olivo', source: 'opentable', details: { covers: 4 } },
  });

  describe('with files in its folder', () => {
    let files: Installation;

    before(async () => {
      files = await createInstallation(embedded);
    });
    after(() => files.remove());

    test('finds what it wrote before it was killed: credentials, keys and records', async () => {
      const key = randomUUID();
      const first = await files.start();
      const credentials = await files.credentials();
      const body = offer(first);
      const confirmed = await handOff(first, body, key, files);
      assert.equal(confirmed.status, 201);
      first.signal('SIGKILL');
      await first.ended;

      const second = await files.start();
      assert.deepEqual(await files.credentials(), credentials);
      const repeat = await handOff(second, body, key, files);
      assert.equal(repeat.headers.get('idempotent-replayed'), 'true');
      assert.equal(await repeat.text(), await confirmed.text());
      assert.equal((await second.org.records('Booking__c', { Trip_Id__c: body.trip_id })).length, 1);
      second.signal('SIGTERM');
      assert.deepEqual(await second.ended, { code: 0, signal: null });
    });

    test('a second process on the same data learns who has it', async () => {
      const first = await files.start();
      await assert.rejects(files.start(), /is in use by process \d+ \(handoff serve.*DATA_DIR/);
      first.signal('SIGINT');
      assert.deepEqual(await first.ended, { code: 0, signal: null });
    });
  });

  test('answers what is in flight before it stops', async () => {
    const gateway = await installation.start();
    const hold = await gateway.org.arm({
      match: { object: 'Booking__c', operation: 'create' },
      effect: { kind: 'hold' },
      times: 1,
    });
    const answer = handOff(gateway, offer(gateway), randomUUID());
    await hold.hit();
    gateway.signal('SIGTERM');
    await hold.release();
    assert.equal((await answer).status, 201);
    assert.equal((await gateway.ended).code, 0);
  });

  test('a second signal ends it at once', async () => {
    const gateway = await installation.start();
    const hold = await gateway.org.arm({
      match: { object: 'Booking__c', operation: 'create' },
      effect: { kind: 'hold' },
    });
    const answer = assert.rejects(handOff(gateway, offer(gateway), randomUUID()));
    await hold.hit();
    gateway.signal('SIGTERM');
    const repeat = setInterval(() => gateway.signal('SIGTERM'), 50);
    assert.equal((await gateway.ended).code, 1);
    clearInterval(repeat);
    await answer;
  });

  test('drains: still answers for drainSeconds, and asks clients to go', async () => {
    const gateway = await installation.start({ DRAIN_SECONDS: '3' });
    const agent = new Agent({ keepAlive: true });
    const probe = async () => {
      const sent = request(`${gateway.url}/v1/healthz`, { agent }).end();
      const [response] = await once(sent, 'response');
      response.resume();
      await once(response, 'end');
      return response.headers.connection;
    };
    assert.equal(await probe(), 'keep-alive');
    gateway.signal('SIGTERM');
    await eventually(() => assert.ok(gateway.output.some((line) => line.includes('"stopping"'))), {
      pause: probe,
    });
    assert.equal(await probe(), 'close');
    assert.equal((await gateway.ended).code, 0);
    agent.destroy();
  });

  test('wrong settings keep it from starting, all of them named', async () => {
    await assert.rejects(
      installation.start({ PORT: 'x', LOG_LEVEL: 'loud' }),
      /port \(PORT\)[\s\S]*logLevel/,
    );
  });

  test('misspelt variables keep it from starting, or are named in the log, without their values', async () => {
    await assert.rejects(
      installation.start({ CRM_TIMEOUT: 'hunter2', HANDOFF_QUEUE_LIMTI: '5' }),
      (error: Error) => {
        assert.match(
          error.message,
          /CRM_TIMEOUT: .*CRM_TIMEOUT_MS\?\n.*HANDOFF_QUEUE_LIMTI: .*HANDOFF_QUEUE_LIMIT\?/,
        );
        assert.doesNotMatch(error.message, /hunter2/);
        return true;
      },
    );
    const gateway = await installation.start({
      DATABASE_ULR: 'hunter2',
      HANDOFF_URL: 'http://127.0.0.1:8080',
    });
    const warnings = gateway.output.filter((line) => line.includes('"variable"'));
    assert.equal(warnings.length, 1);
    assert.partialDeepStrictEqual(JSON.parse(warnings[0] as string), {
      variable: 'DATABASE_ULR',
      nearest: 'DATABASE_URL',
    });
    assert.doesNotMatch(gateway.output.join('\n'), /hunter2/);
    gateway.signal('SIGTERM');
    await gateway.ended;
  });
});

test('the same on PostgreSQL and Redis', async (context) => {
  const postgres = await startPostgres();
  const redis = await startRedis();
  if (!postgres || !redis) return context.skip('there is no PostgreSQL or no Redis');
  const env = { DATABASE_URL: postgres.url, REDIS_URL: redis.url };
  const installation = await createInstallation(env);
  context.after(async () => {
    await installation.remove();
    await redis.stop();
    await postgres.stop();
  });
  const key = randomUUID();
  const body = { type: 'quote', trip_id: randomUUID(), result: { name: 'a', source: 'b', details: {} } };
  const answers: string[] = [];
  for (const _ of [1, 2]) {
    const gateway = await installation.start();
    const { apiKey, apiSecret } = (await installation.credentials()).console;
    const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'idempotency-key': key };
    const response = await fetch(`${gateway.url}/api/v1/handoff`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, member_id: gateway.org.memberId }),
    });
    assert.equal(response.status, 201);
    answers.push(await response.text());
    const health = (await (await fetch(`${gateway.url}/v1/healthz`)).json()) as object;
    assert.partialDeepStrictEqual(health, { database: { connected: true }, cache: { connected: true } });
    gateway.signal('SIGTERM');
    assert.equal((await gateway.ended).code, 0);
  }
  assert.equal(answers[0], answers[1]);
});
