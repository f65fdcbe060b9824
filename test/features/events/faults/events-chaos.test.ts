import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { startCluster } from '../../../support/cluster.ts';
import { eventually } from '../../../support/eventually.ts';
import { type FeedEvent, FeedReader } from '../../../support/feed.ts';
import { startOwnOrg } from '../../../support/own-org.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';

/** `FEED_CHANGES=2000 FEED_KILLS=5` is the long run. */
const changes = Number(process.env['FEED_CHANGES'] ?? 150);
const kills = Number(process.env['FEED_KILLS'] ?? 2);

/** What a consumer knows that has read all events: External ID and name. */
function replay(events: readonly FeedEvent[]): Map<string, unknown> {
  const known = new Map<string, unknown>();
  for (const { type, resource, data } of events) {
    if (type === 'quote.deleted') known.delete(resource.id);
    else if (resource.type === 'quote') known.set(resource.id, data['name']);
  }
  return known;
}

test('with replicas that are killed and a database that is cut off, the feed leads to the final state', async (t) => {
  const postgres = await startPostgres();
  if (!postgres) return t.skip('there is no PostgreSQL');
  t.after(() => postgres.stop());
  const database = await startTcpProxy(postgres.url);
  t.after(() => database.close());
  const own = await startOwnOrg();
  t.after(() => own.close());
  const { org } = own;
  const env = {
    ...{ DATABASE_URL: database.url, CHANGES_POLL_SECONDS: '0.5', CHANGES_MINIMUM_SECONDS: '0.2' },
    RATE_LIMIT_PER_MINUTE: '0',
  };
  const cluster = await startCluster(2, own, env);
  t.after(() => cluster.remove());
  const { apiKey, apiSecret } = cluster.credentials.console;
  const feed = new FeedReader(async (path) => {
    return eventually(async () => {
      const [gateway] = cluster.gateways;
      const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
      const response = await fetch(`${gateway?.url}${path}`, { headers });
      assert.equal(response.status, 200);
      return response;
    });
  });

  const ids: string[] = [];
  async function change(index: number): Promise<void> {
    const id = ids[index % Math.max(1, Math.floor(ids.length / 2))];
    const what = index % 5;
    // Some changes become visible behind those that were read already.
    const late = new Date(Date.now() - (index % 7) * 15_000).toISOString().replace('Z', '+0000');
    if (id === undefined || what < 2) {
      const added = randomUUID();
      ids.push(added);
      const row = {
        External_Id__c: added,
        Name__c: `new ${index}`,
        Source__c: 's',
        Trip_Id__c: randomUUID(),
      };
      await org.insert('Quote__c', [{ ...row, LastModifiedDate: late, SystemModstamp: late }]);
    } else if (what < 4) {
      await org.edit(
        'Quote__c',
        { External_Id__c: id },
        { Name__c: `changed ${index}`, SystemModstamp: late },
      );
    } else {
      const isThere = (await org.records('Quote__c', { External_Id__c: id })).length > 0;
      await org.bin('Quote__c', id, isThere ? 'delete' : 'undelete');
    }
  }

  async function query(text: string): Promise<unknown[]> {
    const client = new Client(postgres?.url);
    await client.connect();
    const { rows } = await client.query(text);
    await client.end();
    return rows;
  }

  /** A dead reader's lease is 30 s long: it is ended here, to save the time. */
  const endLease = () => query('update change_reader set lease_until = to_timestamp(0)');

  /** Changes from before the first complete poll are no events. */
  async function untilFirstPoll(): Promise<void> {
    const completed = 'select from change_reader where completed_at is not null';
    await eventually(async () => assert.notEqual((await query(completed)).length, 0), { everyMs: 50 });
  }

  await untilFirstPoll();
  for (let index = 0; index < changes; index++) {
    await change(index);
    const part = Math.ceil(changes / (kills + 1));
    if (index % part !== part - 1 || index === changes - 1) continue;
    const victim = index % 2;
    cluster.gateways[victim]?.signal('SIGKILL');
    await cluster.gateways[victim]?.ended;
    await endLease();
    if (index < part) {
      await database.cut();
      await sleep(500);
      await database.restore();
    }
    await cluster.start(victim);
  }
  const wanted = new Map(
    (await org.records('Quote__c')).map((row) => [String(row['External_Id__c']), row['Name__c']]),
  );
  const isReached = () => {
    const known = replay(feed.events);
    return known.size === wanted.size && [...wanted].every(([id, name]) => known.get(id) === name);
  };
  for (const end = performance.now() + 120_000; !isReached() && performance.now() < end; await sleep(200))
    await feed.next();
  assert.deepEqual(new Map([...replay(feed.events)].toSorted()), new Map([...wanted].toSorted()));
  const seen = feed.events.map(({ id }) => id);
  assert.equal(new Set(seen).size, seen.length);
  t.diagnostic(`${changes} changes, ${kills} kills, ${seen.length} events`);
});
