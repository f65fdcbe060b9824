import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { type Cluster, startCluster } from '../../../support/cluster.ts';
import { eventually } from '../../../support/eventually.ts';
import { type AcceptedHandoff, offerFor } from '../../../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';

/*
 * Hand-offs are accepted while the CRM is down, hangs, is out of calls and refuses sign-ins in turn, and replicas are
 * killed. By hand, at full size, with leases that time ends:
 *
 *   HANDOFFS=2000 KILLS=20 node --test --test-timeout=1200000 test/features/handoff/faults/accepted-handoffs.test.ts
 */
const handoffs = Number(process.env['HANDOFFS'] ?? 150);
const kills = Number(process.env['KILLS'] ?? 4);
const isShort = process.env['HANDOFFS'] === undefined;
const atOnce = 8;

/** How the CRM fails, one after another. */
const failures = [
  { match: { operation: 'create' }, effect: { kind: 'down' } },
  { match: { operation: 'create' }, effect: { kind: 'hang' } },
  { match: { operation: 'create' }, effect: { kind: 'dailyLimit' } },
  { match: {}, effect: { kind: 'tokenError', error: 'server_error', description: 'try again later' } },
];

interface Sent {
  body: ReturnType<typeof offerFor>;
  key: string;
  prefer: string;
  isPoisoned: boolean;
  /** The final answer. */
  status: number;
  externalId: string;
}

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('accepted hand-offs, with every kind of failure and kills', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let ownOrg: OwnOrg;
  let proxy: TcpProxy;
  let cluster: Cluster;
  let database: Client;
  let headers: Record<string, string>;
  const sent: Sent[] = [];
  const answers: Record<string, number> = {};
  /** Indexes of gateways that run. */
  const up = new Set<number>();

  before(async () => {
    ownOrg = await startOwnOrg();
    await ownOrg.org.change({ dailyLimit: 1_000_000_000 });
    proxy = await startTcpProxy(postgres?.url as string);
    cluster = await startCluster(2, ownOrg, {
      ...{ DATABASE_URL: proxy.url, CRM_TIMEOUT_MS: '1000', RATE_LIMIT_PER_MINUTE: '0' },
    });
    database = new Client({ connectionString: postgres?.url });
    await database.connect();
    const { apiKey, apiSecret } = cluster.credentials.console;
    headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'content-type': 'application/json' };
    for (const index of cluster.gateways.keys()) up.add(index);
  });
  after(async () => {
    await cluster?.remove();
    await database?.end();
    await proxy?.close();
    await ownOrg?.close();
  });

  const anyUrl = () => {
    const running = [...up];
    return (cluster.gateways[running[Math.floor(Math.random() * running.length)] ?? 0] as { url: string })
      .url;
  };

  /** Sends one under its key until it is answered for good: 201, 202 or 422. */
  const sendUntilDone = async (one: Sent): Promise<void> => {
    await eventually(async () => {
      const response = await fetch(`${anyUrl()}/api/v1/handoff`, {
        method: 'POST',
        headers: { ...headers, 'idempotency-key': one.key, prefer: one.prefer },
        body: JSON.stringify(one.body),
      }).catch(() => undefined);
      const text = await response?.text().catch(() => undefined);
      const status = text === undefined ? 0 : (response?.status ?? 0);
      answers[status] = (answers[status] ?? 0) + 1;
      assert.ok([201, 202, 422].includes(status), `${one.key}: ${status} ${text}`);
      one.status = status;
      one.externalId = (JSON.parse(text ?? '{}') as { external_id?: string }).external_id ?? '';
    });
  };

  const newHandoff = (): Sent => {
    const number = sent.length;
    const isPoisoned = number % 20 === 7;
    const memberId = isPoisoned ? randomUUID() : ownOrg.org.memberId;
    return {
      body: offerFor(memberId, { type: number % 3 === 0 ? 'booking' : 'quote' }),
      key: randomUUID(),
      prefer: number % 5 === 0 ? 'respond-async, wait=1' : 'respond-async',
      isPoisoned,
      status: 0,
      externalId: '',
    };
  };

  /** Accepts so many, with so many kills among them. */
  const accept = async (count: number, killsNow: number, isDatabaseCut: boolean): Promise<void> => {
    const until = Math.min(handoffs, sent.length + count);
    const from = sent.length;
    const client = async () => {
      while (sent.length < until) {
        const one = newHandoff();
        sent.push(one);
        await sendUntilDone(one);
      }
    };
    const clients = Promise.all(Array.from({ length: atOnce }, client));
    for (let kill = 1; kill <= killsNow; kill++) {
      await eventually(() => assert.ok(sent.length >= from + ((until - from) * kill) / (killsNow + 1)), {
        everyMs: 5,
      });
      await killOne(kill % 2);
    }
    if (isDatabaseCut) {
      await proxy.cut();
      await sleep(500);
      await proxy.restore();
    }
    await clients;
  };

  const killOne = async (index: number): Promise<void> => {
    up.delete(index);
    cluster.gateways[index]?.signal('SIGKILL');
    await cluster.gateways[index]?.ended;
    await cluster.start(index);
    up.add(index);
    if (isShort) await endLeases();
  };

  /** As time would; a live owner's next statement is then one of a replaced owner. */
  const endLeases = async (): Promise<void> => {
    await database.query("update handoffs set lease_until = now() where status = 'accepted'");
    await database.query('update idempotency_claims set lease_until = now() where completed_at is null');
  };

  const untilAllDone = async (): Promise<void> => {
    await eventually(async () => {
      const { rows } = await database.query("select * from handoffs where status = 'accepted' limit 1");
      assert.deepEqual(rows, []);
    });
  };

  /** How the CRM and the gateway see one in the end. */
  const check = async (one: Sent): Promise<string> => {
    const object = one.body.type === 'quote' ? 'Quote__c' : 'Booking__c';
    const records = await ownOrg.org.records(object, { Trip_Id__c: one.body.trip_id });
    assert.equal(records.length, one.isPoisoned ? 0 : 1, one.externalId);
    if (one.status === 422) return 'refused';
    if (!one.isPoisoned) assert.equal(records[0]?.['External_Id__c'], one.externalId);
    return one.status === 201 ? 'created at once' : checkAccepted(one, records[0]?.['Id'] ?? null);
  };

  const checkAccepted = async ({ externalId, isPoisoned }: Sent, nativeId: unknown): Promise<string> => {
    const response = await fetch(`${anyUrl()}/v1/handoffs/${externalId}`, { headers });
    const { status, id, problem } = (await response.json()) as AcceptedHandoff;
    const expected = isPoisoned ? ['failed', 'member_not_found'] : ['created', undefined];
    assert.deepEqual([status, problem?.code], expected);
    assert.equal(id, nativeId);
    return status;
  };

  test(`${handoffs} hand-offs and ${kills} kills: each is made once, or has failed with its problem`, async (context) => {
    const share = Math.ceil(handoffs / failures.length);
    for (const [index, failure] of failures.entries()) {
      const fault = await ownOrg.org.arm(failure);
      if (failure.effect.kind === 'tokenError') await ownOrg.org.revokeTokens();
      const killsNow = Math.floor(kills / failures.length) + (index < kills % failures.length ? 1 : 0);
      await accept(share, killsNow, index === 2);
      await fault.remove();
    }
    context.diagnostic(`answers by status: ${JSON.stringify(answers)}`);
    const startedAt = performance.now();
    await untilAllDone();
    context.diagnostic(`all delivered after ${Math.round((performance.now() - startedAt) / 100) / 10} s`);

    const ends: Record<string, number> = {};
    for (const one of sent) {
      const end = await check(one);
      ends[end] = (ends[end] ?? 0) + 1;
    }
    context.diagnostic(`${sent.length} hand-offs: ${JSON.stringify(ends)}`);
    assert.equal(sent.length, handoffs);
    const { rows } = await database.query<{ type: string; events: string }>(
      "select type, count(*) as events from events where resource_type = 'handoff' group by type",
    );
    const published = Object.fromEntries(rows.map(({ type, events }) => [type, Number(events)]));
    assert.equal(published['handoff.failed'] ?? 0, ends['failed'] ?? 0);
    assert.ok((published['handoff.created'] ?? 0) >= (ends['created'] ?? 0));
  });
});
