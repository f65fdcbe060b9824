import { allows, type Consumer, isActive, permissionResources } from '../../identity/consumers/consumer.ts';
import { visibleRecords } from '../../identity/consumers/visible-records.ts';
import type { Audience, Grant } from './delivery-queue.ts';

/** The consumers of the service, as they are now. */
export interface Owners {
  /** As it is loaded; undefined where it is not. */
  find(id: string): Consumer | undefined;
  /** Reads one that is not loaded: another process may have just made it. False where it has been revoked. Throws. */
  exists(id: string): Promise<boolean>;
}

/** Which events a consumer may see. */
export function grantsOf(consumer: Consumer): Grant[] {
  const resources = permissionResources.filter((resource) => allows(consumer, resource, 'read'));
  return resources.map((resource) => {
    const own = visibleRecords(consumer, resource) !== 'all';
    return { consumer_id: consumer.id, resource, own };
  });
}

export interface AudienceOptions {
  owners: Owners;
  /** Removes all that there is of a consumer that was revoked. */
  removeAllOf(consumerId: string): Promise<void>;
  /** Notes that a consumer could not be read. */
  failed(err: unknown, consumerId: string): void;
}

/** A consumer that is not loaded is looked for so often, in milliseconds: it may be broken, or the secrets manager unavailable. */
const searchIntervalMs = 10_000;

/**
 * Those of the consumers that are there, by their permissions now. Endpoints of one that is not known wait; those of one
 * that was revoked go.
 */
export function createAudiences({ owners, removeAllOf, failed }: AudienceOptions) {
  const searchedAt = new Map<string, number>();

  async function search(id: string): Promise<void> {
    const now = performance.now();
    if (now - (searchedAt.get(id) ?? Number.NEGATIVE_INFINITY) < searchIntervalMs) return;
    searchedAt.set(id, now);
    try {
      if (!(await owners.exists(id))) await removeAllOf(id);
    } catch (err) {
      failed(err, id);
    }
  }

  return async (consumerIds: readonly string[]): Promise<Audience> => {
    for (const id of searchedAt.keys()) if (!consumerIds.includes(id)) searchedAt.delete(id);
    for (const id of consumerIds) if (!owners.find(id)) await search(id);
    const consumers = consumerIds.map((id) => owners.find(id)).filter((found) => found !== undefined);
    // Deliveries of a consumer that is disabled or has expired wait.
    const active = consumers.filter((consumer) => isActive(consumer, Date.now()));
    return {
      grants: consumers.flatMap(grantsOf),
      known: consumers.map(({ id }) => id),
      active: active.map(({ id }) => id),
    };
  };
}
