import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StoredAnswer } from '../../../src/api/idempotency/keyed-request.ts';
import { type Claim, inProgress, type Ledger, type OwnedClaim } from '../../../src/api/idempotency/ledger.ts';
import { claimWithinWindow } from '../../../src/api/idempotency/repeat-window.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { executeClaimed } from '../../support/run-claimed.ts';
import { newRequest } from './keyed-requests.ts';

const created: StoredAnswer = { status: 201, headers: {}, body: '{}' };
const unavailable = () => new Problem('store_unavailable', 'The database is gone.');
/** A ledger whose database fails before the claim, or after it, or not at all. */
function ledgerThat(
  fails: 'before' | 'after' | 'never',
  error = unavailable(),
  ended: string[] = [],
): Pick<Ledger, 'claim'> {
  const claim = {
    externalId: 'claimed',
    confirmOwnership: () => Promise.reject(error),
    complete: async () => {
      ended.push('completed');
      if (fails === 'after') throw unavailable();
    },
    release: async () => void ended.push('given back'),
  } as unknown as OwnedClaim;
  return {
    async claim() {
      if (fails === 'before') throw error;
      return { claim };
    },
  };
}

describe('a request without a key', () => {
  const kept = { refusal: undefined, mayBeUnkept: false };
  async function run(ledger: Pick<Ledger, 'claim'>, fails?: Error) {
    const executed: string[] = [];
    const execute = async (own: Claim) => {
      executed.push(own.externalId === 'claimed' ? 'claimed' : 'unkept');
      await own.confirmOwnership();
      if (fails) throw fails;
      return created;
    };
    const claimed = claimWithinWindow(ledger, newRequest(), { refusal: undefined, mayBeUnkept: true });
    const ended = executeClaimed(claimed, execute);
    return { executed, outcome: await ended.catch((error: Error) => error) };
  }
  const done = { answer: created, replayed: false };

  test('is executed under its claim', async () => {
    assert.deepEqual(await run(ledgerThat('never')), { executed: ['claimed'], outcome: done });
  });

  test('is executed without one where the database fails before it', async () => {
    assert.deepEqual(await run(ledgerThat('before')), { executed: ['unkept'], outcome: done });
  });

  test('has its answer where the database fails after it', async () => {
    assert.deepEqual(await run(ledgerThat('after')), { executed: ['claimed'], outcome: done });
  });

  test('is never executed twice, whatever its first try has met', async () => {
    const failure = unavailable();
    assert.deepEqual(await run(ledgerThat('never'), failure), { executed: ['claimed'], outcome: failure });
  });

  test('ends where another one has its claim', async () => {
    const error = inProgress();
    assert.deepEqual(await run(ledgerThat('before', error)), { executed: [], outcome: error });
    assert.deepEqual(await run(ledgerThat('never', error)), { executed: ['claimed'], outcome: error });
  });

  test('is a new try once one was refused', async () => {
    for (const [status, end] of [
      [399, 'completed'],
      [400, 'given back'],
    ] as const) {
      const ended: string[] = [];
      const ledger = ledgerThat('never', undefined, ended);
      const { claim } = await claimWithinWindow(ledger, newRequest(), kept);
      await claim?.complete({ ...created, status });
      assert.deepEqual(ended, [end]);
    }
  });

  test('fails with the database where nothing may be done without a claim', async () => {
    const failure = { code: 'store_unavailable' };
    await assert.rejects(claimWithinWindow(ledgerThat('before'), newRequest(), kept), failure);
    const { claim } = await claimWithinWindow(ledgerThat('never'), newRequest(), kept);
    await assert.rejects(async () => claim?.confirmOwnership(), failure);
  });
});
