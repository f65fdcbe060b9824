import {
  type Doer,
  entry,
  type FoundEntry,
  type HistoryEntry,
  type HistoryReader,
  type HistorySource,
  type HistorySubject,
  mostEntries,
} from '../../api/history.ts';
import { type KnownRequest, requestsAbout } from '../../api/idempotency/claims-table.ts';
import type { Route } from '../../api/route.ts';
import { isFieldVisible, isRecordVisible, ownWorldOf } from '../../platform/base/call.ts';
import type { Database } from '../../platform/store/database.ts';
import type { Resources } from '../../records/mapping.ts';
import type { Records } from '../../records/records.ts';

/** Oldest first; undefined where there is nothing that the reader may see. Throws `Problem`. */
export type History = (subject: HistorySubject, reader: HistoryReader) => Promise<HistoryEntry[] | undefined>;

export function createHistory({
  sources,
  records,
  resources,
}: {
  sources: readonly HistorySource[];
  records: Pick<Records, 'find'>;
  resources: Pick<Resources, 'quote' | 'booking'>;
}): History {
  return async (subject, reader) => {
    const found = (await Promise.all(sources.map((source) => source(subject, reader)))).flat();
    const { type } = subject;
    const isRecord = type === 'quote' || type === 'booking';
    if (found.some(({ isUnproven }) => !isUnproven))
      return inOrder(withoutRepeats(isRecord ? whileSeen(found) : found));
    // Nothing here says whose it is; the CRM does.
    if (!isRecord) return undefined;
    const record = await records.find(resources[type], subject.id, reader.call);
    return record && inOrder(withoutRepeats([...creationOf(record.values, type, reader), ...found]));
  };
}

function creationOf(
  values: Readonly<Record<string, string | null | undefined>>,
  type: 'quote' | 'booking',
  { call }: HistoryReader,
): FoundEntry[] {
  const fields = call.visibleFields?.(collections[type]);
  const { created_at, consumer_id, consumer_name = null, actor = null, verified } = values;
  if (!created_at || !isFieldVisible(fields, 'created_at')) return [];
  const isKnown = consumer_id && isFieldVisible(fields, 'created_by');
  const proof = verified ? { verified: verified === 'true' } : {};
  const by = isKnown ? { consumer_id, consumer_name, actor, ...proof } : null;
  return [entry(new Date(created_at), 'created', { by, isWholeSecond: true, once: 'created' })];
}

/** Without what others asked for after the last change that the reader saw: the record may be theirs by then. */
function whileSeen(entries: readonly FoundEntry[]): FoundEntry[] {
  const lastSeen = Math.max(...entries.map((one) => (one.isWholeSecond ? orderOf(one) : 0)));
  return entries.filter((one) => !one.isOfOther || orderOf(one) <= lastSeen);
}

/** The first of those that are the same; the request itself, which comes last, says best at which operation it came. */
function withoutRepeats(entries: readonly FoundEntry[]): FoundEntry[] {
  const known = new Map<string, FoundEntry>();
  return entries.flatMap((found) => {
    const { once, endpoint } = found;
    const first = once === undefined ? undefined : known.get(once);
    if (first !== undefined) {
      first.endpoint = endpoint ?? first.endpoint;
      return [];
    }
    const own = { ...found };
    if (once !== undefined) known.set(once, own);
    return [own];
  });
}

/** Where the CRM does not say whether an actor was proven, the request that made the record does, as long as it is kept. */
function withVerified(by: FoundEntry['by'], entries: readonly FoundEntry[]): Doer | null {
  if (by === null) return null;
  const { verified } = by;
  if (verified !== undefined) return { ...by, verified };
  const isProven = entries.some(
    ({ kind, by: asked }) =>
      kind === 'requested' &&
      asked?.verified === true &&
      asked.actor === by.actor &&
      asked.consumer_id === by.consumer_id,
  );
  return { ...by, verified: isProven };
}

/** A time in whole seconds sorts at the end of its second; at the same millisecond requests come first. */
function orderOf({ at, kind, isWholeSecond }: FoundEntry): number {
  return Date.parse(at) + (isWholeSecond ? 999 : 0) + (kind === 'requested' ? 0 : 0.5);
}

function inOrder(entries: readonly FoundEntry[]): HistoryEntry[] {
  let latest = '';
  return entries
    .toSorted((one, other) => orderOf(one) - orderOf(other))
    .map(({ at, kind, by, changes, endpoint }) => {
      if (at > latest) latest = at;
      return { at: latest, kind, by: withVerified(by, entries), changes, endpoint };
    });
}

/** The permission that a subject is read by; undefined where it depends on its type. */
const collections = {
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
  const resource = collections[type];
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
