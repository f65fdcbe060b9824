import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CommandLine } from '../../support/command-line.ts';
import { eventually } from '../../support/eventually.ts';
import { FeedReader } from '../../support/feed.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { accept, untilHandoff } from '../../support/handoffs.ts';
import { startPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { startRedis } from '../../support/redis.ts';

interface Listed {
  type: string;
  resource: { id: string };
  member?: Record<string, string | null> | null;
  record?: Record<string, unknown> | null;
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
const handedOff = ['trip_id', 'member_id', 'name', 'source', 'details'];

describe('what is beside the events of hand-offs', () => {
  const gateway = useGateway({
    ...{ CHANGES_POLL_SECONDS: '0.3', CHANGES_MINIMUM_SECONDS: '0.1' },
    ...stores,
  });
  let feed: FeedReader;
  let agent: Credentials;
  before(async () => {
    feed = new FeedReader(gateway.request);
    agent = await gateway.newConsumer(on('quotes', { approval: true }));
  });

  function on(resource: string, more: object = {}, actions = ['read', 'write']) {
    return { resource, actions, ...more } as never;
  }
  const readPage = async (query: string, as?: Credentials) => {
    const path = `/v1/events?order=newest_first&${query}`;
    const response = await gateway.request(path, as && { as });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return { text, ...(JSON.parse(text) as { data: Listed[]; next_cursor: string | null }) };
  };
  const both = 'include=member&include=record';
  /** The event of this type about a hand-off. */
  const eventOf = async (type: string, id: string, as?: Credentials, query = both) => {
    const { data } = await readPage(`${query}&type=${type}&resource_id=${id}`, as);
    return data[0] ?? assert.fail(`no ${type}`);
  };
  const make = async (change: object = {}, as?: Credentials) => {
    const id = await accept(gateway, change, as && { as });
    await untilHandoff(gateway, id);
    for (const type of ['quote.created', 'handoff.created'])
      await feed.until((event) => event.type === type && event.resource.id === id);
    return id;
  };
  const ask = (change: object = {}) => accept(gateway, change, { as: agent });
  const queries = async () =>
    Number(/^handoff_crm_calls_total\{operation="query"\} (\d+)/m.exec(await gateway.metrics())?.[1] ?? 0);
  /** A new member of the org, whom the gateway has never read. */
  const newMember = async (LastName: string) => {
    const id = crypto.randomUUID();
    await gateway.org.insert('Contact', [{ External_Id__c: id, FirstName: 'Noor', LastName }]);
    return id;
  };

  test('are the member and the record of those that are done, in one query to the org', async () => {
    const members = await Promise.all(['One', 'Two', 'Three'].map(newMember));
    const ids: string[] = [];
    for (const member_id of members) ids.push(await make({ member_id }));
    const before = await queries();
    const { data } = await readPage(`${both}&type=handoff.created&limit=3`);
    assert.deepEqual(data.map(({ resource }) => resource.id).toReversed(), ids);
    assert.deepEqual(data.map(({ member }) => member?.['last_name']).toReversed(), ['One', 'Two', 'Three']);
    for (const { record, member, resource } of data) {
      const { id, member_id, name, details } = record ?? {};
      const shown = { id: resource.id, member_id: member?.['id'], name: 'Hotel Miramar' };
      assert.deepEqual({ id, member_id, name, details }, { ...shown, details: { net: 612.4 } });
    }
    assert.ok((await queries()) - before <= 1);
    const alone = await eventOf('handoff.created', ids[0] ?? '', undefined, 'include=member');
    assert.deepEqual(['record' in alone, alone.member?.['id']], [false, members[0]]);
    const plain = await eventOf('handoff.created', ids[0] ?? '', undefined, '');
    assert.deepEqual(['record' in plain, 'member' in plain], [false, false]);
    const quote = await eventOf('quote.created', ids[0] ?? '');
    assert.deepEqual(['record' in quote, quote.member?.['id']], [false, members[0]]);
  });

  test('are those of the record as it is now', async () => {
    const id = await make();
    const other = await newMember('Mover');
    const path = `/v1/quotes/${id}`;
    const body = { member_id: other, name: 'Hotel Moved' };
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const changed = await gateway.request(path, { method: 'PATCH', body, headers });
    assert.equal(changed.status, 200, await changed.text());
    await feed.until(({ type, resource }) => type === 'quote.updated' && resource.id === id);
    const { record, member } = await eventOf('handoff.created', id);
    assert.deepEqual([record?.['name'], member?.['last_name']], ['Hotel Moved', 'Mover']);
    await gateway.org.bin('Quote__c', id);
    await feed.until(({ type, resource }) => type === 'quote.deleted' && resource.id === id);
    const gone = await eventOf('handoff.created', id);
    assert.deepEqual([gone.record, gone.member], [null, null]);
  });

  test('are what waits, or has failed, and the member alone of what was rejected', async () => {
    const details = '{"total":1204.50,"id":12345678901234567890}';
    const offer = { name: 'Casa Asked', source: 'x' };
    const waiting = await gateway.request('/api/v1/handoff', {
      as: agent,
      body: `{"type":"quote","trip_id":"${crypto.randomUUID()}","member_id":"${gateway.org.memberId}",
        "result":{"name":"Casa Asked","source":"x","details":${details}}}`,
    });
    const { external_id: id } = (await waiting.json()) as { external_id: string };
    const asked = await eventOf('handoff.awaiting_approval', id);
    assert.deepEqual(Object.keys(asked.record ?? {}), handedOff);
    assert.equal(asked.member?.['id'], gateway.org.memberId);
    const { text } = await readPage(`${both}&resource_id=${id}`);
    assert.ok(text.includes(`"details":${details}`));
    const reject = { method: 'POST', body: { reason: 'No.' }, as: gateway.admin };
    const rejected = await gateway.request(`/v1/handoffs/${id}/reject`, reject);
    assert.equal(rejected.status, 200, await rejected.text());
    const { record, member } = await eventOf('handoff.rejected', id);
    assert.deepEqual(Object.keys(record ?? {}), ['trip_id', 'member_id']);
    assert.equal(member?.['id'], gateway.org.memberId);
    const lost = await accept(gateway, { member_id: crypto.randomUUID(), result: { ...offer, details: {} } });
    await untilHandoff(gateway, lost, ({ status }) => status === 'failed');
    const failed = await eventOf('handoff.failed', lost);
    assert.deepEqual([failed.record?.['name'], failed.member], ['Casa Asked', null]);
    const withdrawn = await gateway.request(`/v1/handoffs/${lost}`, { method: 'DELETE' });
    assert.equal(withdrawn.status, 204);
    assert.equal((await eventOf('handoff.failed', lost)).record, null);
  });

  test('are for those who may see them now', async () => {
    const read = ['read'];
    const members = on('members', {}, read);
    const all = [...handedOff, 'status', 'created_by'];
    const [made, waiting] = [await make(), await ask()];
    const whole = await gateway.newConsumer(on('quotes', { fields: all }, read), members);
    const partly = await gateway.newConsumer(on('quotes', { fields: ['member_id'] }, read), members);
    const blind = await gateway.newConsumer(on('quotes', { fields: ['name'] }, read), members);
    const shown = async (as: Credentials, query?: string) => {
      const { record: one, member: first } = await eventOf('handoff.created', made, as, query);
      const { record: other, member: second } = await eventOf(
        'handoff.awaiting_approval',
        waiting,
        as,
        query,
      );
      const fields = [one, other].map((record) => record && Object.keys(record));
      return [...fields, first?.['id'], second?.['id']];
    };
    const { memberId } = gateway.org;
    assert.deepEqual(await shown(whole), [['id', ...all], handedOff, memberId, memberId]);
    assert.deepEqual(await shown(partly), [['id', 'member_id'], ['member_id'], memberId, memberId]);
    assert.deepEqual(await shown(blind, 'include=record'), [['id', 'name'], null, undefined, undefined]);
    await assertProblem(await gateway.request(`/v1/events?${both}`, { as: blind }), 403, 'permission_denied');
  });

  test('are not those of a record that is somebody else’s by now', async () => {
    const own = await gateway.newConsumer(on('quotes', { records: 'own' }), on('members', {}, ['read']));
    const id = await make({}, own);
    assert.equal((await eventOf('handoff.created', id, own)).member?.['id'], gateway.org.memberId);
    await gateway.org.edit(
      'Quote__c',
      { External_Id__c: id },
      { Consumer_Id__c: agent.id, Name__c: 'Casa Taken', LastModifiedDate: new Date().toISOString() },
    );
    await feed.until(({ type, resource }) => type === 'quote.updated' && resource.id === id);
    const { record, member } = await eventOf('handoff.created', id, own);
    assert.deepEqual([record, member], [null, null]);
  });

  test('end a page where they are long, and the next page has the rest', async () => {
    const details = { text: 'x'.repeat(125_000) };
    const offer = { result: { name: 'Casa Long', source: 'x', details } };
    const first = await ask();
    const ids: string[] = [];
    for (let n = 0; n < 36; n++) ids.push(await ask(offer));
    for (const include of ['include=record', 'include=member']) {
      const found: Listed[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const query = `${include}&type=handoff.awaiting_approval&limit=50`;
        const page = await readPage(`${query}${cursor && `&cursor=${cursor}`}`);
        assert.ok(page.text.length < 4.5 * 1024 * 1024);
        if (cursor === '') assert.ok(page.data.length < ids.length);
        found.push(...page.data);
        cursor = page.data.some(({ resource }) => resource.id === first) ? null : page.next_cursor;
      }
      const long = found.filter(({ resource }) => ids.includes(resource.id));
      assert.deepEqual(new Set(long.map(({ resource }) => resource.id)), new Set(ids));
      assert.equal(long.length, ids.length);
      if (include === 'include=member')
        assert.ok(long.every(({ member }) => member?.['id'] === gateway.org.memberId));
      else assert.ok(long.every(({ record }) => record?.['name'] === 'Casa Long'));
    }
  });

  test('stay during an outage', async () => {
    const member_id = await newMember('Outage');
    const id = await make({ member_id });
    assert.equal((await eventOf('handoff.created', id)).member?.['last_name'], 'Outage');
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const { record, member } = await eventOf('handoff.created', id);
    await gateway.org.disarm();
    assert.equal(record?.['name'], 'Hotel Miramar');
    // The cache has it where there is one.
    if (stores) assert.equal(member?.['last_name'], 'Outage');
    await eventually(async () =>
      assert.equal((await eventOf('handoff.created', id)).member?.['last_name'], 'Outage'),
    );
  });

  test('are null once the member is erased', { skip: !stores && 'no PostgreSQL or no Redis' }, async () => {
    const member_id = await newMember('Forgotten');
    const id = await make({ member_id });
    assert.equal((await eventOf('handoff.created', id)).member?.['id'], member_id);
    const env = { ...stores, DATA_DIR: gateway.dataDir };
    await commands.run(['member', 'forget', member_id], { env, cwd: gateway.dataDir });
    const { record, member } = await eventOf('handoff.created', id);
    assert.deepEqual([record, member], [null, null]);
  });
});
