import type { Crm } from './crm/crm.ts';
import { hashConnection } from './crm/token/access-token.ts';
import { type Copy, createCopy } from './features/read-copy/copy.ts';
import { createMemberCache, type MemberCache } from './features/records/member-cache.ts';
import type { SharedCache } from './platform/cache/shared-cache.ts';
import type { Log } from './platform/observability/log.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { CrmSettings, Settings } from './platform/settings/table.ts';
import type { Database } from './platform/store/database.ts';
import { member } from './records/members.ts';
import { booking, quote } from './records/quotes-and-bookings.ts';

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  opened: AsyncDisposableStack;
  database: Database;
  crm: Crm;
}

/** The CRM with the copy of its records before it, where one is kept. */
export function openCopy({ settings, opened, crm, ...parts }: Parts): { crm: Crm; copy: Copy | null } {
  const { copy: wanted, changes } = settings;
  if (!wanted.enabled) return { crm, copy: null };
  const copy = createCopy({
    ...parts,
    // The simulated one gets another address with every start.
    org: settings.crm.loginUrl ? hashConnection(settings.crm as CrmSettings) : 'simulated',
    // What others refer to comes first.
    resources: [member, quote, booking],
    source: crm.changes,
    records: crm.records,
    defaultMaxAgeSeconds: wanted.defaultMaxAgeSeconds,
    pollSeconds: changes.pollSeconds,
  });
  opened.defer(() => copy.stop());
  const withCopy: Crm = {
    ...crm,
    records: copy.records,
    get usage() {
      return crm.usage;
    },
  };
  return { crm: withCopy, copy };
}

/**
 * The members of this org in the cache that others may share. Where there is a copy, that is the cache: this one keeps
 * nothing then, and what is dropped from it is read again for the copy.
 */
export function openMembers(
  { settings, metrics }: Pick<Parts, 'settings' | 'metrics'>,
  cache: SharedCache,
  copy: Copy | null,
  simulated: Partial<CrmSettings> = {},
): MemberCache {
  const { environment, memberCacheSeconds } = settings;
  const connection = hashConnection({ ...settings.crm, ...simulated } as CrmSettings);
  const scope = `${environment}:${connection.slice(0, 16)}`;
  if (copy === null) return createMemberCache({ cache, scope, seconds: memberCacheSeconds, metrics });
  return { find: (_id, fetch) => fetch(), drop: (externalId) => copy.doubt(member, externalId) };
}
