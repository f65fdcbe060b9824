import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import type { Call } from '../../src/platform/base/call.ts';
import type { Problem } from '../../src/platform/base/problem.ts';
import type { Resources } from '../../src/records/mapping.ts';
import type { FieldValues, ListQuery, Records } from '../../src/records/records.ts';
import type { Resource } from '../../src/records/resource.ts';
import { aList, hasCode, quoteFor } from '../crm/crm-harness.ts';

export interface RecordsUnderTest {
  records: Records;
  resources: Resources;
  /** A member that exists. */
  memberId: string;
  /** A new call, of one and the same caller. */
  aCall(): Call;
  /** Writes records as they are, by the API's names; those that the system cannot hold are left out. */
  insert(resource: Resource, rows: readonly FieldValues[]): Promise<unknown>;
}

/** What the port promises, whatever names the org has; `confirmed` must be a status of bookings. */
export function recordsConformance(open: () => RecordsUnderTest): void {
  const records = (): Records => open().records;
  const quote = (): Resource => open().resources.quote;
  const booking = (): Resource => open().resources.booking;
  const member = (): Resource => open().resources.member;
  const aCall = () => open().aCall();
  const insert: RecordsUnderTest['insert'] = (resource, rows) => open().insert(resource, rows);

  it('creates a record that carries its External ID, and finds it as it was written', async () => {
    const id = randomUUID();
    const values = quoteFor(open().memberId, { details: '{"a":12345678901234567890,"ü":"🧭","e":{}}' });
    const { nativeId } = await records().create(quote(), id, values, aCall());
    assert.match(nativeId, /^[A-Za-z0-9]{18}$/);
    const found = await records().find(quote(), id.toUpperCase(), aCall());
    assert.equal(found?.nativeId, nativeId);
    const expected = { ...values, id, status: 'created' };
    const shown = Object.keys(expected).map((name) => [name, found?.values[name]]);
    assert.deepEqual(Object.fromEntries(shown), expected);
    assert.match(String(found?.values['created_at']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/);
  });

  it('refuses a quote for a member that the CRM does not know', async () => {
    const creation = records().create(quote(), randomUUID(), quoteFor(randomUUID()), aCall());
    await assert.rejects(creation, (error: Problem) => {
      assert.equal(error.code, 'member_not_found');
      assert.deepEqual(error.facts.errors, [{ pointer: '#/member_id', message: "isn't the id of a member" }]);
      return true;
    });
  });

  it('returns the record that is there already instead of making a second one or changing the first', async () => {
    const { memberId } = open();
    const id = randomUUID();
    const first = await records().create(quote(), id, quoteFor(memberId, { name: 'First' }), aCall());
    const again = await records().create(quote(), id, quoteFor(memberId, { name: 'Second' }), aCall());
    assert.equal(again.nativeId, first.nativeId);
    assert.equal((await records().find(quote(), id, aCall()))?.values['name'], 'First');
  });

  it('replaces the given fields and leaves the others', async () => {
    const { memberId } = open();
    const id = randomUUID();
    const ref = await records().create(booking(), id, quoteFor(memberId), aCall());
    const change = { name: "O'Hara \\ \n x", status: 'confirmed', member_id: memberId };
    await records().update(booking(), ref, change, aCall());
    const values = (await records().find(booking(), id, aCall()))?.values;
    assert.equal(values?.['name'], "O'Hara \\ \n x");
    assert.equal(values?.['status'], 'confirmed');
    assert.equal(values?.['source'], 'hotels');
    assert.equal(values?.['member_id'], memberId);
  });

  it('says not_found when the record to change or to remove is gone, deleted or never there', async () => {
    const { memberId } = open();
    const ref = await records().create(quote(), randomUUID(), quoteFor(memberId), aCall());
    await records().remove(quote(), ref, aCall());
    const notThere = { nativeId: `${ref.nativeId.slice(0, 11)}zzzz` };
    for (const gone of [ref, notThere]) {
      await assert.rejects(records().remove(quote(), gone, aCall()), hasCode('not_found'));
      await assert.rejects(records().update(quote(), gone, { name: 'x' }, aCall()), hasCode('not_found'));
      const withMember = { name: 'x', member_id: memberId };
      await assert.rejects(records().update(quote(), gone, withMember, aCall()), hasCode('not_found'));
    }
  });

  it('finds nothing where the External ID is unknown or no UUID', async () => {
    for (const id of [randomUUID(), 'LEGACY-1'])
      assert.equal(await records().find(member(), id, aCall()), undefined);
  });

  it('finds a deleted record only where it is asked for those', async () => {
    const id = randomUUID();
    const ref = await records().create(quote(), id, quoteFor(open().memberId), aCall());
    await records().remove(quote(), ref, aCall());
    assert.equal(await records().find(quote(), id, aCall()), undefined);
    const found = await records().findWithDeleted(quote(), id, aCall());
    assert.equal(found?.nativeId, ref.nativeId);
    assert.equal(found?.isDeleted, true);
    assert.equal(found.values['consumer_id'], aCall().consumerId ?? null);
  });

  it('shows members', async () => {
    const found = await records().find(member(), open().memberId.toUpperCase(), aCall());
    assert.equal(found?.values['id'], open().memberId);
    assert.match(String(found?.values['email']), /@example\.com$/);
    const filters = { email: String(found?.values['email']).toUpperCase() };
    const listed = await records().list(member(), aList({ filters }), aCall());
    assert.deepEqual(
      listed.records.map(({ id }) => id),
      [open().memberId],
    );
  });

  describe('lists', () => {
    const trip = randomUUID();
    const moments = [
      '2026-03-01T10:00:00.000+0000',
      '2026-03-01T10:00:01.000+0000',
      '2026-03-01T10:00:02.000+0000',
    ];
    const row = (id: string | null, index: number): FieldValues => ({
      id,
      name: `Row ${index}`,
      source: 'x',
      trip_id: trip,
      created_at: moments[index % moments.length] ?? null,
    });
    const ids = Array.from({ length: 40 }, () => randomUUID());

    before(async () => {
      const strangers = Array.from({ length: 60 }, (_, index) => row(`LEGACY-'${index}\\`, index));
      const nameless = Array.from({ length: 5 }, (_, index) => row(null, index));
      await insert(booking(), [...ids.map(row), ...strangers, ...nameless]);
    });

    /** Follows the pages to the end, as the API's cursor does. */
    async function pages(limit: number, maxBytes = 4 * 1024 * 1024): Promise<string[][]> {
      const found: string[][] = [];
      let after: ListQuery['after'];
      for (;;) {
        const query = aList({ filters: { trip_id: trip }, limit, maxBytes, ...(after && { after }) });
        const page = await records().list(booking(), query, aCall());
        found.push(page.records.map(({ id }) => id));
        after = page.records.at(-1);
        if (!page.hasMore || !after) return found;
      }
    }

    it('pages through all records once, newest first, ties by External ID; others shorten no page', async () => {
      const expected = ids
        .map((id, index) => ({ id, at: String(moments[index % moments.length]) }))
        .toSorted((a, b) => (a.at === b.at ? (a.id < b.id ? 1 : -1) : a.at < b.at ? 1 : -1))
        .map(({ id }) => id);
      for (const limit of [1, 7, 39, 40, 41, 200]) {
        const found = await pages(limit);
        assert.deepEqual(found.flat(), expected, `limit ${limit}`);
        assert.ok(found.slice(0, -1).every((page) => page.length === limit));
      }
    });

    it('ends a page by bytes too, and has a record that is larger alone', async () => {
      const all = (await pages(200)).flat();
      const listed = await records().list(booking(), aList({ filters: { trip_id: trip } }), aCall());
      const bytes = listed.records[0]?.json.length ?? 0;
      for (const [maxBytes, most] of [
        [1, 1],
        [bytes * 3.5, 3],
        [bytes * 6.5, 6],
      ] as const) {
        const found = await pages(7, maxBytes);
        assert.deepEqual(found.flat(), all);
        assert.ok(found.slice(0, -1).every((page) => page.length === most || page.length === most - 1));
      }
    });

    it('filters by fields and by the member', async () => {
      const { memberId } = open();
      const id = randomUUID();
      const values = quoteFor(memberId, { trip_id: trip, status: 'confirmed' });
      await records().create(booking(), id, values, aCall());
      const filters = { trip_id: trip.toUpperCase(), member_id: memberId, status: 'confirmed' };
      const found = await records().list(booking(), aList({ filters }), aCall());
      assert.deepEqual(
        found.records.map((record) => record.id),
        [id],
      );
      const tricky = { ...filters, status: "confirmed' OR Id != '" };
      const none = await records().list(booking(), aList({ filters: tricky }), aCall());
      assert.deepEqual(none.records, []);
    });

    it('searches for a part of a text in either case, in which wildcards stand for themselves', async () => {
      const { memberId } = open();
      const mark = randomUUID().slice(0, 8);
      const made = new Map<string, string>();
      for (const name of [`${mark} 100% \\ "Rosa" O'Hara`, `${mark} 1000 a_b`]) {
        const id = randomUUID();
        await records().create(booking(), id, quoteFor(memberId, { name }), aCall());
        made.set(id, name);
      }
      const found = async (search: string) => {
        const page = await records().list(booking(), aList({ search }), aCall());
        return page.records.flatMap(({ id }) => made.get(id) ?? []).sort();
      };
      const [rosa, plain] = [...made.values()];
      assert.deepEqual(await found(mark.toUpperCase()), [rosa, plain].sort());
      for (const text of ['100%', '% \\', '"rosA" o\'hAra'])
        assert.deepEqual(await found(text.trim()), [rosa], text);
      assert.deepEqual(await found('A_B'), [plain]);
      assert.deepEqual(await found(`${mark}%`), []);
      const { values } = (await records().find(member(), memberId, aCall())) ?? {};
      const between = `${values?.['first_name']} ${values?.['last_name']}`.slice(1, -1);
      const members = await records().list(member(), aList({ search: between }), aCall());
      assert.ok(members.records.some(({ id }) => id === memberId));
    });
  });
}
