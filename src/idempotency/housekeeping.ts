import type { Log } from '../observability/log.ts';
import type { Database } from '../store/database.ts';
import { type AbandonedClaim, ClaimsTable } from './claims-table.ts';
import type { StoredAnswer } from './keyed-request.ts';
import { LeasesTable } from './leases-table.ts';

/**
 * The answer of an interrupted creation whose record exists; undefined where there is none, or where the operation
 * makes no record. Throws while the CRM can't be asked.
 */
export type Reconcile = (operation: string, externalId: string) => Promise<StoredAnswer | undefined>;

export interface HousekeepingOptions {
  database: Database;
  log: Log;
  retentionHours: number;
  reconcile: Reconcile;
}

/**
 * Clears the ledger: deletes answers that are older than the retention and leases that have run out, and reconciles
 * claims that were never finished and never repeated. Such a claim is taken over like any other, so that a repeat that
 * comes just now waits; where the record exists it is completed, and kept from then on; else it is deleted.
 */
export function createHousekeeping({ database, log, retentionHours, reconcile }: HousekeepingOptions) {
  const claims = new ClaimsTable(database, retentionHours);
  const leases = new LeasesTable(database);

  async function finish({ consumer_id, key, fence, operation, external_id }: AbandonedClaim): Promise<void> {
    const answer = await reconcile(operation, external_id);
    const claim = { consumerId: consumer_id, key };
    if (answer) await claims.complete([{ claim, fence, answer }]);
    else await claims.remove(claim, fence);
  }

  return {
    /** Throws when a claim could not be reconciled; a later run takes it again. */
    async run(): Promise<void> {
      await claims.deleteExpired();
      await leases.clear();
      const abandoned = await claims.takeAbandoned();
      const results: PromiseSettledResult<void>[] = [];
      for (const claim of abandoned) results.push(...(await Promise.allSettled([finish(claim)])));
      const failed = results.filter((result) => result.status === 'rejected');
      if (abandoned.length > 0) {
        log.info({ claims: abandoned.length, failed: failed.length }, 'settled claims that nobody finished');
      }
      // One that can't be reconciled now does not hold up the others; the job is repeated for it.
      if (failed[0]) throw new Error('some claims could not be reconciled', { cause: failed[0].reason });
    },
  };
}
