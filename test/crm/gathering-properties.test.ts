import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import fc from 'fast-check';
import { Problem } from '../../src/base/problem.ts';
import { quote } from '../../src/resources/quotes-and-bookings.ts';
import type { StoredRecord } from '../../src/resources/records.ts';
import { aCall, type Bench, quoteFor, startBench } from './bench.ts';

let bench: Bench;
before(async () => {
  bench = await startBench({ timeoutMs: 10_000 });
  await bench.crm.records.find(quote, randomUUID(), aCall());
});
after(() => bench.stop());

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
function assertTold(end: Ending, isDone: boolean, what: string): void {
  if ('value' in end) assert.ok(isDone, `${what}: said to be done`);
  else if (end.problem.facts.outcomeUnknown !== true)
    assert.ok(!isDone, `${what}: said not to be done (${end.problem.code})`);
}

it('whatever is asked at once and whatever the CRM does, each gets its own answer and the truth', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 40 }),
      fc.array(faults, { maxLength: 3 }),
      async (asked, armed) => {
        const { records } = bench.addReplica().crm;
        const ids = asked.map(() => randomUUID() as string);
        const needed = ids.filter((_, n) => ['find', 'update', 'remove'].includes(asked[n] ?? ''));
        await bench.org.insert(
          'Quote__c',
          needed.map((id) => ({
            External_Id__c: id,
            Name__c: `old ${id}`,
            Source__c: 'x',
            Details__c: '{}',
          })),
        );
        const before = new Map<string, StoredRecord>();
        await Promise.all(
          needed.map(async (id) => before.set(id, (await records.find(quote, id, aCall())) as StoredRecord)),
        );
        for (const { effect, times } of armed)
          await bench.org.fault(effect, { path: '/services/data/' }, times);

        const does: Record<Kind, (id: string) => Promise<StoredRecord | undefined | void>> = {
          create: (id) =>
            records.create(quote, id, quoteFor(bench.memberId, { name: `new ${id}` }), aCall(), {
              readBack: true,
            }),
          refused: (id) => records.create(quote, id, quoteFor(randomUUID()), aCall(), { readBack: true }),
          find: (id) => records.find(quote, id, aCall()),
          missing: (id) => records.find(quote, id, aCall()),
          update: (id) =>
            records.update(quote, before.get(id) as StoredRecord, { name: `new ${id}` }, aCall(), {
              readBack: true,
            }),
          remove: (id) => records.remove(quote, before.get(id) as StoredRecord, aCall()),
        };
        const ends = await Promise.all(ids.map((id, n) => ending(does[asked[n] as Kind](id))));
        await bench.org.heal();

        const rows = new Map(
          (await bench.org.records('Quote__c')).map((row) => [row['External_Id__c'], row]),
        );
        for (const [n, id] of ids.entries()) {
          const end = ends[n] as Ending;
          const kind = asked[n] as Kind;
          const row = rows.get(id);
          const what = `${kind} ${n}`;
          const value = 'value' in end ? end.value : undefined;
          if (value !== undefined) assert.equal(value.values['id'], id, what);
          if (kind === 'find' && 'value' in end) assert.equal(value?.values['name'], `old ${id}`, what);
          if (kind === 'missing') assert.equal(value, undefined, what);
          if (kind === 'refused') {
            assert.equal(row, undefined, what);
            assert.ok('problem' in end, what);
          }
          if (kind === 'create' || kind === 'update') {
            if ('value' in end) assert.equal(value?.values['name'], `new ${id}`, what);
            assertTold(end, row?.['Name__c'] === `new ${id}`, what);
          }
          if (kind === 'remove') assertTold(end, row === undefined, what);
        }
        await bench.org.clear('Quote__c');
      },
    ),
    { numRuns: 25 },
  );
});
