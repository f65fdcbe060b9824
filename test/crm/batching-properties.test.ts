import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import fc from 'fast-check';
import { Problem } from '../../src/platform/base/problem.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import type { Records, StoredRecord } from '../../src/records/records.ts';
import { aCall, type CrmHarness, quoteFor, startCrmHarness } from './crm-harness.ts';

let harness: CrmHarness;
before(async () => {
  harness = await startCrmHarness({ timeoutMs: 10_000 });
  await harness.crm.records.find(quote, randomUUID(), aCall());
});
after(() => harness.stop());

type Kind = 'create' | 'refused' | 'find' | 'missing' | 'update' | 'remove';
const kinds: Kind[] = ['create', 'refused', 'find', 'missing', 'update', 'remove'];

const faults = fc.record({
  effect: fc.constantFrom<object>(
    { kind: 'loseAnswer' },
    { kind: 'reset' },
    { kind: 'lockRow' },
    { kind: 'down' },
    { kind: 'concurrentLimit' },
    { kind: 'error', status: 400, errorCode: 'JSON_PARSER_ERROR', message: 'x' },
    { kind: 'latency', ms: 5 },
  ),
  times: fc.integer({ min: 1, max: 4 }),
});

/** What became of one request: a value, or the Problem that it met. */
type Ending = { value: StoredRecord | undefined } | { problem: Problem };

function ending(work: Promise<StoredRecord | undefined | void>): Promise<Ending> {
  return work.then(
    (value) => ({ value: value ?? undefined }),
    (error: unknown) => {
      assert.ok(error instanceof Problem, String(error));
      return { problem: error };
    },
  );
}

/** Whether the record now is as the ending says: done, not done, or either where nobody knows. */
function assertOutcome(end: Ending, isDone: boolean, what: string): void {
  if ('value' in end) assert.ok(isDone, `${what}: said to be done`);
  else if (end.problem.facts.outcomeUnknown !== true)
    assert.ok(!isDone, `${what}: said not to be done (${end.problem.code})`);
}

/** Works on one record, as one request asks for it. */
interface Asked {
  kind: Kind;
  id: string;
}

/** Holds an ending against what the CRM has. */
const checks: Record<Kind, (end: Ending, row: Record<string, unknown> | undefined, asked: Asked) => void> = {
  find: (end, _row, { id }) => {
    if ('value' in end) assert.equal(end.value?.values['name'], `old ${id}`);
  },
  missing: (end) => {
    if ('value' in end) assert.equal(end.value, undefined);
  },
  refused: (end, row) => {
    assert.equal(row, undefined);
    assert.ok('problem' in end);
  },
  create: assertWritten,
  update: assertWritten,
  remove: (end, row, { kind }) => assertOutcome(end, row === undefined, kind),
};

function assertWritten(end: Ending, row: Record<string, unknown> | undefined, { kind, id }: Asked): void {
  if ('value' in end) {
    assert.equal(end.value?.values['id'], id);
    assert.equal(end.value.values['name'], `new ${id}`);
  }
  assertOutcome(end, row?.['Name__c'] === `new ${id}`, kind);
}

/** Makes the records that are to be read, changed or deleted, and reads them. */
async function prepare(asked: Asked[], records: Records): Promise<Map<string, StoredRecord>> {
  const needed = asked.filter(({ kind }) => ['find', 'update', 'remove'].includes(kind));
  const rows = needed.map(({ id }) => ({
    External_Id__c: id,
    Name__c: `old ${id}`,
    Source__c: 'x',
    Details__c: '{}',
  }));
  await harness.org.insert('Quote__c', rows);
  const found = await Promise.all(needed.map(({ id }) => records.find(quote, id, aCall())));
  return new Map(needed.map(({ id }, n) => [id, found[n] as StoredRecord]));
}

function carryOut(records: Records, before: Map<string, StoredRecord>, { kind, id }: Asked): Promise<Ending> {
  const make = (member: string) => {
    const values = quoteFor(member, { name: `new ${id}` });
    return records.createAndRead(quote, id, values, aCall());
  };
  const record = before.get(id) as StoredRecord;
  const work: Record<Kind, () => Promise<StoredRecord | undefined | void>> = {
    create: () => make(harness.memberId),
    refused: () => make(randomUUID()),
    find: () => records.find(quote, id, aCall()),
    missing: () => records.find(quote, id, aCall()),
    update: () => records.updateAndRead(quote, record, { name: `new ${id}` }, aCall()),
    remove: () => records.remove(quote, record, aCall()),
  };
  return ending(work[kind]());
}

it('whatever is asked at once and whatever the CRM does, each gets its own answer and the truth', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 40 }),
      fc.array(faults, { maxLength: 3 }),
      async (wanted, armed) => {
        const { records } = harness.addReplica().crm;
        const asked = wanted.map((kind) => ({ kind, id: randomUUID() as string }));
        const before = await prepare(asked, records);
        for (const { effect, times } of armed)
          await harness.org.fault(effect, { path: '/services/data/' }, times);
        const ends = await Promise.all(asked.map((each) => carryOut(records, before, each)));
        await harness.org.heal();
        const rows = await harness.org.records('Quote__c');
        for (const [n, each] of asked.entries()) {
          const row = rows.find((candidate) => candidate['External_Id__c'] === each.id);
          checks[each.kind](ends[n] as Ending, row, each);
        }
        await harness.org.clear('Quote__c');
      },
    ),
    { numRuns: 25 },
  );
});
