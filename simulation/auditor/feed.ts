import { isDeepStrictEqual } from 'node:util';
import type { Ending, FeedEvent, Received, Row } from './facts.ts';

const collections = { quotes: 'quote', bookings: 'booking' } as const;

/** The feed replayed is the org, nothing comes twice, and each event reaches those who may see it and nobody else. */
export function checkFeed(
  feed: readonly FeedEvent[] | undefined,
  live: Ending['live'],
  violate: (what: string) => void,
): void {
  const ids = new Set<string>();
  for (const { id } of feed ?? []) {
    if (ids.has(id)) violate(`the event ${id} stands twice in the feed`);
    ids.add(id);
  }
  checkLives(feed ?? [], violate);
  for (const [collection, type] of Object.entries(collections)) {
    const rows = live.get(collection as keyof typeof collections) ?? [];
    checkReplay(type, replayed(feed ?? [], type), rows, violate);
  }
}

/**
 * A record is created before it is updated and after each deletion, and an update changes what is shown. One that was made and deleted
 * between two looks of the reader has its deletion alone.
 */
function checkLives(feed: readonly FeedEvent[], violate: (what: string) => void): void {
  const last = new Map<string, FeedEvent>();
  for (const event of feed) {
    const { type, resource, id } = event;
    if (!/^(?:quote|booking)\./.test(type)) continue;
    const before = last.get(resource.id);
    if (!mayFollow(event, before))
      violate(`the event ${id}, ${type} of ${resource.id}, follows ${before?.type ?? 'nothing'}`);
    if (type.endsWith('.updated') && isDeepStrictEqual(before?.data, event.data))
      violate(`the event ${id} says that ${resource.id} was updated, and it shows nothing new`);
    last.set(resource.id, event);
  }
}

function mayFollow({ type }: FeedEvent, before: FeedEvent | undefined): boolean {
  if (before === undefined) return !type.endsWith('.updated');
  return before.type.endsWith('.deleted') === type.endsWith('.created');
}

/** The last event of each record, but for those that were deleted. */
function replayed(feed: readonly FeedEvent[], type: string): Map<string, FeedEvent> {
  const left = new Map<string, FeedEvent>();
  for (const event of feed) {
    if (event.resource.type !== type || event.type.startsWith('handoff')) continue;
    if (event.type === `${type}.deleted`) left.delete(event.resource.id);
    else left.set(event.resource.id, event);
  }
  return left;
}

function checkReplay(
  type: string,
  left: Map<string, FeedEvent>,
  rows: readonly Row[],
  violate: (what: string) => void,
): void {
  const live = new Map(rows.map((row) => [String(row['External_Id__c']).toLowerCase(), row]));
  for (const [id, event] of left) {
    const row = live.get(id);
    if (row === undefined) violate(`by the feed the ${type} ${id} exists, but not in the org`);
    else if (!event.data_omitted && event.data['name'] !== row['Name__c'])
      violate(
        `by the feed the ${type} ${id} is ${String(event.data['name'])}, not ${String(row['Name__c'])}`,
      );
  }
  for (const id of live.keys())
    if (!left.has(id)) violate(`the feed doesn't know the ${type} ${id} of the org`);
}

/** Each endpoint has received its consumer's feed from the endpoint's creation on, as it is read there. */
export function checkDeliveries({ feeds, received }: Ending, violate: (what: string) => void): void {
  for (const endpoint of received) {
    const { consumer, path, events, forged, late } = endpoint;
    const feed = new Map((feeds.get(consumer) ?? []).map((event) => [event.id, event]));
    checkComplete(feed, endpoint, violate);
    for (const id of forged) violate(`the event ${id} for ${path} has a wrong signature`);
    for (const id of late) violate(`the event ${id} came to ${path}, which was deleted before`);
    for (const [id, event] of events) {
      const { type, data } = feed.get(id) ?? event;
      if (type !== event.type || !isDeepStrictEqual(data, event.data))
        violate(`the endpoint ${path} got ${id} as ${textOf(event)}, which reads ${textOf({ type, data })}`);
    }
  }
}

function checkComplete(
  feed: ReadonlyMap<string, FeedEvent>,
  { path, events, earlier, isDeleted }: Received,
  violate: (what: string) => void,
): void {
  const missing = [...feed.keys()].filter((id) => !events.has(id) && !earlier.has(id));
  if (missing.length > 0 && !isDeleted)
    violate(`the endpoint ${path} never got ${missing.length} events: ${missing[0]}`);
  const foreign = [...events.keys()].filter((id) => !feed.has(id));
  if (foreign.length > 0)
    violate(`the endpoint ${path} got ${foreign.length} events that aren't its: ${foreign[0]}`);
}

function textOf({ type, data }: Pick<FeedEvent, 'type' | 'data'>): string {
  return `${type} ${JSON.stringify(data)}`;
}

/** Nobody sees another's: consumers that see their own records alone, by lists and by the feed. */
export function checkIsolation(
  { feeds, lists }: Ending,
  ids: ReadonlyMap<string, string>,
  violate: (what: string) => void,
): void {
  const madeBy = (record: Record<string, unknown>) =>
    (record['created_by'] as { consumer_id?: string } | null)?.consumer_id;
  for (const [consumer, id] of ids) {
    for (const record of lists.get(consumer) ?? [])
      if (madeBy(record) !== id) violate(`${consumer} sees the record ${String(record['id'])} of another`);
    for (const { data, resource, type } of feeds.get(consumer) ?? [])
      if (data['created_by'] !== undefined && madeBy(data) !== id)
        violate(`${consumer} sees the event ${type} of the ${resource.type} ${resource.id} of another`);
  }
}
