import {
  type Doer,
  entry,
  type FoundEntry,
  type HistoryEntry,
  type HistoryReader,
  type HistorySource,
  type HistorySubject,
} from '../../api/history.ts';
import { isFieldVisible } from '../../platform/base/call.ts';
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
  const fields = call.visibleFields?.(`${type}s`);
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
