import { timingSafeEqual } from 'node:crypto';
import { sql } from 'kysely';
import { Problem } from '../base/problem.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Database } from '../store/database.ts';

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

/** How long an owner may be silent: longer than a request lives, so that only dead owners are replaced. */
export const leaseSeconds = 30;
/** Until this long after the claim nobody else can own it, whatever the request does: no need to ask again. */
const certainMs = 5000;

export interface KeyedRequest {
  consumerId: string;
  key: string;
  /** Name of the operation, for whoever clears up after it. */
  operation: string;
  fingerprint: Buffer;
  /** External ID to store if the claim is new. */
  externalId: string;
}

/** An answer as it leaves the service: what a repeat gets again. */
export interface StoredAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** The right to carry out the request, and the record that it is about. */
export interface Claim {
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

/** What the request came to; `final` tells whether a repeat must get the same. */
export interface Outcome {
  answer: StoredAnswer;
  final: boolean;
}

export interface Ledger {
  /**
   * Carries the request out under its key, or answers from an earlier run. Throws `idempotency_key_reused`,
   * `idempotency_in_progress`, `store_unavailable`, and whatever `execute` throws (the claim is then released).
   */
  run(
    request: KeyedRequest,
    execute: (claim: Claim) => Promise<Outcome>,
  ): Promise<{ answer: StoredAnswer; replayed: boolean }>;
}

interface ClaimRow {
  external_id: string;
  entity_tag_before: string | null;
  fence: string;
  continued: boolean;
}

interface ExistingRow {
  fingerprint: Uint8Array;
  completed: boolean;
  response_status: number | null;
  response_headers: Record<string, string> | null;
  response_body: string | null;
}

export interface LedgerOptions {
  database: Database;
  metrics: Metrics;
  retentionHours: number;
}

export function createLedger({ database, metrics, retentionHours }: LedgerOptions): Ledger {
  const db = database.sql;
  const retention = sql`make_interval(secs => ${retentionHours * 3600}::double precision)`;
  const lease = sql.raw(`interval '${leaseSeconds} seconds'`);

  /** One statement decides who owns the claim; no row means that somebody else does, or that it is completed. */
  async function take(request: KeyedRequest): Promise<ClaimRow | undefined> {
    const { rows } = await sql<ClaimRow>`
      insert into idempotency_claims as c
        (consumer_id, key, operation, fingerprint, external_id, fence, lease_until, created_at, last_attempt_at)
      values (${request.consumerId}, ${request.key}, ${request.operation}, ${request.fingerprint}, ${request.externalId}, 1,
        now() + ${lease}, now(), now())
      on conflict (consumer_id, key) do update set
        fence = c.fence + 1,
        lease_until = excluded.lease_until,
        last_attempt_at = excluded.last_attempt_at,
        operation = excluded.operation,
        fingerprint = excluded.fingerprint,
        external_id = case when c.completed_at is null then c.external_id else excluded.external_id end,
        created_at = case when c.completed_at is null then c.created_at else excluded.created_at end,
        entity_tag_before = case when c.completed_at is null then c.entity_tag_before end,
        completed_at = null, response_status = null, response_headers = null, response_body = null
      where c.completed_at <= now() - ${retention}
        or (c.completed_at is null and c.lease_until <= now() and c.fingerprint = excluded.fingerprint)
      returning external_id, entity_tag_before, fence::text, created_at <> last_attempt_at as continued`.execute(
      db,
    );
    return rows[0];
  }

  async function existing(request: KeyedRequest): Promise<ExistingRow | undefined> {
    const { rows } = await sql<ExistingRow>`
      select fingerprint, completed_at is not null as completed, response_status, response_headers, response_body
      from idempotency_claims where consumer_id = ${request.consumerId} and key = ${request.key}`.execute(db);
    return rows[0];
  }

  /** Whether the owner with this fence still owns the claim; stores the answer if it does. */
  async function complete(request: KeyedRequest, fence: string, answer: StoredAnswer): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update idempotency_claims set completed_at = now(), response_status = ${answer.status},
        response_headers = ${JSON.stringify(answer.headers)}::jsonb, response_body = ${answer.body}
      where consumer_id = ${request.consumerId} and key = ${request.key} and fence = ${fence}::bigint
        and completed_at is null`.execute(db);
    return numAffectedRows === 1n;
  }

  async function release(request: KeyedRequest, fence: string): Promise<void> {
    await sql`
      update idempotency_claims set lease_until = now(), last_attempt_at = now()
      where consumer_id = ${request.consumerId} and key = ${request.key} and fence = ${fence}::bigint
        and completed_at is null`.execute(db);
  }

  async function remember(request: KeyedRequest, fence: string, entityTag: string): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update idempotency_claims set entity_tag_before = ${entityTag}
      where consumer_id = ${request.consumerId} and key = ${request.key} and fence = ${fence}::bigint
        and completed_at is null`.execute(db);
    return numAffectedRows === 1n;
  }

  async function owns(request: KeyedRequest, fence: string): Promise<boolean> {
    const { rows } = await sql<{ owned: boolean }>`
      select fence = ${fence}::bigint and lease_until > now() and completed_at is null as owned
      from idempotency_claims where consumer_id = ${request.consumerId} and key = ${request.key}`.execute(db);
    return rows[0]?.owned ?? false;
  }

  function answerFromEarlier(row: ExistingRow | undefined, request: KeyedRequest): StoredAnswer {
    if (row && !timingSafeEqual(row.fingerprint, request.fingerprint)) {
      metrics.idempotencyOutcomes.inc({ outcome: 'reused' });
      const detail =
        'This Idempotency-Key was sent with another request before. Take a new key for a new request.';
      throw new Problem('idempotency_key_reused', detail, {
        errors: [{ header: 'Idempotency-Key', message: 'belongs to another request' }],
      });
    }
    if (!row?.completed) {
      metrics.idempotencyOutcomes.inc({ outcome: 'in_progress' });
      throw inProgress();
    }
    metrics.idempotencyOutcomes.inc({ outcome: 'replayed' });
    const { response_status: status, response_headers: headers, response_body: body } = row;
    return { status: status as number, headers: headers as Record<string, string>, body: body as string };
  }

  return {
    async run(request, execute) {
      const claimedAt = performance.now();
      const row = await orUnavailable(() => take(request));
      if (!row) {
        return {
          answer: answerFromEarlier(await orUnavailable(() => existing(request)), request),
          replayed: true,
        };
      }
      metrics.idempotencyOutcomes.inc({ outcome: row.continued ? 'continued' : 'claimed' });
      const claim: Claim = {
        externalId: row.external_id,
        continued: row.continued,
        before: row.entity_tag_before ?? undefined,
        async rememberBefore(entityTag) {
          if (!(await orUnavailable(() => remember(request, row.fence, entityTag)))) throw inProgress();
        },
        async confirmOwnership() {
          if (performance.now() - claimedAt < certainMs) return;
          if (!(await orUnavailable(() => owns(request, row.fence)))) throw inProgress();
        },
      };
      let outcome: Outcome;
      try {
        outcome = await execute(claim);
      } catch (error) {
        // If even this fails, the lease runs out by itself.
        await release(request, row.fence).catch(() => {});
        throw error;
      }
      if (!outcome.final) {
        await release(request, row.fence).catch(() => {});
        return { answer: outcome.answer, replayed: false };
      }
      const stored = await orUnavailable(() => complete(request, row.fence, outcome.answer), true);
      if (!stored) throw inProgress();
      return { answer: outcome.answer, replayed: false };
    },
  };
}

function inProgress(): Problem {
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
