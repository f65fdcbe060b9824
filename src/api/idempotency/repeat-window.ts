import { wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import {
  claimant,
  fingerprint,
  type KeyedRequest,
  type RequestIdentity,
  type StoredAnswer,
} from './keyed-request.ts';
import type { Claim, ExecutedAnswer, Ledger } from './ledger.ts';

/*
 * A request without an Idempotency-Key that comes again within a short time is most likely a repeat: a double click, or
 * a console that lost the answer. So it is claimed in the ledger like one with a key. Unlike a key, nobody relies on it:
 * while the database is unavailable, the request is executed without a claim.
 */

export function requestWithoutKey(
  request: Omit<KeyedRequest, 'key' | 'fingerprint'>,
  { method, path, body }: Omit<RequestIdentity, 'ifMatch'>,
): KeyedRequest {
  const digest = fingerprint({ method, path, ifMatch: undefined, body });
  const hex = digest.toString('hex', 0, 16);
  return {
    ...request,
    consumerId: claimant + request.consumerId,
    key: hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
    fingerprint: digest,
  };
}

/** Executes the request once within its window, or answers from its earlier run. Throws like the ledger. */
export async function runWithinWindow(
  ledger: Ledger,
  request: KeyedRequest,
  {
    execute,
    executeUnkept,
    admit,
  }: {
    execute: (claim: Claim) => Promise<ExecutedAnswer>;
    /** Executes it while the database is unavailable: nobody keeps the claim. Undefined: it is not executed then. */
    executeUnkept: ((claim: Claim) => Promise<StoredAnswer>) | undefined;
    admit: (() => void) | undefined;
  },
): Promise<{ answer: StoredAnswer; replayed: boolean }> {
  let isClaimed = false;
  let executed: ExecutedAnswer | undefined;
  const run = async (claim: Claim) => {
    isClaimed = true;
    executed = await execute(executeUnkept ? unlessUnavailable(claim) : claim);
    // Given back rather than kept: an equal request is a new try.
    if (executed.status >= 400) throw new Error('refused');
    return executed;
  };
  try {
    return await ledger.run(request, run, admit);
  } catch (error) {
    // It was executed; its answer is a failure, or could not be stored.
    if (executed !== undefined) return { answer: executed, replayed: false };
    if (isClaimed || executeUnkept === undefined || !isStoreUnavailable(error)) throw error;
    return { answer: await executeUnkept(unkeptClaim(request)), replayed: false };
  }
}

function unlessUnavailable(claim: Claim): Claim {
  return {
    ...claim,
    confirmOwnership: () =>
      claim.confirmOwnership().catch((error: unknown) => {
        if (!isStoreUnavailable(error)) throw error;
      }),
  };
}

/** The database may have taken the claim before it failed: so the record has the External ID that stands there. */
function unkeptClaim({ consumerId, key, externalId }: KeyedRequest): Claim {
  return {
    consumerId,
    key,
    externalId,
    continued: false,
    since: wallMs(),
    before: undefined,
    leaseRecord: async () => undefined,
    leaseRecords: async () => undefined,
    nameRecord: async () => undefined,
    rememberBefore: async () => true,
    confirmOwnership: async () => undefined,
  };
}

function isStoreUnavailable(error: unknown): boolean {
  return error instanceof Problem && error.code === 'store_unavailable';
}
