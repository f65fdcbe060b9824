import assert from 'node:assert/strict';
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Events, openEvents } from '../../../support/events.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  createInstallation,
  type GatewayProcess,
  type Installation,
} from '../../../support/gateway-process.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { freePort } from '../../../support/ports.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { startRedis } from '../../../support/redis.ts';
import { type ProxyHold, startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { firstWebhookSecret, memberEvent, signedRequest, webhookPath } from '../../../support/webhooks.ts';

const postgres = await startPostgres();
const redis = await startRedis();
after(() => Promise.all([postgres?.stop(), redis?.stop()]));

const taking = 'update "webhook_events" as "e" set "attempts"';
const finishing = "set state = 'processed'";

describe('a gateway that is killed', { skip: !postgres && 'no PostgreSQL' }, () => {
  let proxy: TcpProxy;
  let ownOrg: OwnOrg;
  let installation: Installation;
  let gateway: GatewayProcess;
  let events: Events;
  let secret: string;

  before(async () => {
    proxy = await startTcpProxy(postgres?.url as string);
    ownOrg = await startOwnOrg();
    const limits = { RATE_LIMIT_PER_MINUTE: '0', RATE_LIMIT_FAILED_PER_MINUTE: '0' };
    installation = await createInstallation({ DATABASE_URL: proxy.url, ...limits }, ownOrg);
    gateway = await installation.start();
    secret = await firstWebhookSecret(installation);
    events = await openEvents(postgres?.url as string);
  });
  after(async () => {
    await installation.remove();
    await events.close();
    await proxy.close();
    await ownOrg.close();
  });

  /** Status and body; undefined where the gateway died meanwhile. */
  const send = async (content: object, signing = {}, signer = secret) => {
    const { method, headers, body } = signedRequest(signer, content, signing);
    try {
      const response = await fetch(gateway.url + webhookPath, {
        method: method as string,
        headers: { 'content-type': 'application/json', ...headers },
        body,
      });
      return (await response.json()) as { status: string | number; code?: string };
    } catch {
      return undefined;
    }
  };
  const restart = async () => {
    gateway.signal('SIGKILL');
    await gateway.ended;
    gateway = await installation.start();
  };
  const find = async (id: string) => (await events.all()).find(({ webhook_id }) => webhook_id === id);
  const untilProcessed = async (id: string) => {
    let event = await find(id);
    for (; event?.state !== 'processed'; event = await find(id)) await sleep(20);
    return event;
  };

  /** Sends a webhook that gets so far and no further. */
  const stopOne = async (stop: () => ProxyHold, attempts: number) => {
    for (;;) {
      const id = `msg_${randomUUID()}`;
      const hold = stop();
      assert.deepEqual(await send(memberEvent(randomUUID()), { id }), { status: 'accepted' });
      await hold.hit();
      if ((await find(id))?.attempts === attempts) return { id, hold };
      // It was the last look of an earlier round, which found nothing, that was held.
      hold.release();
      await untilProcessed(id);
    }
  };

  const steps: [when: string, hold: () => ProxyHold, attempts: number][] = [
    ['between storing and processing', () => proxy.holdRequests(taking), 0],
    ['after an event was taken', () => proxy.holdAnswers(taking), 1],
    ['after an event was applied, before that was stored', () => proxy.holdRequests(finishing), 1],
  ];
  for (const [when, stop, attempts] of steps) {
    test(`${when}: the event is processed by the next one`, async () => {
      const { id, hold } = await stopOne(stop, attempts);
      gateway.signal('SIGKILL');
      await gateway.ended;
      hold.cut();
      assert.partialDeepStrictEqual(await find(id), { state: 'received', attempts });
      // Ends the lease, as time would; the next start looks what was left.
      await events.makeDue();
      gateway = await installation.start();
      assert.equal((await untilProcessed(id)).attempts, attempts + 1);
      assert.deepEqual(await send(memberEvent(randomUUID()), { id }), { status: 'duplicate' });
    });
  }

  test('twice while 1,000 webhooks come three times each among forged and stale ones: each is applied once', async ({
    signal,
  }) => {
    await events.run('delete from webhook_events');
    const members = Array.from({ length: 250 }, () => randomUUID());
    const real = Array.from({ length: 1000 }, (_, n) => ({
      id: `msg_real_${n}`,
      content: memberEvent(members[n % members.length] as string, {
        timestamp: new Date(Date.UTC(2027, 0, 1) + n).toISOString(),
      }),
    }));
    const forger = `whsec_${randomBytes(32).toString('base64')}`;
    const bad = Array.from({ length: 150 }, (_, n) => [
      { id: `msg_forged_${n}`, content: memberEvent(randomUUID()), signer: forger },
      { id: `msg_stale_${n}`, content: memberEvent(randomUUID()), at: new Date(Date.now() - 310_000) },
    ]).flat();
    const deliveries: { id: string; content: object; signer?: string; at?: Date }[] = shuffled([
      ...real,
      ...real,
      ...real,
      ...bad,
    ]);
    const answers = new Map<string, string[]>();
    let done = 0;
    const deliver = async ({ id, content, signer, at }: (typeof deliveries)[number]) => {
      let answer = await send(content, { id, ...(at && { at }) }, signer);
      // A sender repeats until the answer says that the webhook is stored, or refused.
      for (; answer === undefined || answer.code === 'store_unavailable'; ) {
        await sleep(20, undefined, { signal });
        answer = await send(content, { id, ...(at && { at }) }, signer);
      }
      answers.set(id, [...(answers.get(id) ?? []), String(answer.code ?? answer.status)]);
      done += 1;
    };
    const waiting = deliveries.values();
    const sender = async () => {
      for (const delivery of waiting) await deliver(delivery);
    };
    const sending = Promise.all(Array.from({ length: 8 }, sender));
    for (const share of [0.3, 0.6]) {
      await eventually(() => assert.ok(done >= deliveries.length * share), { everyMs: 5 });
      await restart();
    }
    await sending;

    const left = async () => (await events.all()).filter(({ state }) => state !== 'processed');
    await eventually(async () => {
      // What the dead had taken, when its lease is over; a further webhook has all looked through that is due.
      await events.makeDue();
      await send({ ...memberEvent(randomUUID()), type: 'member.created' }, { id: 'msg_last' });
      assert.deepEqual(await left(), []);
    });
    const stored = (await events.all()).filter(({ webhook_id }) => webhook_id !== 'msg_last');
    assert.deepEqual(stored.map(({ webhook_id }) => webhook_id).sort(), real.map(({ id }) => id).sort());
    // Taken again is only what a kill, or the end of its lease above, took from its owner: of each member one at most.
    const repeated = stored.filter(({ attempts }) => attempts > 1).length;
    assert.ok(repeated <= 2 * members.length, `${repeated} were taken again`);
    for (const { id } of real) {
      const given = answers.get(id) ?? [];
      assert.equal(given.length, 3);
      assert.ok(given.filter((one) => one === 'accepted').length <= 1, `${id}: ${given.join()}`);
      assert.ok(
        given.every((one) => one === 'accepted' || one === 'duplicate'),
        `${id}: ${given.join()}`,
      );
    }
    for (const { id } of bad) assert.deepEqual(answers.get(id), ['invalid_credentials']);
  });
});

describe('one of two gateways that is killed', { skip: !postgres && 'no PostgreSQL' }, () => {
  test('after it has acknowledged and taken a webhook: the other finds it by itself', async () => {
    const url = postgres?.url as string;
    await using opened = new AsyncDisposableStack();
    const proxy = await startTcpProxy(url);
    opened.defer(() => proxy.close());
    const ownOrg = await startOwnOrg();
    opened.defer(() => ownOrg.close());
    const events = await openEvents(url);
    opened.defer(() => events.close());
    const first = await createInstallation({ DATABASE_URL: proxy.url }, ownOrg);
    opened.defer(() => first.remove());
    const one = await first.start();
    const shared = { DATABASE_URL: url, SECRETS_DIR: join(first.dataDir, 'secrets') };
    const second = await createInstallation(shared, ownOrg);
    opened.defer(() => second.remove());
    await second.start();
    const secret = await firstWebhookSecret(first);
    const find = async (id: string) => (await events.all()).find(({ webhook_id }) => webhook_id === id);
    const untilProcessed = async (id: string) => {
      await eventually(async () => assert.equal((await find(id))?.state, 'processed'));
    };

    for (;;) {
      const id = `msg_${randomUUID()}`;
      const hold = proxy.holdAnswers(taking);
      const { method, headers, body } = signedRequest(secret, memberEvent(randomUUID()), { id });
      const response = await fetch(one.url + webhookPath, {
        method: method ?? 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body,
      });
      assert.equal(response.status, 202);
      await hold.hit();
      const event = await find(id);
      if (event?.state === 'received' && event.attempts === 1) {
        one.signal('SIGKILL');
        await one.ended;
        // Ends the lease, as time would. A job of pg-boss would come within a minute.
        await events.makeDue();
        await untilProcessed(id);
        assert.equal((await find(id))?.attempts, 2);
        return;
      }
      // The look that was held found nothing, or the other was quicker.
      hold.release();
      await untilProcessed(id);
    }
  });
});

function shuffled<T>(items: T[]): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = randomInt(i + 1);
    [items[i], items[j]] = [items[j] as T, items[i] as T];
  }
  return items;
}

describe('replicas of which only one keeps a copy', {
  skip: (!postgres || !redis) && 'no PostgreSQL or no Redis',
}, () => {
  test('both show a member as the webhook reports it', async (t) => {
    const ownOrg = await startOwnOrg();
    t.after(() => ownOrg.close());
    const common = { DATABASE_URL: postgres?.url, REDIS_URL: redis?.url };
    const installations = [
      await createInstallation(common, ownOrg),
      await createInstallation(common, ownOrg),
    ];
    t.after(() => Promise.all(installations.map((one) => one.remove())));
    const [first, second] = installations as [Installation, Installation];
    const start = async (one: Installation, env: NodeJS.ProcessEnv) =>
      one.start({
        SECRETS_DIR: join(first.dataDir, 'secrets'),
        METRICS_PORT: String(await freePort()),
        ...env,
      });
    const caching = await start(first, {});
    const copying = await start(second, { COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '60' });
    const { console } = await first.credentials();
    const headers = { 'x-api-key': console.apiKey, 'x-api-secret': console.apiSecret };
    const id = ownOrg.org.memberId;
    const nameAt = async ({ url }: GatewayProcess) => {
      const response = await fetch(`${url}/v1/members/${id}`, { headers });
      return ((await response.json()) as { last_name: string }).last_name;
    };
    for (const gateway of [caching, copying]) await nameAt(gateway);
    await ownOrg.org.edit('Contact', { External_Id__c: id }, { LastName: 'Reported' });
    const { headers: signed, body } = signedRequest(await firstWebhookSecret(first), memberEvent(id));
    const sent = await fetch(copying.url + webhookPath, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...signed },
      body: body as string,
    });
    assert.equal(sent.status, 202);
    for (const gateway of [caching, copying])
      await eventually(async () => assert.equal(await nameAt(gateway), 'Reported'), { withinMs: 30_000 });
  });
});
