import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StoredAnswer } from '../../../src/api/idempotency/keyed-request.ts';
import type { Claim, Ledger } from '../../../src/api/idempotency/ledger.ts';
import { runWithinWindow } from '../../../src/api/idempotency/repeat-window.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { newRequest } from './keyed-requests.ts';

const created: StoredAnswer = { status: 201, headers: {}, body: '{}' };
const unavailable = () => new Problem('store_unavailable', 'The database is gone.');
const claim = { confirmOwnership: () => Promise.reject(unavailable()) } as unknown as Claim;

/** A ledger whose database fails before the claim, or after it, or not at all. */
function ledgerThat(fails: 'before' | 'after' | 'never'): Ledger {
  return {
    async run(_request, execute) {
      if (fails === 'before') throw unavailable();
      const answer = await execute(claim);
      if (fails === 'after') throw unavailable();
      return { answer, replayed: false };
    },
  };
}

describe('a request without a key', () => {
  async function run(ledger: Ledger, fails?: Error) {
    const executed: string[] = [];
    const execution = {
      execute: async (own: Claim) => {
        executed.push('claimed');
        await own.confirmOwnership();
        if (fails) throw fails;
        return created;
      },
      executeUnkept: async () => {
        executed.push('unkept');
        return created;
      },
      admit: undefined,
    };
    const ended = runWithinWindow(ledger, newRequest(), execution);
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
    const execution = { execute: async () => created, executeUnkept: undefined, admit: undefined };
    await assert.rejects(runWithinWindow(ledgerThat('before'), newRequest(), execution), {
      code: 'store_unavailable',
    });
  });
});
