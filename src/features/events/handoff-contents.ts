import { maxPageBytes } from '../../api/routes/page.ts';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { defineOffer } from '../../platform/base/offers.ts';
import type { Contents, EventFeed, StoredEvent } from './event-feed.ts';

/** Finds what these hand-offs hold, as far as the consumer may see it now. Throws `store_unavailable`. */
export type FindContents = (
  ids: readonly string[],
  consumer: Consumer,
  maxBytes: number,
) => Promise<Contents>;

export const handoffContents = defineOffer<FindContents>('what hand-offs hold');

const none: Contents = new Map();

/**
 * Finds the records of hand-offs among the events, or what is still to be written: JSON text; null where there is none, undefined
 * for events that no longer fit on the page. Throws `store_unavailable`.
 */
export async function contentsOf(
  events: readonly StoredEvent[],
  consumer: Consumer,
  { feed, findHeld }: { feed: EventFeed; findHeld: FindContents | undefined },
): Promise<(event: StoredEvent) => string | null | undefined> {
  const ids = [...new Set(events.filter(isOfHandoff).map((event) => event.resource_id))];
  if (ids.length === 0) return () => null;
  const [made, held = none] = await Promise.all([
    feed.newestRecords(ids, consumer, maxPageBytes),
    findHeld?.(ids, consumer, maxPageBytes),
  ]);
  return (event) => {
    const { type, resource_id: id } = event;
    if (!isOfHandoff(event)) return null;
    // A repeat of one that is done may hold something else by now.
    const contents = type !== 'handoff.created' && held.has(id) ? held : made;
    return contents.has(id) ? contents.get(id) : null;
  };
}

export function isOfHandoff({ resource_type }: Pick<StoredEvent, 'resource_type'>): boolean {
  return resource_type === 'handoff';
}
