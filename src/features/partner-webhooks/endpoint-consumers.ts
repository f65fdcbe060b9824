import { type Consumer, isActive } from '../../identity/consumers/consumer.ts';
import { monotonicMs, wallMs } from '../../platform/base/chance.ts';
import { eventVisibilityOf } from '../events/event-visibility.ts';
import type { EndpointConsumers } from './delivery-queue.ts';

/** The consumers of the service, as they are now. */
export interface Owners {
  /** As it is loaded; undefined where it is not. */
  find(id: string): Consumer | undefined;
  /** Reads one that is not loaded: another process may have just made it. False where it has been revoked. Throws. */
  exists(id: string): Promise<boolean>;
}

interface EndpointConsumersOptions {
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
export function createConsumerLoader({ owners, removeAllOf, failed }: EndpointConsumersOptions) {
  const searchedAt = new Map<string, number>();

  async function search(id: string): Promise<void> {
    const now = monotonicMs();
    if (now - (searchedAt.get(id) ?? Number.NEGATIVE_INFINITY) < searchIntervalMs) return;
    searchedAt.set(id, now);
    try {
      if (!(await owners.exists(id))) await removeAllOf(id);
    } catch (err) {
      failed(err, id);
    }
  }

  return async (consumerIds: readonly string[]): Promise<EndpointConsumers> => {
    for (const id of searchedAt.keys()) if (!consumerIds.includes(id)) searchedAt.delete(id);
    for (const id of consumerIds) if (!owners.find(id)) await search(id);
    const consumers = consumerIds.map((id) => owners.find(id)).filter((found) => found !== undefined);
    // Deliveries of a consumer that is disabled or has expired wait.
    const active = consumers.filter((consumer) => isActive(consumer, wallMs()));
    return {
      visibility: consumers.map(eventVisibilityOf),
      active: active.map(({ id }) => id),
    };
  };
}
