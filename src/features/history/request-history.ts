import {
  entry,
  type FoundEntry,
  type HistoryReader,
  type HistorySource,
  type HistorySubject,
  mostEntries,
} from '../../api/history.ts';
import { type KnownRequest, requestsAbout } from '../../api/idempotency/claims-table.ts';
import type { Route } from '../../api/route.ts';
import { isFieldVisible, isRecordVisible, ownWorldOf } from '../../platform/base/call.ts';
import type { Database } from '../../platform/store/database.ts';

/** The permission that a subject is read by; undefined where it depends on its type. */
const collectionOf = {
  quote: 'quotes',
  booking: 'bookings',
  reservation: 'bookings',
  handoff: undefined,
} as const;

export function createRequestHistory(
  database: Database,
  nameOf: (consumerId: string) => string | undefined,
  routes: () => readonly Route[],
): HistorySource {
  let byOperation: Map<string, Route> | undefined;
  return async (subject, reader) => {
    byOperation ??= new Map(routes().map((route) => [route.operationId, route]));
    const operations = byOperation;
    const types = subject.type === 'handoff' ? ['quote', 'booking'] : [subject.type];
    const found = await requestsAbout(database, subject.id, types, mostEntries);
    return found.flatMap((request) => {
      const { consumer_id, is_refused } = request;
      const route = operations.get(request.operation);
      if (!route?.requested?.about.includes(subject.type)) return [];
      // Requests of a test consumer are for it alone, and those of live ones are for no test consumer.
      if (ownWorldOf(consumer_id) !== ownWorldOf(reader.consumer.id)) return [];
      // Others have tried, and may not even see it.
      if (is_refused && consumer_id !== reader.consumer.id) return [];
      return [entryOf(request, route, subject, reader, nameOf)];
    });
  };
}

function entryOf(
  request: KnownRequest,
  { method, path, requested }: Route,
  { type }: HistorySubject,
  { call }: HistoryReader,
  nameOf: (consumerId: string) => string | undefined,
): FoundEntry {
  const { consumer_id, actor, verified, created_at } = request;
  const resource = collectionOf[type];
  const showsMaker = resource !== undefined && isFieldVisible(call.visibleFields?.(resource), 'created_by');
  return entry(created_at, 'requested', {
    by: showsMaker ? { consumer_id, consumer_name: nameOf(consumer_id) ?? null, actor, verified } : null,
    endpoint: `${method} ${path}`,
    // Other sources know, too, what the request makes.
    ...(requested?.makes && { once: 'requested' }),
    ...(resource && !isRecordVisible(call.visible(resource), consumer_id) && { isOfOther: true as const }),
    ...(!isProof(request, requested, resource, call) && { isUnproven: true as const }),
  });
}

/** Whether it made something that the reader may see. What is about several types may have made another. */
function isProof(
  { consumer_id, is_refused }: KnownRequest,
  requested: Route['requested'],
  resource: string | undefined,
  call: HistoryReader['call'],
): boolean {
  const madeThis = requested?.makes === true && requested.about.length === 1 && !is_refused;
  if (resource === undefined || !madeThis) return false;
  return isRecordVisible(call.visible(resource), consumer_id);
}
