import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { forgetClaims } from '../../../src/api/idempotency/claims-table.ts';
import { TestRecords } from '../../../src/features/test-mode/test-records.ts';
import { sampleId } from '../../../src/features/test-mode/world-members.ts';
import { type WorldKey, WorldsTable } from '../../../src/features/test-mode/worlds-table.ts';
import { makeConsumerId } from '../../../src/identity/consumers/credentials.ts';
import { type Call, startCall } from '../../../src/platform/base/call.ts';
import { isUuid } from '../../../src/platform/base/text.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { resourcesOf } from '../../../src/records/mapping.ts';
import type { FieldValues } from '../../../src/records/records.ts';
import type { Resource } from '../../../src/records/resource.ts';
import { recordsConformance } from '../../conformance/records.ts';
import { aList, hasCode, quoteFor } from '../../crm/crm-harness.ts';
import { useTestDatabase } from '../../support/databases.ts';

/** The first member of the simulated org. */
const memberId = '8673c1d4-1752-87ae-aa59-227b6cc68c14';

describe('records of test consumers', () => {
  const resources = resourcesOf();
  const consumerId = makeConsumerId('test');
  const aCall = (id = consumerId) => startCall('test', id);
  const opened = useTestDatabase();
  let database: Database;
  let table: WorldsTable;
  let records: TestRecords;
  before(async () => {
    [database] = opened.replicas;
    table = new WorldsTable(database);
    records = new TestRecords(table);
  });

  async function insert({ name }: Resource, rows: readonly FieldValues[]): Promise<void> {
    for (const { created_at, ...values } of rows) {
      if (!isUuid(values['id'] ?? '')) continue;
      const filters = JSON.stringify({ trip_id: values['trip_id'] });
      await sql`
        insert into test_records (consumer_id, resource, external_id, created_at, updated_at, content, filters)
        values (${consumerId}, ${name}, ${values['id']}, ${created_at}, ${created_at}, ${JSON.stringify(values)},
          ${filters}::jsonb)`.execute(database.sql);
    }
  }

  recordsConformance(() => ({ records, resources, memberId, aCall, insert }));

  it('has the members of the simulated org, the same in every world', async () => {
    for (const id of [consumerId, makeConsumerId('test')]) {
      const { records: found, hasMore } = await records.list(
        resources.member,
        aList({ limit: 200 }),
        aCall(id),
      );
      assert.equal(found.length, 100);
      assert.equal(hasMore, false);
      assert.equal(found.at(-1)?.id, memberId);
    }
  });

  it('pages through members in both orders', async () => {
    const read = async (updatedSince?: string) => {
      const ids: string[] = [];
      for (let after: { at: string; id: string } | undefined; ; ) {
        const query = { limit: 7, ...(updatedSince && { updatedSince }), ...(after && { after }) };
        const page = await records.list(resources.member, aList(query), aCall());
        ids.push(...page.records.map(({ id }) => id));
        after = page.records.at(-1);
        if (!page.hasMore) return ids;
      }
    };
    const newestFirst = await read();
    assert.equal(newestFirst.length, 100);
    assert.deepEqual(await read('2025-01-01T00:00:00.000Z'), newestFirst.toReversed());
  });

  it('keeps worlds apart', async () => {
    const id = randomUUID();
    await records.create(resources.quote, id, quoteFor(memberId), aCall());
    const another = aCall(makeConsumerId('test'));
    assert.equal(await records.find(resources.quote, id, another), undefined);
    assert.deepEqual((await records.list(resources.quote, aList(), another)).records, []);
    const mine = await records.find(resources.quote, id, aCall());
    await assert.rejects(
      records.remove(resources.quote, { nativeId: mine?.nativeId ?? '' }, another),
      hasCode('not_found'),
    );
  });

  it('never shows a record again as it was before', async () => {
    const id = randomUUID();
    await records.create(resources.quote, id, quoteFor(memberId), aCall());
    const seen: unknown[] = [];
    for (const name of ['A', 'B', 'A', 'B']) {
      const record = await records.find(resources.quote, id, aCall());
      assert.ok(record);
      seen.push(JSON.stringify(record.values));
      await records.update(resources.quote, record, { name }, aCall());
    }
    assert.equal(new Set(seen).size, 4);
  });

  it('takes 10,000 quotes and bookings, and more once some are deleted', async () => {
    const full = makeConsumerId('test');
    const ref = await records.create(resources.quote, randomUUID(), quoteFor(memberId), aCall(full));
    await sql`update test_worlds set records = 10000 where consumer_id = ${full}`.execute(database.sql);
    const create = () => records.create(resources.booking, randomUUID(), quoteFor(memberId), aCall(full));
    await assert.rejects(create(), hasCode('crm_rejected'));
    await records.remove(resources.quote, ref, aCall(full));
    await create();
    await assert.rejects(create(), hasCode('crm_rejected'));
  });

  it('frees what a record held when it is deleted, and knows what it has made', async () => {
    const as = makeConsumerId('test');
    const id = randomUUID();
    const values = quoteFor(memberId, { name: 'To be freed' });
    const create = (options = {}) => records.create(resources.quote, id, values, aCall(as), options);
    await records.remove(resources.quote, await create(), aCall(as));
    const { rows } = await sql<{ content: string; bytes: number }>`
      select content || filters::text as content, bytes::integer as bytes
      from test_records join test_worlds using (consumer_id) where consumer_id = ${as}`.execute(database.sql);
    assert.deepEqual(rows, [{ content: '{}{}', bytes: 0 }]);
    // The answer to a repeat of its creation.
    const again = await create({ mayExist: true });
    assert.deepEqual([again.isDeleted, again.values['name']], [true, 'To be freed']);
  });

  it('has faults that pass after 30 seconds, for the record that met them', async () => {
    for (const [end, code] of [
      ['503', 'crm_unavailable'],
      ['429', 'crm_quota_exhausted'],
    ] as const) {
      const id = randomUUID();
      const values = quoteFor(`00000000-0000-4000-8000-000000000${end}`);
      const create = () => records.create(resources.quote, id, values, aCall());
      for (const _ of [1, 2]) await assert.rejects(create(), { code });
      await sql`update test_faults set met_at = now() - interval '30 seconds' where external_id = ${id}`.execute(
        database.sql,
      );
      assert.ok(await create());
    }
  });

  it('loses the answer of a write once, and has done it', async () => {
    const member = '00000000-0000-4000-8000-000000000504';
    const id = randomUUID();
    const create = () => records.create(resources.quote, id, quoteFor(member), aCall());
    await assert.rejects(create(), hasCode('crm_timeout', { outcomeUnknown: true }));
    assert.equal((await create()).values['id'], id);
    const other = randomUUID();
    await records.create(resources.quote, other, quoteFor(memberId), aCall());
    const record = await records.find(resources.quote, other, aCall());
    assert.ok(record);
    const change = records.update(resources.quote, record, { member_id: member }, aCall());
    await assert.rejects(change, hasCode('crm_timeout', { outcomeUnknown: true }));
    assert.equal((await records.find(resources.quote, other, aCall()))?.values['member_id'], member);
  });

  it('has the quote and the booking that the examples of the documentation name', async () => {
    const id = '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f';
    const world = makeConsumerId('test');
    const replicas = [records, new TestRecords(new WorldsTable(database))];
    const find = () => records.find(resources.quote, id, aCall(world));
    assert.deepEqual((await records.list(resources.quote, aList(), aCall(world))).records, []);
    const found = await Promise.all(
      replicas.flatMap((replica) =>
        [resources.quote, resources.booking].map((one) => replica.find(one, id.toUpperCase(), aCall(world))),
      ),
    );
    assert.equal(new Set(found.map((record) => record?.nativeId)).size, 2);
    assert.equal(found[0]?.values['member_id'], memberId);
    assert.equal(found[0].values['consumer_id'], world);
    const { rows } = await sql<{ records: number }>`
      select records from test_worlds where consumer_id = ${world}`.execute(database.sql);
    assert.deepEqual(rows, [{ records: 2 }]);

    await records.remove(resources.quote, found[0], aCall(world));
    await sql`
      update test_records set deleted_at = now() - interval '25 hours'
      where consumer_id = ${world} and deleted_at is not null`.execute(database.sql);
    await table.clear();
    assert.equal(await find(), undefined);
    await table.empty(world);
    assert.ok(await find());
    await table.empty(world);
    await table.noteUse(world);
    await sql`update test_worlds set records = 10000 where consumer_id = ${world}`.execute(database.sql);
    assert.equal(await find(), undefined);
  });

  /** Its lists and writes wait for the gate. */
  function slowRecords() {
    const gate = Promise.withResolvers<void>();
    const slow = Object.assign(new WorldsTable(database), {
      list: async () => (await gate.promise, []),
      transaction: async () => (await gate.promise, {}),
    });
    return { slow: new TestRecords(slow), answer: gate.resolve };
  }

  it('refuses what would not have its turn in time', { timeout: 30_000 }, async () => {
    const { slow, answer } = slowRecords();
    const { quote } = resources;
    const faulty = '00000000-0000-4000-8000-000000000503';
    const write = (call: Call, member = memberId) => slow.create(quote, randomUUID(), quoteFor(member), call);
    const together = (call: Call) =>
      slow.writeTogether([{ resource: quote, externalId: randomUUID(), values: quoteFor(memberId) }], call);
    const first = [slow.list(quote, aList(), aCall()), together(aCall())];
    const hasNoTurn = hasCode('crm_unavailable', { retryAfter: 1 });
    for (const work of [
      (call: Call) => slow.list(quote, aList(), call),
      write,
      (call: Call) => write(call, faulty),
      together,
      (call: Call) => slow.remove(quote, { nativeId: '1' }, call),
      (call: Call) => slow.find(quote, sampleId, call),
    ])
      await assert.rejects(work(startCall('test', consumerId, 100)), hasNoTurn);
    const later = [slow.list(quote, aList(), aCall()), together(aCall())];
    answer();
    await Promise.all([...first, ...later]);
  });

  it('lets at most 1,000 lists of a consumer wait', { timeout: 30_000 }, async () => {
    const { slow, answer } = slowRecords();
    const list = (call = aCall()) => slow.list(resources.quote, aList(), call);
    const lists = Array.from({ length: 1001 }, () => list());
    await assert.rejects(list(), hasCode('crm_unavailable', { retryAfter: 1 }));
    const another = list(aCall(makeConsumerId('test')));
    answer();
    await Promise.all([...lists, another]);
    await list();
  });

  it('looks up one record for many requests at once', async () => {
    const id = randomUUID();
    await records.create(resources.quote, id, quoteFor(memberId), aCall());
    let lookups = 0;
    const counted = new TestRecords(
      Object.assign(new WorldsTable(database), {
        find: (keys: readonly WorldKey[]) => {
          lookups += 1;
          return table.find(keys);
        },
      }),
    );
    const read = () => counted.find(resources.quote, id, aCall());
    const found = await Promise.all(Array.from({ length: 400 }, read));
    for (const record of found) assert.equal(record?.values['id'], id);
    assert.equal(lookups, 2);
  });

  it('refuses to work for a live consumer', async () => {
    await assert.rejects(
      records.find(resources.quote, randomUUID(), aCall(makeConsumerId())),
      /have a world/,
    );
  });

  it('empties one world, and forgets what was deleted a day ago', async () => {
    const id = randomUUID();
    const other = aCall(makeConsumerId('test'));
    await records.create(resources.quote, id, quoteFor(memberId), other);
    await table.empty(consumerId);
    assert.deepEqual((await records.list(resources.booking, aList(), aCall())).records, []);
    const kept = await records.find(resources.quote, id, other);
    assert.ok(kept);
    await records.remove(resources.quote, kept, other);
    await table.clear();
    assert.ok(await records.findWithDeleted(resources.quote, id, other));
    await sql`update test_records set deleted_at = now() - interval '25 hours' where deleted_at is not null`.execute(
      database.sql,
    );
    await table.clear();
    assert.equal(await records.findWithDeleted(resources.quote, id, other), undefined);
  });

  it('empties a world of many records, and no unused one that is in use again', async () => {
    const large = makeConsumerId('test');
    await table.noteUse(large);
    await sql`
      insert into test_records (consumer_id, resource, external_id, created_at, updated_at, content, filters)
      select ${large}, 'quote', gen_random_uuid(), now(), now(), '{}', '{}' from generate_series(1, 2500)`.execute(
      database.sql,
    );
    const left = async () =>
      (await sql`select from test_records where consumer_id = ${large}`.execute(database.sql)).rows.length;
    assert.equal(await table.empty(large, 90), false);
    assert.equal(await left(), 2500);
    assert.equal(await table.empty(large), true);
    assert.equal(await left(), 0);
  });

  it('forgets of a world that came into use again what is from before, and no more', async () => {
    const [used, another] = [makeConsumerId('test'), makeConsumerId('test')];
    await sql`
      insert into idempotency_claims (consumer_id, key, fingerprint, operation, external_id, fence, lease_until,
        created_at, last_attempt_at, completed_at)
      select consumer_id, gen_random_uuid(), ''::bytea, operation, gen_random_uuid(), 1, at + make_interval(days => leased), at, at,
        case when leased = 0 then at end
      from (values ('old', ${used}, 91, 0), ('new', ${used}, 0, 0), ('under way', ${used}, 91, 92), ('another', ${another}, 91, 0))
        as given (operation, consumer_id, age, leased) cross join lateral (select now() - make_interval(days => age) as at) m`.execute(
      database.sql,
    );
    const left = async () =>
      (
        await sql<{ operation: string }>`
          select operation from idempotency_claims where consumer_id in (${used}, ${another}) order by 1`.execute(
          database.sql,
        )
      ).rows.map(({ operation }) => operation);
    await forgetClaims(database, used, 89);
    assert.deepEqual(await left(), ['another', 'new', 'under way']);
    await forgetClaims(database, used, 0);
    assert.deepEqual(await left(), ['another', 'under way']);
  });

  it('names the worlds that were not used for so long', async () => {
    const unused = makeConsumerId('test');
    await table.noteUse(unused);
    assert.ok(!(await table.unused(90)).includes(unused));
    await sql`update test_worlds set used_at = now() - interval '91 days' where consumer_id = ${unused}`.execute(
      database.sql,
    );
    assert.deepEqual(await table.unused(90), [unused]);
  });
});
