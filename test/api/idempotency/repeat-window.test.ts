import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StoredAnswer } from '../../../src/api/idempotency/keyed-request.ts';
import type { Claim, Ledger, OwnedClaim } from '../../../src/api/idempotency/ledger.ts';
import { claimWithinWindow } from '../../../src/api/idempotency/repeat-window.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { executeClaimed } from '../../support/run-claimed.ts';
import { newRequest } from './keyed-requests.ts';

const created: StoredAnswer = { status: 201, headers: {}, body: '{}' };
const unavailable = () => new Problem('store_unavailable', 'The database is gone.');
/** A ledger whose database fails before the claim, or after it, or not at all. */
function ledgerThat(fails: 'before' | 'after' | 'never'): Pick<Ledger, 'claim'> {
  const claim = {
    externalId: 'claimed',
    confirmOwnership: () => Promise.reject(unavailable()),
    complete: async () => {
      if (fails === 'after') throw unavailable();
    },
    release: async () => undefined,
  } as unknown as OwnedClaim;
  return {
    async claim() {
      if (fails === 'before') throw unavailable();
      return { claim };
    },
  };
}

describe('a request without a key', () => {
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

  test('fails with the database where nothing may be done without a claim', async () => {
    const options = { refusal: undefined, mayBeUnkept: false };
    await assert.rejects(claimWithinWindow(ledgerThat('before'), newRequest(), options), {
      code: 'store_unavailable',
    });
  });
});
