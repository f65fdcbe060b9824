import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { EventFeed } from '../../../src/features/events/event-feed.ts';
import { addEvents, type NewEvent } from '../../../src/features/events/event-log.ts';
import { databaseKinds } from '../../support/databases.ts';

function event(id: string, data = `{"id":"${id}"}`): NewEvent {
  return {
    type: 'quote.created',
    resource: { type: 'quote', id },
    occurredAt: '2027-03-02T16:05:12.000Z',
    data,
    permission: 'quotes',
  };
}

for (const [kind, open] of Object.entries(databaseKinds)) {
  test(`${kind}: a page of the feed reads no more data than it holds, and one event more`, async (t) => {
    const database = await open();
    if (!database) return t.skip('there is no PostgreSQL');
    t.after(database.stop);
    const [replica] = database.replicas;
    const feed = new EventFeed(replica);
    await addEvents(
      replica.sql,
      Array.from({ length: 10 }, (_, n) => event(String(n), JSON.stringify('x'.repeat(1000)))),
    );
    const sizes = [0, 2500, 1_000_000].map(async (maxBytes) => {
      const page = await feed.read({ limit: 5, maxBytes });
      return page?.events.length;
    });
    assert.deepEqual(await Promise.all(sizes), [1, 3, 6]);
  });

  test(`${kind}: a member's erasure takes the data of its events alone`, async (t) => {
    const database = await open();
    if (!database) return t.skip('there is no PostgreSQL');
    t.after(database.stop);
    const [replica] = database.replicas;
    const feed = new EventFeed(replica);
    const data = ['{"member_id":"M-1"}', '{"member_id":"m-2"}'];
    await addEvents(replica.sql, [
      ...data.map((one) => event('a', one)),
      { ...event('m-1'), type: 'member.deleted' },
    ]);
    assert.deepEqual([await feed.eraseMember('m-1'), await feed.eraseMember('m-1')], [1, 0]);
    const page = await feed.read({ limit: 5, maxBytes: 1e6 });
    assert.deepEqual(
      page?.events.map((one) => [JSON.parse(one.data), one.data_omitted]),
      [
        [{ id: 'a' }, true],
        [{ member_id: 'm-2' }, false],
        [{ id: 'm-1' }, false],
      ],
    );
  });

  test(`${kind}: a place is lost with the events behind it, for who reads on from there`, async (t) => {
    const database = await open();
    if (!database) return t.skip('there is no PostgreSQL');
    t.after(database.stop);
    const [replica] = database.replicas;
    const feed = new EventFeed(replica);
    await addEvents(
      replica.sql,
      ['a', 'b', 'c', 'd'].map((id) => event(id)),
    );
    await sql`update events set recorded_at = now() - interval '31 days' where sequence <= 2`.execute(
      replica.sql,
    );
    assert.equal(await feed.deleteOlderThan(30), 2);
    const read = async (order: 'oldest_first' | 'newest_first', after: number) => {
      const page = await feed.read({ order, after, limit: 5, maxBytes: 1e6 });
      return page?.events.map(({ resource_id }) => resource_id).join('');
    };
    const places = [1, 2, 4, 5];
    assert.deepEqual(await Promise.all(places.map((after) => read('oldest_first', after))), [
      ...[undefined, 'cd', '', undefined],
    ]);
    assert.deepEqual(await Promise.all(places.map((after) => read('newest_first', after))), [
      ...['', '', 'c', undefined],
    ]);
  });

  test(`${kind}: events keep their order and every digit of their data`, async (t) => {
    const database = await open();
    if (!database) return t.skip('there is no PostgreSQL');
    t.after(database.stop);
    const [{ sql: queries }] = database.replicas;
    const odd = '{"details":{"net":612.40,"n":9007199254740993,"text":"\\u0000 \\"{,}\\" \\ud800"}}';
    const tooLong = `{"details":"${'é'.repeat(128 * 1024)}"}`;
    await addEvents(queries, []);
    await addEvents(queries, [
      event('a', odd),
      { ...event('b', tooLong), consumerId: 'c1', privateTo: 'c2' },
    ]);
    await assert.rejects(
      queries.transaction().execute(async (transaction) => {
        await addEvents(transaction, [event('never')]);
        throw new Error('rolled back');
      }),
    );
    await addEvents(queries, [event('c')]);
    const { rows } = await sql<Record<string, unknown>>`
      select sequence::integer, id, resource_id, data, data_omitted, consumer_id, private_to
      from events order by sequence`.execute(queries);
    assert.deepEqual(
      rows.map(({ id: _id, ...row }) => row),
      [
        {
          sequence: 1,
          resource_id: 'a',
          data: odd,
          data_omitted: false,
          consumer_id: null,
          private_to: null,
        },
        {
          sequence: 2,
          resource_id: 'b',
          data: '{"id":"b"}',
          data_omitted: true,
          consumer_id: 'c1',
          private_to: 'c2',
        },
        {
          sequence: 3,
          resource_id: 'c',
          data: '{"id":"c"}',
          data_omitted: false,
          consumer_id: null,
          private_to: null,
        },
      ],
    );
    for (const { id } of rows) assert.match(String(id), /^evt_[a-z0-9]{32}$/);
  });
}
