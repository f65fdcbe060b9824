import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { CopiedRow } from '../../../src/features/read-copy/copied-row.ts';
import { withCopy } from '../../../src/features/read-copy/written-records.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
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
