import type { Ending, FeedEvent, Row } from './facts.ts';

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
  for (const [collection, type] of Object.entries(collections)) {
    const rows = live.get(collection as keyof typeof collections) ?? [];
    checkReplay(type, replayed(feed ?? [], type), rows, violate);
  }
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

/** Each endpoint has received its consumer's feed from the endpoint's creation on. */
export function checkDeliveries({ feeds, received }: Ending, violate: (what: string) => void): void {
  for (const [consumer, ids] of received) {
    const feed = (feeds.get(consumer) ?? []).map(({ id }) => id);
    const missing = feed.filter((id) => !ids.has(id));
    if (missing.length > 0)
      violate(`the endpoint of ${consumer} never got ${missing.length} events: ${missing[0]}`);
    const known = new Set(feed);
    const foreign = [...ids].filter((id) => !known.has(id));
    if (foreign.length > 0)
      violate(`the endpoint of ${consumer} got ${foreign.length} events that aren't its: ${foreign[0]}`);
  }
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
