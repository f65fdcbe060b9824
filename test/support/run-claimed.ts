import type { KeyedRequest, StoredAnswer } from '../../src/api/idempotency/keyed-request.ts';
import type { Claim, Claimed, ExecutedAnswer, Ledger } from '../../src/api/idempotency/ledger.ts';

/** Executes a request once under its key, as the routes do, or answers from an earlier run. Throws what either does. */
export function runClaimed(
  ledger: Ledger,
  request: KeyedRequest,
  execute: (claim: Claim) => Promise<ExecutedAnswer>,
): Promise<{ answer: StoredAnswer; replayed: boolean }> {
  return executeClaimed(ledger.claim(request), execute);
}

export async function executeClaimed(
  claimed: Promise<Claimed>,
  execute: (claim: Claim) => Promise<ExecutedAnswer>,
): Promise<{ answer: StoredAnswer; replayed: boolean }> {
  const { claim, answer: earlier } = await claimed;
  if (claim === undefined) return { answer: earlier, replayed: true };
  let answer: ExecutedAnswer;
  try {
    answer = await execute(claim);
  } catch (error) {
    await claim.release(error);
    throw error;
  }
  await claim.complete(answer);
  return { answer, replayed: false };
}
