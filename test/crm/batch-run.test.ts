import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ItemOutcome, Operation } from '../../src/crm/batching/operation.ts';
import { CrmFailure, type FailureFacts, type FailureKind } from '../../src/crm/failure.ts';
import { runBatch } from './run-batch.ts';

/** Sizes of the calls that a batch of four takes where the whole of it meets this, and what becomes of its items. */
async function sizesOf(
  effect: Operation<number, number>['effect'],
  answer: (items: readonly number[]) => ItemOutcome<number>[],
) {
  const sizes: number[] = [];
  const operation: Operation<number, number> = {
    ...{ name: 'create', effect, size: () => 1 },
    execute: async (items) => {
      sizes.push(items.length);
      return answer(items);
    },
  };
  const outcomes = await runBatch(operation, [1, 2, 3, 4]);
  return { sizes, failed: outcomes.flatMap((one, i) => ('failure' in one ? [i + 1] : [])) };
}

const failure = (kind: FailureKind, facts: FailureFacts = {}) => new CrmFailure(kind, kind, facts);
/** A call fails whole while the second item is in it. */
const spoiledBy =
  (kind: FailureKind, facts: FailureFacts) =>
  (items: readonly number[]): ItemOutcome<number>[] => {
    if (items.includes(2)) throw failure(kind, facts);
    return items.map((result) => ({ result }));
  };

describe('a call that fails whole', () => {
  const cases: [FailureKind, number | undefined, boolean][] = [
    ['rejected', 400, true],
    ['rejected', 499, true],
    ['rejected', 399, false],
    ['rejected', 500, false],
    ['rejected', undefined, false],
    ['setup', 400, false],
    ['locked', undefined, true],
    ['failed', undefined, true],
  ];
  for (const [kind, status, isOfOne] of cases)
    test(`with ${kind} ${status ?? 'and no status'} is ${isOfOne ? 'sent in parts' : 'the failure of all'}`, async () => {
      const facts = status === undefined ? {} : { status };
      const found = await sizesOf('create', spoiledBy(kind, facts));
      assert.deepEqual(found.failed, isOfOne ? [2] : [1, 2, 3, 4]);
      assert.equal(found.sizes.length > 1, isOfOne);
      // No key spoils a query.
      assert.deepEqual((await sizesOf('read', spoiledBy(kind, facts))).sizes, [4]);
    });
});

describe('an item that is refused for a duplicate', () => {
  const refuse =
    (first: FailureKind) =>
    (items: readonly number[]): ItemOutcome<number>[] =>
      items.map((item) =>
        item === 1
          ? { failure: failure(first), ofItem: true }
          : item === 2 && (items.includes(1) || first === 'duplicate')
            ? { failure: failure('duplicate'), ofItem: true }
            : { result: item },
      );

  test('of a record that was refused too is sent again, since that one is not there', async () => {
    const { sizes, failed } = await sizesOf('create', refuse('rejected'));
    assert.deepEqual(failed, [1]);
    assert.ok(sizes.length > 1);
  });

  test('among duplicates only is not', async () => {
    assert.deepEqual(await sizesOf('create', refuse('duplicate')), { sizes: [4], failed: [1, 2] });
  });
});

test('a deletion whose answer was lost is done where the repeat finds nothing, and fails as the repeat does else', async () => {
  const repeated = async (kind: FailureKind) => {
    const failures = [failure('lost', { outcomeUnknown: true }), failure(kind)];
    const operation: Operation<number, number> = {
      ...{ name: 'delete', effect: 'change', size: () => 1, whenGone: { result: 0 } },
      execute: async () => Promise.reject(failures.shift() ?? assert.fail()),
      reconcile: async () => ['not done'],
    };
    const [outcome] = await runBatch(operation, [1]);
    return outcome && 'failure' in outcome ? outcome.failure.kind : 'done';
  };
  assert.equal(await repeated('gone'), 'done');
  assert.equal(await repeated('setup'), 'setup');
  // Nothing was repeated.
  assert.equal(await repeated('ended'), 'lost');
});
