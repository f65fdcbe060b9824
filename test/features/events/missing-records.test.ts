import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MissingRecords } from '../../../src/features/events/missing-records.ts';
import { MissingTable } from '../../../src/features/events/missing-table.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import type { ChangedRecord, ChangeSource } from '../../../src/records/changes.ts';
import { member } from '../../../src/records/members.ts';
import { booking, quote } from '../../../src/records/quotes-and-bookings.ts';
import { databaseKinds } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';

const resources = [member, quote, booking];
const idOf = (n: number) => `a0B${String(n).padStart(15, '0')}`;

for (const [kind, open] of Object.entries(databaseKinds))
  test(`${kind}: all ids are compared in a call for each 9,500, and what is gone is looked up`, async (t) => {
    const opened = await open();
    if (!opened) return t.skip('there is no PostgreSQL');
    t.after(opened.stop);
    const [database] = opened.replicas;
    const reader = new ReaderTable(database);
    await reader.prepare();
    await database.execute(`
      insert into known_records (resource, native_id, external_id, content, is_deleted, seen_at)
      select 'quote', 'a0B' || lpad(n::text, 15, '0'), 'id ' || n, '', false, now() - interval '1 day'
      from generate_series(1, 12000) as n`);
    const gone = new Set([1, 2000, 2001, 11_999, 12_000]);
    // Records of which nothing is known make the CRM's answers longer than asked for.
    const there = Array.from({ length: 15_000 }, (_, index) => index + 1)
      .filter((n) => !gone.has(n))
      .map(idOf);
    let calls = 0;
    const readIds: ChangeSource['readIds'] = async (ranges, limit) => {
      calls += 1;
      assert.ok(ranges.length <= 5);
      return ranges.map(({ resource, after, to }) => {
        const ids = there.filter((id) => resource === quote && id > after && (to === undefined || id <= to));
        return { ids: ids.slice(0, limit), isWhole: ids.length < limit };
      });
    };
    const lookedUp: string[] = [];
    const missing = new MissingRecords({
      ...{ table: new MissingTable(database), source: { readIds }, resources, log: recordLog().log },
      records: {
        now: () => Date.UTC(2027, 0, 1),
        find: async (_resource, id) => {
          lookedUp.push(id);
          return undefined;
        },
      },
    });
    const { fence } = await reader.take(true);
    const stored: ChangedRecord[] = [];
    const poll = () =>
      missing.work(
        (work) => reader.fenced(String(fence), work),
        resources,
        async (records) => void stored.push(...records),
        new AbortController().signal,
      );
    await poll();
    assert.equal(calls, 0, 'none is due yet');
    await database.execute('update change_reader set compared_at = to_timestamp(0)');
    await poll();
    assert.ok(calls <= 3, `${calls} calls`);
    const names = [...gone].map((n) => `id ${n}`).toSorted();
    assert.deepEqual(lookedUp.toSorted(), names);
    assert.deepEqual(stored.map(({ externalId = '' }) => externalId).toSorted(), names);
    assert.ok(stored.every(({ isDeleted }) => isDeleted));
    calls = 0;
    await poll();
    assert.equal(calls, 0, 'the next one is a day later');
  });
