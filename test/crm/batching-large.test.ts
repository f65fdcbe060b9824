import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, it } from 'node:test';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import type { StoredRecord } from '../../src/records/records.ts';
import { aCall, type CrmHarness, quoteFor, startCrmHarness } from './crm-harness.ts';

/*
 * Records of 1 MiB: what one call asks for must fit one answer, though the requests themselves are short.
 */

let harness: CrmHarness;
before(async () => {
  harness = await startCrmHarness({ timeoutMs: 10_000 });
});
afterEach(async () => {
  await harness.org.heal();
  await harness.org.configure({ latencyMs: 0 });
});
after(() => harness.stop());

const count = 24;
const details = (n: number) => JSON.stringify({ n, text: 'word '.repeat(200_000) });

async function existing(): Promise<StoredRecord[]> {
  const made: StoredRecord[] = [];
  for (let n = 0; n < count; n++) {
    const values = quoteFor(harness.memberId, { details: details(n) });
    made.push(
      (await harness.crm.records.createAndRead(quote, randomUUID(), values, aCall())) as StoredRecord,
    );
  }
  return made;
}

it('many of them are read, changed and deleted at once, also where answers are lost', async () => {
  const { records } = harness.crm;
  const all = await existing();
  await harness.org.configure({ latencyMs: 20 });
  const found = await Promise.all(
    all.map(({ values }) => records.find(quote, values['id'] as string, aCall())),
  );
  for (const [n, record] of found.entries()) assert.equal(record?.values['details'], details(n));
  await harness.org.fault({ kind: 'loseAnswer' }, { operation: 'updateMany' }, 2);
  const changed = await Promise.all(
    all.map((record, n) => records.updateAndRead(quote, record, { name: `name ${n}` }, aCall())),
  );
  for (const [n, record] of changed.entries()) {
    assert.equal(record?.values['name'], `name ${n}`);
    assert.equal(record?.values['details'], details(n));
  }
  await harness.org.fault({ kind: 'loseAnswer' }, { operation: 'deleteMany' }, 1);
  await Promise.all(all.map((record) => records.remove(quote, record, aCall())));
  assert.equal((await harness.org.records('Quote__c')).length, 0);
});
