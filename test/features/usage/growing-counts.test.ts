import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GrowingCounts } from '../../../src/features/usage/growing-counts.ts';
import { recordLog } from '../../support/log.ts';

interface Row {
  key: string;
  count: number;
}

test('counts are kept where the clock is set back to the hour before, and go on from there', async () => {
  /** As the database keeps them: the greatest count of each row. */
  const stored = new Map<string, number>();
  const write = async (rows: Row[]) => {
    for (const { key, count } of rows) stored.set(key, Math.max(count, stored.get(key) ?? 0));
  };
  const counts = new GrowingCounts<Row>({ write, of: 'tests', log: recordLog().log });
  const note = async (hour: number, times: number) => {
    counts.row(hour, 'a', () => ({ key: `${hour}`, count: 0 })).count += times;
    await counts.flush();
  };
  for (const [hour, times] of [
    [7, 5],
    [8, 3],
    [7, 2],
    [8, 4],
    [9, 1],
    [9, 1],
  ] as const)
    await note(hour, times);
  await counts.stop();
  assert.deepEqual(Object.fromEntries(stored), { 7: 7, 8: 7, 9: 2 });
});
