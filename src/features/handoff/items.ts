import { createHmac } from 'node:crypto';
import { uuidOfHash } from '../../platform/base/text.ts';
import { type KeySet, loadOrCreateKeySet } from '../../platform/secrets/key-set.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { HandoffType } from './handoff.ts';

/** Key of the External IDs of items. With another one the same item would be made a second time: it is never replaced. */
const keyName = 'keys/items';

export interface Item {
  consumerId: string;
  /** In lower case. */
  tripId: string;
  type: HandoffType;
  source: string;
  reference: string;
}

export type IdOfItem = (item: Item) => string;

/** Derives External IDs, on every replica alike. Throws `KeyUnusable`, `SecretsUnavailable`. */
export async function loadItemIds(secrets: SecretsManager): Promise<IdOfItem> {
  const keys = await loadOrCreateKeySet(secrets, keyName);
  return (item) => itemId(keys, item);
}

/** Keyed, so that nobody else can make or guess it. */
function itemId({ get, current }: KeySet, { consumerId, tripId, type, source, reference }: Item): string {
  const named = JSON.stringify([consumerId, tripId, type, source, reference]);
  return uuidOfHash(
    createHmac('sha256', get(1) ?? current.key)
      .update(named)
      .digest(),
  );
}
