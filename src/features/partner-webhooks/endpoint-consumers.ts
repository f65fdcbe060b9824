import { type Consumer, isActive } from '../../identity/consumers/consumer.ts';
import { monotonicMs, wallMs } from '../../platform/base/chance.ts';
import { eventVisibilityOf } from '../events/event-visibility.ts';
import type { EndpointConsumers, EndpointViewer } from './delivery-queue.ts';
import { withinScopesOf } from './endpoint.ts';

export interface Owners {
  catchUp(): Promise<void> | undefined;
  /** As it is loaded; undefined where it is not. */
  find(id: string): Consumer | undefined;
  /** Reads one that is not loaded: another process may have just made it. False where it has been revoked. Throws. */
  exists(id: string): Promise<boolean>;
}

/** A consumer that is not loaded is looked for this often, in milliseconds: it may be broken, or the secrets manager unavailable. */
const searchIntervalMs = 10_000;

/**
 * Loads the viewers whose consumers are there, by their permissions now. Endpoints of a consumer that is not known wait while it
 * is looked for; those of one that was revoked go.
 */
export function createConsumerLoader({
  owners,
  removeAllOf,
  failed,
}: {
  owners: Owners;
  removeAllOf(consumerId: string): Promise<void>;
  failed(err: unknown, consumerId: string): void;
}) {
  const searchedAt = new Map<string, number>();
  let searching: Promise<void> | undefined;

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

  async function searchAll(ids: readonly string[]): Promise<void> {
    for (const id of ids) await search(id);
  }

  return async (viewers: readonly EndpointViewer[]): Promise<EndpointConsumers> => {
    await owners.catchUp();
    const consumerIds = new Set(viewers.map(({ consumer_id }) => consumer_id));
    for (const id of searchedAt.keys()) if (!consumerIds.has(id)) searchedAt.delete(id);
    const unknown = [...consumerIds].filter((id) => !owners.find(id));
    // Not awaited: while the secrets manager hangs, it would hold up deliveries to all others.
    searching ??= searchAll(unknown).finally(() => {
      searching = undefined;
    });
    const found = viewers.flatMap(({ viewer, consumer_id, scopes }) => {
      const consumer = owners.find(consumer_id);
      return consumer === undefined ? [] : [{ viewer, consumer, scopes }];
    });
    // Deliveries of a consumer that is disabled or has expired wait.
    const active = found.filter(({ consumer }) => isActive(consumer, wallMs()));
    return {
      visibility: found.map(({ viewer, consumer, scopes }) => ({
        viewer,
        ...eventVisibilityOf(withinScopesOf({ scopes }, consumer)),
      })),
      active: active.map(({ viewer }) => viewer),
    };
  };
}
