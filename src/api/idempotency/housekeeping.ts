import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { packAnswer } from './answer-text.ts';
import { type AbandonedClaim, ClaimsTable } from './claims-table.ts';
import { consumerOfClaim, type StoredAnswer } from './keyed-request.ts';
import { LeasesTable } from './leases-table.ts';

/**
 * The answer of an interrupted creation whose record exists; undefined where there is none, or where the operation
 * makes no record. Throws while the CRM can't be asked, and while others go on with the request.
 */
export type Reconcile = (
  operation: string,
  externalId: string,
  consumerId: string,
  records: readonly string[],
) => Promise<StoredAnswer | undefined>;

const reconciledAtOnce = 50;

/**
 * The steps that clear the ledger: they delete answers that are older than the retention and leases that have run out, and
 * reconcile claims that were never finished and never repeated. Such a claim is taken over like any other, so that a repeat
 * that comes just now waits; where the record exists it is completed, and kept from then on; else it is deleted.
 */
export function createHousekeeping({
  database,
  log,
  retentionHours,
  reconcile,
}: {
  database: Database;
  log: Log;
  retentionHours: number;
  reconcile: Reconcile;
}) {
  const claims = new ClaimsTable(database, retentionHours);
  const leases = new LeasesTable(database);

  async function finish({
    consumer_id,
    key,
    fence,
    operation,
    external_id,
    records,
  }: AbandonedClaim): Promise<void> {
    const answer = await reconcile(operation, external_id, consumerOfClaim(consumer_id), records ?? []);
    const claim = { consumerId: consumer_id, key };
    if (answer) await claims.complete([{ claim, fence, answer: await packAnswer(answer) }]);
    else await claims.remove(claim, fence);
  }

  return {
    /** Throws what the database does. */
    answers: (signal) => claims.deleteExpired(signal),
    /** Throws what the database does. */
    leases: (signal) => leases.clear(signal),
    /** Throws when a claim could not be reconciled; a later run takes it again, after those that have waited longer. */
    async unfinished(signal) {
      let settled = 0;
      const failures: PromiseRejectedResult[] = [];
      while (!signal.aborted) {
        const taken = await claims.takeAbandoned(reconciledAtOnce);
        const results = await Promise.allSettled(taken.map(finish));
        const failed = results.filter((result) => result.status === 'rejected');
        failures.push(...failed);
        settled += taken.length - failed.length;
        // Where every one fails the CRM is unavailable, and further ones would fail as well.
        if (taken.length < reconciledAtOnce || failed.length === taken.length) break;
      }
      const failed = failures.length;
      if (settled + failed > 0)
        log.info({ claims: settled + failed, failed }, 'settled claims that nobody finished');
      if (failed > 0) throw new Error("couldn't reconcile some claims", { cause: failures[0]?.reason });
    },
  } satisfies Record<string, (signal: AbortSignal) => Promise<unknown>>;
}
