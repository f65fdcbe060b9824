import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { CopiedRow } from '../../../src/features/read-copy/copied-row.ts';
import { withCopy } from '../../../src/features/read-copy/written-records.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { member, withMember } from '../../../src/records/members.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import type { FieldValues, StoredRecord } from '../../../src/records/records.ts';
import type { Resource } from '../../../src/records/resource.ts';
import { MemoryRecords } from './memory-records.ts';

const noReads = { find: async () => undefined, list: async () => undefined };

test('a deletion of which the outcome is not known is noted with the id by which the record is asked for', async () => {
  let isLost = false;
  const crm = new MemoryRecords(() => (isLost ? 0 : 0.5));
  const id = randomUUID();
  crm.change(quote, id, { name: 'there' });
  const record = await crm.find(quote, id);
  assert.ok(record);
  const noted: CopiedRow[] = [];
  const records = withCopy(crm, noReads, {
    note: async (row) => void noted.push(row),
    doubt: async () => {},
  });
  isLost = true;
  await assert.rejects(records.remove(quote, record, startCall('test')), { code: 'crm_timeout' });
  assert.deepEqual(
    noted.map(({ externalId, isStale, lacksWrite }) => ({ externalId, isStale, lacksWrite })),
    [{ externalId: id, isStale: true, lacksWrite: false }],
  );
});

test('a record with its member is as old as the older of the two', async () => {
  const memberId = randomUUID();
  const recordOf = ({ name }: Resource): StoredRecord =>
    name === 'member'
      ? { nativeId: '003', values: { id: memberId, first_name: 'Amara' }, ageSeconds: 3000 }
      : { nativeId: 'a01', values: { id: randomUUID(), member_id: memberId }, ageSeconds: 5 };
  const json = (values: FieldValues) => JSON.stringify(values);
  const reads = {
    find: async (resource: Resource) => ({ record: recordOf(resource) }),
    list: async (resource: Resource, { represent }: { represent: typeof json }) => {
      const record = { json: Buffer.from(represent(recordOf(resource).values)), nativeId: 'a01' };
      return { records: [record], hasMore: false, ageSeconds: 5 };
    },
  };
  const records = withCopy(new MemoryRecords(() => 1), reads as never, {
    note: async () => {},
    doubt: async () => {},
  });
  const call = { ...startCall('test'), freshness: { maxAgeSeconds: 3600 } };
  const both = withMember(quote, member);
  const found = await records.find(both, randomUUID(), call);
  assert.deepEqual([found?.values['member.first_name'], found?.ageSeconds], ['Amara', 3000]);
  const page = await records.list(both, { filters: {}, limit: 5, maxBytes: 10_000, represent: json }, call);
  assert.match(String(page.records[0]?.json), /"member\.first_name":"Amara"/);
  assert.equal(page.ageSeconds, 3000);
});
