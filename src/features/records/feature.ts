import { historySubjects } from '../../api/history.ts';
import { type Core, defineFeature, type Erasure, type ErasureStores, type Started } from '../../feature.ts';
import { seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { type Resources, resourcesOf } from '../../records/mapping.ts';
import {
  type MemberCache,
  memberCache,
  type RecordCopy,
  type RequireFreeBooking,
  recordCopy,
  requireFreeBooking,
} from '../../records/offers.ts';
import type { Records } from '../../records/records.ts';
import {
  cachedMembers,
  createMemberCache,
  forgetMember,
  type RecordMetrics,
  recordMetrics,
} from './member-cache.ts';
import { recordsContext, tags } from './routes/context.ts';
import { listRoute } from './routes/list.ts';
import { readRoute, recordRoutes } from './routes/records.ts';

const recordsSettings = {
  memberCacheSeconds: setting(
    'MEMBER_CACHE_SECONDS',
    seconds(0, 300),
    300,
    'How long members are cached if no webhook reports a change; 0 turns it off. Without effect with `copy.enabled`.',
  ),
};

type RecordsSettings = SettingsOf<typeof recordsSettings>;

const recordsPart: SettingsPart = { table: recordsSettings };

interface Parts {
  resources?: Resources;
  records: Records;
  members: Pick<Records, 'find'>;
  requireFree?: RequireFreeBooking;
}

export const records = defineFeature({
  name: 'records',
  settings: recordsPart,
  metrics: recordMetrics,
  tags: {
    [tags.members]: 'Members are contacts in the CRM; they are read-only.',
    [tags.quotes]: 'Quotes in the CRM, identified by their External ID.',
    [tags.bookings]: 'Bookings in the CRM, identified by their External ID.',
  },
  start,
  routes: (parts: Parts, cursors) => {
    const { member, quote, booking } = parts.resources ?? resourcesOf();
    const members = recordsContext(member, parts.records);
    return [
      listRoute(members, cursors),
      readRoute({ ...members, records: parts.members }, 'externalId'),
      ...recordRoutes(recordsContext(quote, parts.records, { member }), cursors),
      ...recordRoutes(
        recordsContext(booking, parts.records, { member, requireFree: parts.requireFree }),
        cursors,
      ),
    ];
  },
  erasers: [{ part: 'cached_members', erase }],
});

function start(core: Core<RecordsSettings, RecordMetrics>): Started<Parts> {
  const { settings, cache, crm, offers, metrics } = core;
  offers.add(historySubjects, 'quote');
  offers.add(historySubjects, 'booking');
  const cached = createMemberCache({
    cache,
    // The members of this org, in the cache that others may share.
    scope: `${settings.environment}:${crm.connectionHash.slice(0, 16)}`,
    seconds: settings.memberCacheSeconds,
    metrics,
    member: core.resources.member,
  });
  const copy = offers.find(recordCopy);
  const members = copy === undefined ? cached : copiedMembers(copy, cached);
  offers.make(memberCache, members);
  return {
    routes: {
      records: core.records,
      resources: core.resources,
      members: cachedMembers(core.records, members),
      // Features that reserve for a booking start later than this.
      requireFree: async (id, call) => offers.find(requireFreeBooking)?.(id, call),
    },
  };
}

/** The copy in place of the cache, which replicas that were started without a copy still read. */
function copiedMembers(copy: RecordCopy, cached: MemberCache): MemberCache {
  return {
    find: (_id, fetch) => fetch(),
    async drop(externalId, since) {
      await copy.memberChanged(externalId);
      await cached.drop(externalId, since);
    },
  };
}

async function erase(memberId: string, { openRedis }: ErasureStores): Promise<Erasure> {
  const redis = await openRedis();
  const count = redis === undefined ? null : await forgetMember(redis, memberId);
  return { label: 'cached members', count: count ?? 0, fields: { cached_members: count } };
}
