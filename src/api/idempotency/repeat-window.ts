import { wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { claimant, fingerprint, type KeyedRequest, type RequestIdentity } from './keyed-request.ts';
import type { Claimed, Ledger, OwnedClaim, Refusal } from './ledger.ts';

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

/**
 * Claims the request for its window. `mayBeUnkept`: it is executed also while the database is unavailable, under a claim that nobody
 * keeps. Throws like the ledger.
 */
export async function claimWithinWindow(
  ledger: Pick<Ledger, 'claim'>,
  request: KeyedRequest,
  { refusal, mayBeUnkept }: { refusal: Refusal | undefined; mayBeUnkept: boolean },
): Promise<Claimed> {
  try {
    const claimed = await ledger.claim(request, refusal);
    return claimed.claim ? { claim: withinWindow(claimed.claim, mayBeUnkept) } : claimed;
  } catch (error) {
    if (!mayBeUnkept || !isStoreUnavailable(error)) throw error;
    return { claim: unkeptClaim(request) };
  }
}

function withinWindow(claim: OwnedClaim, mayBeUnkept: boolean): OwnedClaim {
  return {
    ...claim,
    confirmOwnership: () =>
      claim.confirmOwnership().catch((error: unknown) => {
        if (!mayBeUnkept || !isStoreUnavailable(error)) throw error;
      }),
    async complete(answer) {
      // Given back rather than kept: an equal request is a new try.
      if (answer.status >= 400) await claim.release(undefined);
      // It was executed: the caller gets its answer, also where that can't be stored.
      else await claim.complete(answer).catch(() => undefined);
    },
  };
}

/** The database may have taken the claim before it failed: so the record has the External ID that stands there. */
function unkeptClaim({ consumerId, key, externalId }: KeyedRequest): OwnedClaim {
  return {
    consumerId,
    key,
    externalId,
    continued: false,
    since: wallMs(),
    before: undefined,
    remembered: () => undefined,
    leaseRecord: async () => undefined,
    leaseRecords: async () => undefined,
    nameRecord: async () => undefined,
    rememberBefore: async () => true,
    confirmOwnership: async () => undefined,
    complete: async () => undefined,
    release: async () => undefined,
  };
}

function isStoreUnavailable(error: unknown): boolean {
  return error instanceof Problem && error.code === 'store_unavailable';
}
