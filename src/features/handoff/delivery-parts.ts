import { LeasesTable } from '../../api/idempotency/leases-table.ts';
import { recordLease } from '../../api/idempotency/ledger.ts';
import { createBatcher } from '../../platform/base/batching.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable } from '../../platform/store/failures.ts';
import type { DeliveryParts } from './deliver.ts';
import type { HandoffCrm } from './handoff.ts';
import type { HandoffsTable, LookedFor } from './handoffs-table.ts';
import { atStore } from './stored-items.ts';

const notedAtOnce = 200;
/** No consumer's id: so no key that is sent ever meets a lease of a hand-off. */
const leaseOwner = 'stored hand-off';

export function createDeliveryParts(
  { records, resources }: HandoffCrm,
  { database, table }: { database: Database; table: HandoffsTable },
): DeliveryParts {
  const leases = new LeasesTable(database);
  const noteRecord = createBatcher({
    execute: (looked: LookedFor[]) => table.noteRecords(looked),
    inFlight: 2,
    batchSize: notedAtOnce,
    identity: ({ handoff }) => handoff.externalId,
    isShared: isUnavailable,
    isHung,
  });
  return {
    records,
    resources,
    noteRecord: (looked) => atStore(() => noteRecord(looked)),
    leaseOf: ({ externalId, fence }) =>
      recordLease(leases, { consumerId: leaseOwner, key: externalId }, fence),
    rememberBefore: (handoff, entityTag) => atStore(() => table.rememberBefore(handoff, entityTag)),
  };
}
