import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { CommandLine } from '../../support/command-line.ts';
import { eventually } from '../../support/eventually.ts';
import { FeedReader } from '../../support/feed.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { startPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { startRedis } from '../../support/redis.ts';

interface Listed {
  data: { member_id?: string };
  data_omitted?: boolean;
  resource: { id: string };
  member?: Record<string, string | null> | null;
}

const postgres = await startPostgres();
const redis = postgres && (await startRedis());
const commands = new CommandLine();
after(async () => {
  commands.stop();
  await redis?.stop();
  await postgres?.stop();
});

const stores = redis && { DATABASE_URL: postgres.url, REDIS_URL: redis.url };

for (const copied of [false, true])
  describe(`members beside events, ${copied ? 'from the copy' : 'from the CRM'}`, () => {
    const gateway = useGateway({
      ...{ CHANGES_POLL_SECONDS: '0.3', CHANGES_MINIMUM_SECONDS: '0.1' },
      ...(copied ? { COPY_ENABLED: 'true' } : stores),
    });
    let feed: FeedReader;
    /** Members that the org has, as it has them. */
    let contacts: Record<string, unknown>[];
    before(async () => {
      feed = new FeedReader(gateway.request);
      contacts = (await gateway.org.records('Contact')).slice(0, 100);
      if (copied)
        await eventually(async () => {
          const headers = { 'cache-control': 'max-age=3600' };
          const read = await gateway.request(`/v1/members/${gateway.org.memberId}`, { headers });
          assert.ok(read.headers.has('age'), 'the copy is not filled');
        });
    });

    /** Quotes of these members that somebody makes in the org, once their events are there. */
    const quotesOf = async (members: readonly Record<string, unknown>[]) => {
      const rows = members.map(({ Id }) => ({
        ...{ External_Id__c: randomUUID(), Trip_Id__c: randomUUID(), Member__c: Id },
        ...{ Name__c: 'Hotel Miramar', Source__c: 's', Status__c: 'created' },
      }));
      await gateway.org.insert('Quote__c', rows);
      for (const { External_Id__c: id } of rows) await feed.until(({ resource }) => resource.id === id);
      return rows.map(({ External_Id__c: id }) => id);
    };
    const read = async (query: string, as?: Credentials): Promise<Listed[]> => {
      const path = `/v1/events?order=newest_first&${query}`;
      const response = await gateway.request(path, as && { as });
      assert.equal(response.status, 200, await response.clone().text());
      return ((await response.json()) as { data: Listed[] }).data;
    };
    const memberOf = async (quote: string, as?: Credentials) => {
      const [event] = await read(`include=member&resource_id=${quote}`, as);
      return event?.member;
    };
    const calls = async () => {
      const metrics = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
      return Number(/^handoff_crm_calls_total\{operation="query"\} (\d+)/m.exec(metrics)?.[1] ?? 0);
    };

    test('of a page of 100 are one query to the org, or none with the copy', async () => {
      assert.equal(contacts.length, 100);
      const quotes = await quotesOf(contacts);
      const before = await calls();
      const page = 'type=quote.created&limit=100';
      const events = await read(`${page}&include=member`);
      assert.deepEqual(events.map(({ resource }) => resource.id).toSorted(), quotes.toSorted());
      assert.equal(new Set(events.map(({ data }) => data.member_id)).size, 100);
      for (const { data, member } of events) {
        const contact = contacts.find((one) => one['External_Id__c'] === data.member_id);
        const { FirstName: first_name, LastName: last_name, Email: email } = contact ?? {};
        assert.deepEqual(member, { id: data.member_id, first_name, last_name, email });
      }
      assert.equal((await calls()) - before, copied ? 0 : 1);
      assert.deepEqual(await read(`${page}&include=member`), events);
      assert.equal((await calls()) - before, copied ? 0 : 1);
      assert.ok((await read(page)).every((event) => !('member' in event)));
    });

    test('need members:read and sight of the member, and show the fields that the caller may see', async () => {
      const [quote = ''] = await quotesOf(contacts.slice(0, 1));
      const ofQuotes = { resource: 'quotes', actions: ['read'] } as const;
      const ofMembers = { resource: 'members', actions: ['read'] } as const;
      const none = await gateway.newConsumer(ofQuotes as never);
      const blind = await gateway.newConsumer(ofMembers as never, { ...ofQuotes, fields: ['name'] } as never);
      for (const as of [none, blind])
        await assertProblem(
          await gateway.request('/v1/events?include=member', { as }),
          403,
          'permission_denied',
        );
      const first = { ...ofMembers, fields: ['first_name'] };
      const narrow = await gateway.newConsumer(ofQuotes as never, first as never);
      assert.deepEqual(Object.keys((await memberOf(quote, narrow)) ?? {}), ['id', 'first_name']);
      await assertProblem(
        await gateway.request('/v1/events?include=trip', { as: narrow }),
        400,
        'invalid_request',
        'include',
      );
    });

    test('are null once the member is deleted', async () => {
      const [quote = ''] = await quotesOf(contacts.slice(1, 2));
      const id = String(contacts[1]?.['External_Id__c']);
      assert.equal((await memberOf(quote))?.['id'], id);
      await gateway.org.bin('Contact', id);
      await feed.until(({ type, resource }) => type === 'member.deleted' && resource.id === id);
      assert.equal(await memberOf(quote), null);
      const [deletion] = await read(`include=member&resource_id=${id}&type=member.deleted`);
      assert.equal(deletion?.member, null);
    });

    if (!copied)
      test('are null once the member is erased', {
        skip: !stores && 'no PostgreSQL or no Redis',
      }, async () => {
        const [quote = ''] = await quotesOf(contacts.slice(4, 5));
        const id = String(contacts[4]?.['External_Id__c']);
        assert.equal((await memberOf(quote))?.['id'], id);
        const env = { ...stores, DATA_DIR: gateway.dataDir };
        const { stdout } = await commands.run(['member', 'forget', id], { env, cwd: gateway.dataDir });
        assert.match(stdout, /^events +2$/m);
        const [event] = await read(`include=member&resource_id=${quote}`);
        assert.deepEqual([event?.data_omitted, event?.member], [true, null]);
      });

    test('are those of the cache or the copy during an outage, and the others afterwards', async () => {
      const [Id] = await gateway.org.insert('Contact', [
        { External_Id__c: randomUUID(), FirstName: 'Noor', LastName: 'Late' },
      ]);
      const known = await quotesOf(contacts.slice(2, 3));
      const [quote = ''] = await quotesOf([{ Id }]);
      const name = contacts[2]?.['LastName'];
      assert.equal((await memberOf(known[0] ?? ''))?.['last_name'], name);
      await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
      const page = await read('include=member&limit=200');
      const shown = (id: string | undefined) => page.find(({ resource }) => resource.id === id)?.member;
      assert.equal(shown(known[0])?.['last_name'], name);
      assert.equal(shown(quote)?.['last_name'], copied ? 'Late' : undefined);
      await gateway.org.disarm();
      await eventually(async () => assert.equal((await memberOf(quote))?.['last_name'], 'Late'));
    });
  });
