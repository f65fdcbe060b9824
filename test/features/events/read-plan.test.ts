import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { sql } from 'kysely';
import { eventMetrics } from '../../../src/features/events/metrics.ts';
import { ChangeReader } from '../../../src/features/events/reader.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { ChangedRecord, ChangeSource } from '../../../src/records/changes.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import { openTestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';

/** Records that one transaction after the other has changed within a few seconds, one of them a page. */
function manyAtOnce(count: number): ChangeSource & { pages: number } {
  const made = Date.now() - 60_000;
  const records: ChangedRecord[] = Array.from({ length: count }, (_, index) => ({
    resource: quote,
    nativeId: String(index).padStart(18, '0'),
    stamp: new Date(Math.floor((made + index * 20) / 1000) * 1000).toISOString(),
    isDeleted: false,
    externalId: randomUUID(),
    values: { id: null },
  }));
  return {
    usage: undefined,
    pages: 0,
    readIds: async () => [],
    async readChanges(positions) {
      this.pages += 1;
      const position = positions.get(quote) ?? { stamp: '' };
      const isBehind = ({ stamp, nativeId }: ChangedRecord) =>
        position.nativeId === undefined
          ? stamp >= position.stamp
          : stamp > position.stamp || (stamp === position.stamp && nativeId > position.nativeId);
      const [next, further] = records.filter(isBehind);
      return {
        records: next ? [next] : [],
        complete: new Set(further ? [] : [quote]),
        sentAt: Date.now(),
      };
    },
  };
}

test('more changes within moments than a poll has pages come to their end', async (t) => {
  const database = await openTestDatabase();
  t.after(database.stop);
  const [replica] = database.replicas;
  const table = new ReaderTable(replica);
  await table.prepare();
  const source = manyAtOnce(120);
  const reader = new ChangeReader({
    ...{ table, source, resources: [quote], pollSeconds: 60, minimumSeconds: 0.1 },
    memberChanged: async () => {},
    log: recordLog().log,
    metrics: createMetrics(eventMetrics),
    wake: () => {},
  });
  for (let polls = 0; polls < 10; polls++) {
    await sql`update change_reader set due_at = now()`.execute(replica.sql);
    await reader.check(new AbortController().signal);
  }
  reader.stop();
  const { rows } = await sql`select count(*)::integer as known from known_records`.execute(replica.sql);
  assert.deepEqual(rows, [{ known: 120 }]);
});
