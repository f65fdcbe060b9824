import { timingSafeEqual } from 'node:crypto';
import { Problem } from '../base/problem.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Database } from '../store/database.ts';
import { isAway } from '../store/is-away.ts';
import {
  type ClaimRow,
  ClaimsTable,
  type Completion,
  type EarlierClaim,
  identify,
  type KeyedRequest,
  type StoredAnswer,
} from './claims-table.ts';
import { gather } from './gather.ts';

/*
 * The ledger of keyed writes. A claim is one row (consumer, key); it is in one of these states:
 *
 *   none ── claim ──> owned ── complete ──> completed ── retention over ──> none
 *                      │  ^
 *            release or │  │ claim (same fingerprint; fence + 1; same External ID)
 *           lease over  v  │
 *                     unowned
 *
 *   owned      lease_until is in the future: a repeat is told to wait (409).
 *   unowned    lease_until has passed, because the owner gave it back (its outcome may change: a limit, a time-out)
 *              or died. Exactly one repeat takes it over and continues the same record.
 *   completed  the answer is stored: a repeat gets it byte for byte.
 *
 * Invariants: the External ID is stored before the CRM is called and never changes while the row lives; the fence
 * only grows; only the owner with the current fence completes or releases; all times are the database's clock.
 */

/** Until this long after the claim nobody else can own it, whatever the request does: no need to ask again. */
const certainMs = 5000;

/** The right to carry out the request, and the record that it is about. */
export interface Claim {
  readonly consumerId: string;
  readonly key: string;
  readonly externalId: string;
  /** An earlier owner may have got as far as the CRM. */
  readonly continued: boolean;
  /** Entity tag of the record from before the first write, if an owner got that far. */
  readonly before: string | undefined;
  /** Stores the tag before the write, so that whoever continues can tell our change from another. */
  rememberBefore(entityTag: string): Promise<void>;
  /** To be called just before each call that writes. Throws `idempotency_in_progress` once replaced. */
  confirmOwnership(): Promise<void>;
}

/** An answer; `isStored` where the plan that came to it has completed the claim itself. */
export type ExecutedAnswer = StoredAnswer & { isStored?: true };

export interface Ledger {
  /**
   * Carries the request out under its key, or answers from an earlier run. What `execute` returns is stored: a repeat
   * gets it again; what it throws may pass, so the claim is released. `admit` may throw before the claim is taken: then
   * nothing is touched, and only a request that was answered before gets its answer. Throws `idempotency_key_reused`,
   * `idempotency_in_progress`, `store_unavailable`, and whatever `execute` and `admit` throw.
   */
  run(
    request: KeyedRequest,
    execute: (claim: Claim) => Promise<ExecutedAnswer>,
    admit?: () => void,
  ): Promise<{ answer: StoredAnswer; replayed: boolean }>;
}

export interface LedgerOptions {
  database: Database;
  metrics: Metrics;
  retentionHours: number;
  /** Statements of each kind under way at once; what comes meanwhile shares the next. */
  statementsAtOnce: number;
}

/** Keeps statements short: other replicas may wait for the rows. */
const mostInStatement = 100;

export function createLedger({ database, metrics, retentionHours, statementsAtOnce }: LedgerOptions): Ledger {
  const claims = new ClaimsTable(database, retentionHours);
  const sharing = { atOnce: statementsAtOnce, most: mostInStatement };
  const take = gather((requests: KeyedRequest[]) => claims.take(requests), isAway, {
    ...sharing,
    identity: identify,
  });
  const complete = gather((completions: Completion[]) => claims.complete(completions), isAway, {
    ...sharing,
    identity: ({ claim }) => identify(claim),
  });
  return {
    async run(request, execute, admit) {
      const refusal = catchRefusal(admit);
      if (refusal)
        return { answer: await answerUnadmitted(claims, request, metrics, refusal), replayed: true };
      const claimedAt = performance.now();
      const row = await orUnavailable(() => take(request));
      if (!row) {
        const earlier = await orUnavailable(() => claims.find(request));
        return { answer: answerFromEarlier(earlier, request, metrics), replayed: true };
      }
      metrics.idempotencyOutcomes.inc({ outcome: row.continued ? 'continued' : 'claimed' });
      let answer: ExecutedAnswer;
      try {
        answer = await execute(ownedClaim(claims, request, row, claimedAt));
      } catch (error) {
        // If even the release fails, the lease runs out by itself.
        await claims.release(request, row.fence).catch(() => undefined);
        throw error;
      }
      const isStored =
        answer.isStored ??
        (await orUnavailable(() => complete({ claim: request, fence: row.fence, answer }), true));
      if (!isStored) throw inProgress();
      return { answer, replayed: false };
    },
  };
}

function catchRefusal(admit: (() => void) | undefined): { error: unknown } | undefined {
  try {
    admit?.();
    return undefined;
  } catch (error) {
    return { error };
  }
}

/** A request that can't be carried out now; one that was carried out before is answered all the same. */
async function answerUnadmitted(
  claims: ClaimsTable,
  request: KeyedRequest,
  metrics: Metrics,
  refusal: { error: unknown },
): Promise<StoredAnswer> {
  const earlier = await claims.find(request).catch(() => undefined);
  if (!earlier?.completed) throw refusal.error;
  return answerFromEarlier(earlier, request, metrics);
}

function ownedClaim(claims: ClaimsTable, request: KeyedRequest, row: ClaimRow, claimedAt: number): Claim {
  const { consumerId, key } = request;
  return {
    consumerId,
    key,
    externalId: row.external_id,
    continued: row.continued,
    before: row.entity_tag_before ?? undefined,
    async rememberBefore(entityTag) {
      if (!(await orUnavailable(() => claims.remember(request, row.fence, entityTag)))) throw inProgress();
    },
    async confirmOwnership() {
      if (performance.now() - claimedAt < certainMs) return;
      if (!(await orUnavailable(() => claims.isOwner(request, row.fence)))) throw inProgress();
    },
  };
}

/** What to say to a request whose claim somebody else has, or had. */
function answerFromEarlier(
  row: EarlierClaim | undefined,
  request: KeyedRequest,
  { idempotencyOutcomes }: Metrics,
): StoredAnswer {
  if (row && !timingSafeEqual(row.fingerprint, request.fingerprint)) {
    idempotencyOutcomes.inc({ outcome: 'reused' });
    throw keyReused();
  }
  if (!row?.completed) {
    idempotencyOutcomes.inc({ outcome: 'in_progress' });
    throw inProgress();
  }
  idempotencyOutcomes.inc({ outcome: 'replayed' });
  const { response_status: status, response_headers: headers, response_body: body } = row;
  return { status, headers, body };
}

function keyReused(): Problem {
  const detail =
    'This Idempotency-Key was sent with another request before. Take a new key for a new request.';
  return new Problem('idempotency_key_reused', detail, {
    errors: [{ header: 'Idempotency-Key', message: 'belongs to another request' }],
  });
}

/** What a repeat is told while the first request, or its plan, is under way. */
export function inProgress(): Problem {
  const detail =
    'The first request with this Idempotency-Key is still running. Send the same request again shortly.';
  return new Problem('idempotency_in_progress', detail, { retryAfter: 1 });
}

async function orUnavailable<T>(work: () => Promise<T>, outcomeUnknown = false): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const detail = 'The database that remembers idempotency keys is not available.';
    throw new Problem('store_unavailable', detail, { retryAfter: 1, outcomeUnknown, cause });
  }
}
