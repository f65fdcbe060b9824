import { timingSafeEqual } from 'node:crypto';
import { createBatcher } from '../../platform/base/batching.ts';
import { now } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable, orUnavailable } from '../../platform/store/failures.ts';
import { packAnswer, storedBytes } from './answer-text.ts';
import { type ClaimRow, ClaimsTable, type Completion, type EarlierClaim, identify } from './claims-table.ts';
import type { ClaimKey, KeyedRequest, StoredAnswer } from './keyed-request.ts';
import { LeasesTable } from './leases-table.ts';

/*
 * The ledger of keyed writes. A claim is one row (consumer, key); it is in one of these states:
 *
 *   none ── claim ──> owned ── complete ──> completed ── retention over ──> none
 *                      │  ^
 *            release or │  │ claim (same fingerprint; fence + 1; same External ID)
 *           lease over  v  │
 *                     unowned
 *
 *   owned      lease_until is in the future: a repeat is refused (409) and comes again later.
 *   unowned    lease_until has passed, because the owner gave the claim back (its failure may pass: a limit, a time-out)
 *              or died. Exactly one repeat takes it over and continues the same record.
 *   completed  the answer is stored: a repeat gets it byte for byte. Where the answer was erased with a member's data
 *              (`handoff members forget`), a repeat is refused, and not executed.
 *
 * A request without a key that is claimed by its body (repeat-window.ts) has a window: when it is over, the claim is taken
 * as if it were new, unless it is owned.
 *
 * Invariants: the External ID is stored before the CRM is called and never changes while the claim is unfinished and has no
 * window; the fence only grows; only the owner with the current fence completes or releases; all times are the database's
 * clock.
 */

/** While a claim has so many milliseconds left nobody else can own it, whatever the request does: no need to ask again. */
const certainMs = 20_000;

export interface Claim {
  readonly consumerId: string;
  readonly key: string;
  readonly externalId: string;
  readonly continued: boolean;
  /** When the key was claimed first, in milliseconds since 1970 by the clock of the database. */
  readonly since: number;
  /** Entity tag of the record from before the first write, if an owner got that far. */
  readonly before: string | undefined;
  /** As `before`, or what this owner has stored with `rememberBefore`. */
  remembered(): string | undefined;
  /**
   * For a write with If-Match, before it reads the record: keeps every replica from other writes to it until this one is
   * done. Throws `idempotency_in_progress` while another one is under way.
   */
  leaseRecord(record: string): Promise<void>;
  leaseRecords(records: readonly string[]): Promise<void>;
  /**
   * Names the record that this unconditional change writes, for a caller that may see some records only: after the look-up
   * that has shown it, and before `rememberBefore`. Others name it with their claim. Throws `idempotency_in_progress`.
   */
  nameRecord(record: string): Promise<void>;
  /**
   * Stores the tag before the write, so that a later owner can distinguish our change from others. False where a write with
   * If-Match has the record: nothing is stored, and the record is to be read again.
   */
  rememberBefore(entityTag: string): Promise<boolean>;
  /**
   * To be called just before each call that writes; just before the handler begins it has been. Throws
   * `idempotency_in_progress` once replaced.
   */
  confirmOwnership(): Promise<void>;
}

export type ExecutedAnswer = StoredAnswer & { isStored?: true };

/** A claim for the one that runs the request: it ends with `complete` or `release`. */
export interface OwnedClaim extends Claim {
  /** Stores the answer: a repeat gets it again. Throws `idempotency_in_progress` once replaced, `store_unavailable`. */
  complete(answer: ExecutedAnswer): Promise<void>;
  /** Gives the claim back after a failure that may pass. Never throws. */
  release(failure: unknown): Promise<void>;
}

/**
 * The claim to execute the request under, or the answer of an earlier run. `isOfOtherView`: of one that could see other records.
 */
export type Claimed =
  | { claim: OwnedClaim; answer?: never }
  | { claim?: never; answer: StoredAnswer; isOfOtherView: boolean };

export interface LedgerOptions {
  database: Database;
  metrics: Metrics;
  retentionHours: number;
  /** Statements of each kind in flight at most; requests that come meanwhile share the next. */
  statementsAtOnce: number;
}

/** Requests that share a statement at most: other replicas may wait for its rows. */
const batchSize = 100;

export function createLedger({ database, metrics, retentionHours, statementsAtOnce }: LedgerOptions) {
  const claims = new ClaimsTable(database, retentionHours);
  const leases = new LeasesTable(database);
  const batching = { inFlight: statementsAtOnce, batchSize, isShared: isUnavailable, isHung };
  const take = createBatcher({
    ...batching,
    execute: (requests: KeyedRequest[]) => claims.take(requests),
    identity: identify,
  });
  const complete = createBatcher({
    ...batching,
    execute: (completions: Completion[]) => claims.complete(completions),
    identity: ({ claim }) => identify(claim),
  });
  return {
    async isUnfinished(claim: ClaimKey): Promise<boolean> {
      return (await claims.find(claim))?.completed === false;
    },
    /**
     * Claims the request's key, or answers from an earlier run. With a refusal nothing is touched, and only a request that
     * was answered before gets its answer. Throws `idempotency_key_reused`, `idempotency_in_progress`, `store_unavailable`,
     * and the refusal.
     */
    async claim(request: KeyedRequest, refusal?: Refusal): Promise<Claimed> {
      const step = request.span?.child('internal', 'idempotency claim');
      try {
        if (refusal) return await answerUnadmitted(claims, request, metrics, refusal);
        const row = await atStore(() => take(request));
        if (!row) {
          const earlier = await atStore(() => claims.find(request));
          return answerFromEarlier(earlier, request, metrics);
        }
        metrics.idempotencyOutcomes.inc({ outcome: row.continued ? 'continued' : 'claimed' });
        return { claim: ownedClaim({ claims, leases, complete, metrics }, request, row) };
      } finally {
        step?.end();
      }
    },
  };
}

export type Ledger = ReturnType<typeof createLedger>;

/** Why a request would not be admitted now. */
export interface Refusal {
  error: unknown;
}

async function answerUnadmitted(
  claims: ClaimsTable,
  request: KeyedRequest,
  metrics: Metrics,
  refusal: Refusal,
): Promise<Claimed> {
  const earlier = await claims.find(request).catch(() => undefined);
  if (!earlier?.completed) throw refusal.error;
  return answerFromEarlier(earlier, request, metrics);
}

export interface RecordLease {
  /** Throws `idempotency_in_progress` while another write to one of the records is under way. */
  take(records: readonly string[]): Promise<void>;
  /** Throws what the database does. */
  end(): Promise<void>;
  /**
   * Where nobody knows whether the write took effect, it may take effect later: the lease stays until it runs out.
   * False where there was a lease, and the record is certainly as it was. Throws what the database does.
   */
  endAfter(error: unknown): Promise<boolean>;
}

export function recordLease(leases: LeasesTable, owner: ClaimKey, fence: string): RecordLease {
  let leased: readonly string[] = [];
  const end = async () => {
    if (leased.length > 0) await leases.end(leased, owner, fence);
  };
  return {
    end,
    async take(records) {
      leased = records;
      if (!(await atStore(() => leases.take(records, owner, fence)))) throw recordInUse();
      if (await atStore(() => leases.areOverwritten(records))) throw recordInUse();
    },
    async endAfter(error) {
      const isUnknown = !(error instanceof Problem) || error.facts.outcomeUnknown === true;
      if (leased.length === 0 || isUnknown) return true;
      await end();
      return false;
    },
  };
}

interface ClaimParts {
  claims: ClaimsTable;
  leases: LeasesTable;
  complete: (completion: Completion) => Promise<boolean>;
  metrics: Metrics;
}

function ownedClaim(
  { claims, leases, complete, metrics }: ClaimParts,
  request: KeyedRequest,
  row: ClaimRow,
): OwnedClaim {
  const { consumerId, key, span } = request;
  const lease = recordLease(leases, request, row.fence);
  let mayBeLeased = request.overwrites !== undefined;
  const before = row.entity_tag_before ?? undefined;
  let remembered = before;
  return {
    consumerId,
    key,
    externalId: row.external_id,
    continued: row.continued,
    since: row.created_at.getTime(),
    before,
    remembered: () => remembered,
    leaseRecord: (record) => lease.take([record]),
    leaseRecords: (records) => lease.take(records),
    async nameRecord(record) {
      if (mayBeLeased) return;
      if (!(await atStore(() => claims.nameRecord(request, row.fence, record)))) throw inProgress();
      mayBeLeased = true;
    },
    async rememberBefore(entityTag) {
      if (await atStore(() => claims.remember(request, row.fence, entityTag))) {
        remembered = entityTag;
        return true;
      }
      if (mayBeLeased && (await atStore(() => claims.isOwner(request, row.fence)))) return false;
      throw inProgress();
    },
    async confirmOwnership() {
      if (row.deadline - now() > certainMs) return;
      if (!(await atStore(() => claims.isOwner(request, row.fence)))) throw inProgress();
    },
    async complete(answer) {
      const step = span?.child('internal', 'idempotency complete');
      try {
        if (answer.isStored) return;
        const packed = await packAnswer(answer);
        const completion = { claim: request, fence: row.fence, answer: packed };
        if (!(await atStore(() => complete(completion), true))) throw inProgress();
        metrics.idempotencyStoredBytes.inc(storedBytes(packed));
      } finally {
        step?.end();
      }
    },
    async release(failure) {
      // If even the release fails, the leases run out by themselves.
      const hasWritten = await lease.endAfter(failure).catch(() => true);
      const isUntouched = !hasWritten && row.entity_tag_before === null;
      await claims.release(request, row.fence, isUntouched).catch(() => undefined);
    },
  };
}

function answerFromEarlier(
  row: EarlierClaim | undefined,
  request: KeyedRequest,
  { idempotencyOutcomes }: Metrics,
): Claimed {
  const { fingerprint, otherFingerprint } = request;
  const isOfOtherView =
    row !== undefined && otherFingerprint !== undefined && timingSafeEqual(row.fingerprint, otherFingerprint);
  if (row && !isOfOtherView && !timingSafeEqual(row.fingerprint, fingerprint)) {
    idempotencyOutcomes.inc({ outcome: 'reused' });
    throw keyReused();
  }
  if (!row?.completed) {
    idempotencyOutcomes.inc({ outcome: 'in_progress' });
    throw request.repeatWindowSeconds === undefined ? inProgress() : sameInProgress();
  }
  const { response_status: status, response_headers: headers, response_body: body } = row;
  if (body === null) throw answerErased(status, headers['location']);
  idempotencyOutcomes.inc({ outcome: 'replayed' });
  return { answer: { status, headers, body }, isOfOtherView };
}

function keyReused(): Problem {
  const detail =
    'This Idempotency-Key was already sent with another request. Use a new key for a new request.';
  return new Problem('idempotency_key_reused', detail, {
    errors: [{ header: 'Idempotency-Key', message: 'belongs to another request' }],
  });
}

function answerErased(status: number, location: string | undefined): Problem {
  const where = location === undefined ? '' : ` Read ${location}.`;
  const detail = `This request already ran and was answered ${status}. The response was erased with a member's data.`;
  return new Problem('conflict', detail + where);
}

export function inProgress(): Problem {
  const detail =
    'The first request with this Idempotency-Key is still running. Send the same request again shortly.';
  return new Problem('idempotency_in_progress', detail, { retryAfter: 1 });
}

function sameInProgress(): Problem {
  const detail = 'The same request arrived earlier and is still running. Send it again shortly.';
  return new Problem('idempotency_in_progress', detail, { retryAfter: 1 });
}

export function recordInUse(): Problem {
  const detail = 'Another write to this record is still running. Send the same request again shortly.';
  return new Problem('idempotency_in_progress', detail, { retryAfter: 1 });
}

function atStore<T>(work: () => Promise<T>, outcomeUnknown = false): Promise<T> {
  return orUnavailable(work, { keeps: 'remembers idempotency keys', outcomeUnknown });
}
