import { sql } from 'kysely';
import type { Log } from '../observability/log.ts';
import type { Database } from '../store/database.ts';
import { ClaimsTable, interval, leaseSeconds, type StoredAnswer } from './claims-table.ts';

/** Claims looked at in one run; the rest waits for the next. */
const batch = 500;

/**
 * The answer of an interrupted creation whose record exists; undefined where there is none, or where the operation
 * leaves nothing to look for. Throws while the CRM can't tell.
 */
export type Settle = (operation: string, externalId: string) => Promise<StoredAnswer | undefined>;

export interface HousekeepingOptions {
  database: Database;
  log: Log;
  retentionHours: number;
  settle: Settle;
}

interface AbandonedClaim {
  consumer_id: string;
  key: string;
  fence: string;
  operation: string;
  external_id: string;
}

/**
 * Clears the ledger: deletes answers that are older than the retention, and settles claims that nobody finished and
 * nobody came back for. Such a claim is taken over like any other, so that a repeat that comes just now waits; where
 * the record exists it is completed, and kept from then on; else it is deleted.
 */
export function createHousekeeping({ database, log, retentionHours, settle }: HousekeepingOptions) {
  const db = database.sql;
  const claims = new ClaimsTable(database, retentionHours);
  const retention = interval(retentionHours * 3600);

  async function deleteExpired(): Promise<void> {
    await sql`delete from idempotency_claims where completed_at <= now() - ${retention}`.execute(db);
  }

  /** The order of times is that of the ledger: an owner that is alive has touched its claim since. */
  async function takeAbandoned(): Promise<AbandonedClaim[]> {
    const { rows } = await sql<AbandonedClaim>`
      update idempotency_claims c set fence = c.fence + 1, lease_until = now() + ${interval(leaseSeconds)}
      from (
        select consumer_id, key from idempotency_claims
        where completed_at is null and lease_until <= now() and last_attempt_at <= now() - ${retention}
        order by last_attempt_at limit ${batch} for update skip locked
      ) as abandoned
      where c.consumer_id = abandoned.consumer_id and c.key = abandoned.key
      returning c.consumer_id, c.key, c.fence::text, c.operation, c.external_id`.execute(db);
    return rows;
  }

  async function finish({ consumer_id, key, fence, operation, external_id }: AbandonedClaim): Promise<void> {
    const answer = await settle(operation, external_id);
    const claim = { consumerId: consumer_id, key };
    if (answer) await claims.complete([{ claim, fence, answer }]);
    else await claims.remove(claim, fence);
  }

  return {
    /** Throws when a claim could not be settled; it is taken up again in a later run. */
    async run(): Promise<void> {
      await deleteExpired();
      const abandoned = await takeAbandoned();
      const outcomes: PromiseSettledResult<void>[] = [];
      for (const claim of abandoned) outcomes.push(...(await Promise.allSettled([finish(claim)])));
      const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
      if (abandoned.length > 0) {
        log.info({ claims: abandoned.length, failed: failed.length }, 'settled claims that nobody finished');
      }
      // One that can't be settled now does not hold up the others; the job is repeated for it.
      if (failed[0]) throw new Error('some claims could not be settled', { cause: failed[0].reason });
    },
  };
}
