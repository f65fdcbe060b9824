import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { startCall } from '../../../src/platform/base/call.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import { openTestDatabase } from '../../support/databases.ts';
import { openCopy } from './memory-copy.ts';
import { MemoryRecords } from './memory-records.ts';

test('a write that waits to be noted is kept by its name, not with its values', async () => {
  const { replicas, stop } = await openTestDatabase();
  await stop();
  const crm = new MemoryRecords(() => 0.5);
  const copy = openCopy(replicas[0], crm);
  const write = async () => {
    const written = await copy.records.createAndRead(quote, randomUUID(), { name: 'n' }, startCall('test'));
    return new WeakRef(written?.values ?? assert.fail());
  };
  const values = await write();
  crm.rows.clear();
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // What is under way is over after some turns.
  for (let turns = 0; turns < 500 && values.deref() !== undefined; turns++) {
    await setTimeout(10);
    collect();
  }
  assert.equal(values.deref(), undefined);
  copy.stop();
});
