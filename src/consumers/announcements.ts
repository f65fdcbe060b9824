import type { SharedCache } from '../cache/shared-cache.ts';
import type { Log } from '../observability/log.ts';
import { isConsumerId } from './credentials.ts';
import type { ConsumerDirectory } from './directory.ts';

/** Messages are ids of consumers and nothing else: what changed stands in the secrets manager. */
const channel = 'consumers';

/** Tells every replica that a consumer has changed. Never fails: replicas that were not told refresh by themselves. */
export type Announce = (id: string) => Promise<void>;

export function createAnnounce(cache: SharedCache | undefined, log: Log): Announce {
  return async (id) => {
    try {
      await cache?.publish(channel, id);
    } catch (err) {
      log.warn({ err, consumer_id: id }, 'a change of a consumer could not be announced to other replicas');
    }
  };
}

/**
 * Reads a consumer again when another replica has changed it, and everything after each time announcements may have
 * been missed. Returns the way to stop.
 */
export function followAnnouncements(
  cache: SharedCache,
  directory: Pick<ConsumerDirectory, 'readAgain' | 'refresh'>,
): () => void {
  return cache.subscribe(
    channel,
    (id) => {
      if (isConsumerId(id)) void directory.readAgain(id);
    },
    () => void directory.refresh(),
  );
}
