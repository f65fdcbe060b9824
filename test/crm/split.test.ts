import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ObjectSize } from '../../src/crm/scheduling/request-kind.ts';
import { type ModelItem, ModelOrg, type Nature } from './model-org.ts';
import { type BatchListener, runBatch } from './run-batch.ts';

function batchOf(size: number, bad: Record<number, Nature>): ModelItem[] {
  return Array.from({ length: size }, (_, id) => ({ id, nature: bad[id] ?? 'good' }));
}

/** Outcomes by id: the id where the record was written, else the kind of failure. */
async function run(org: ModelOrg, items: readonly ModelItem[], listener: BatchListener = {}) {
  const outcomes = await runBatch(org, items, listener);
  return outcomes.map((outcome) => ('result' in outcome ? outcome.result : outcome.failure.kind));
}

const alone: Record<Nature, string | undefined> = {
  good: undefined,
  locked: undefined,
  invalid: 'rejected',
  thrown: 'rejected',
  flow: 'rejected',
  unreadable: 'broken',
  exception: 'failed',
  'unknown parent': 'reference',
};

/** Every item has what it would have alone, and no good one was written twice or not at all. */
function assertRight(org: ModelOrg, items: readonly ModelItem[], outcomes: (string | number)[]): void {
  for (const [index, { id, nature }] of items.entries()) {
    assert.equal(outcomes[index], alone[nature] ?? id, `record ${id}, ${nature}`);
    assert.equal(org.written.get(id) ?? 0, alone[nature] === undefined ? 1 : 0, `record ${id}, ${nature}`);
  }
}

const effects = ['create', 'change'] as const;

describe('one record of 200 that fails the others', () => {
  for (const effect of effects) {
    for (const nature of ['thrown', 'flow', 'unreadable', 'exception', 'locked'] as const) {
      it(`is found within 16 further calls, wherever it stands: ${effect}, ${nature}`, async () => {
        for (let at = 0; at < 200; at++) {
          const org = new ModelOrg({ effect });
          const items = batchOf(200, { [at]: nature });
          assertRight(org, items, await run(org, items));
          assert.ok(org.calls <= 17, `${org.calls} calls where it is record ${at}`);
        }
      });
    }
  }
});

describe('what was done', () => {
  it('is reported at once, before the others are sent again', async () => {
    const org = new ModelOrg({ effect: 'create', isRetryLimited: true });
    const reported: number[] = [];
    let atSplit = 0;
    const items = batchOf(10, { 3: 'invalid' });
    const onOutcome = (index: number) => {
      if (org.calls === 1) atSplit += 1;
      reported.push(index);
    };
    assertRight(org, items, await run(org, items, { onOutcome }));
    assert.equal(atSplit, 1);
    assert.deepEqual(reported.sort(), [...items.keys()].sort());
    // Those that were refused beside the invalid one pass together.
    assert.equal(org.calls, 2);
  });
});

describe('an object that takes so many records', () => {
  for (const sizeText of [
    'T: execution',
    'T: caused by: System.LimitException: Too many SOQL queries: 101',
  ]) {
    it(`gets all of them in smaller calls, and its size is reported: ${sizeText}`, async () => {
      for (const capacity of [1, 3, 20, 100, 199]) {
        const org = new ModelOrg({ effect: 'create', capacity, sizeText });
        const items = batchOf(200, {});
        const sizes: number[] = [];
        assertRight(org, items, await run(org, items, { onSize: (records) => sizes.push(records) }));
        const [size = 0] = sizes;
        assert.equal(sizes.length, 1);
        assert.ok(size <= capacity && size >= capacity / 2, `${size} of ${capacity}`);
        assert.ok(org.calls <= 2 * (200 / capacity) + 20, `${org.calls} calls with ${capacity}`);
      }
    });
  }

  it('is not taken for one where a record is at fault, or a lock has passed', async () => {
    const sizes: number[] = [];
    for (const nature of ['thrown', 'locked', 'invalid', 'exception'] as const) {
      const org = new ModelOrg({ effect: 'create', isRetryLimited: nature === 'invalid' });
      await run(org, batchOf(50, { 20: nature }), { onSize: (records) => sizes.push(records) });
    }
    assert.deepEqual(sizes, []);
  });

  it('gets larger calls again step by step, every ten minutes', () => {
    let minutes = 0;
    const size = new ObjectSize(() => minutes * 60_000);
    assert.equal(size.most, 200);
    size.lower(50, 200);
    const seen = [0, 9.9, 10, 19.9, 20, 60].map((at) => {
      minutes = at;
      return size.most;
    });
    assert.deepEqual(seen, [50, 50, 100, 100, 200, 200]);
    size.lower(0, 200);
    assert.equal(size.most, 1);
  });

  it('is halved where two records did not pass together', async () => {
    const size = new ObjectSize(() => 0);
    const org = new ModelOrg({ effect: 'create', capacity: 1 });
    await run(org, batchOf(2, {}), { onSize: (records, of) => size.lower(records, of) });
    assert.equal(size.most, 100);
  });
});

describe('many faulty records', () => {
  for (const nature of ['thrown', 'unreadable'] as const) {
    it(`cost little more than each by itself, and all are settled: ${nature}`, async () => {
      for (const share of [1, 2, 3, 5, 10, 40]) {
        const org = new ModelOrg({ effect: 'create' });
        const items = batchOf(200, {}).map((item) => (item.id % share === 0 ? { ...item, nature } : item));
        assertRight(org, items, await run(org, items));
        assert.ok(org.calls <= 251, `${org.calls} calls with every ${share}th`);
      }
    });
  }

  it('that stand so that further calls run out are settled one by one, and good ones are written', async () => {
    const org = new ModelOrg({ effect: 'create' });
    const nature = (id: number): Nature => ((id * id + 2 * id) % 29 < 13 ? 'thrown' : 'good');
    const items = batchOf(200, {}).map(({ id }) => ({ id, nature: nature(id) }));
    const outcomes = await run(org, items);
    assertRight(org, items, outcomes);
    assert.ok(org.calls <= 251, `${org.calls} calls`);
  });

  it('have no verdict that they would not get alone, however they stand', async () => {
    const natures = Object.keys(alone) as Nature[];
    const settings = fc.record({
      effect: fc.constantFrom(...effects),
      isRetryLimited: fc.boolean(),
      capacity: fc.constantFrom(1, 7, 60, 200),
    });
    await fc.assert(
      fc.asyncProperty(
        settings,
        fc.array(
          fc.oneof({ weight: 6, arbitrary: fc.constant<Nature>('good') }, fc.constantFrom(...natures)),
          {
            minLength: 1,
            maxLength: 200,
          },
        ),
        async (options, given) => {
          const org = new ModelOrg(options);
          const items = given.map((nature, id) => ({ id, nature }));
          const outcomes = await run(org, items);
          for (const [index, { id, nature }] of items.entries()) {
            const isOpen = nature === 'locked' && outcomes[index] === 'locked';
            if (!isOpen) assert.equal(outcomes[index], alone[nature] ?? id, `record ${id}, ${nature}`);
            const times = org.written.get(id) ?? 0;
            assert.equal(times, typeof outcomes[index] === 'number' ? 1 : 0, `record ${id}, ${nature}`);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
