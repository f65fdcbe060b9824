import { type Copy, createCopy } from '../../../src/features/read-copy/copy.ts';
import { readCopyMetrics } from '../../../src/features/read-copy/metrics.ts';
import { createMemoryCache } from '../../../src/platform/cache/memory.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import type { Resource } from '../../../src/records/resource.ts';
import { recordLog } from '../../support/log.ts';
import type { MemoryRecords } from './memory-records.ts';

/** A copy of a CRM in memory. */
export function openCopy(
  database: Database,
  crm: MemoryRecords,
  resources: readonly Resource[] = [quote],
): Copy {
  return createCopy({
    cache: createMemoryCache(),
    environment: 'test',
    org: 'memory',
    database,
    resources,
    source: crm,
    records: crm,
    defaultMaxAgeSeconds: 0,
    pollSeconds: 1,
    log: recordLog().log,
    metrics: createMetrics(readCopyMetrics),
  });
}
