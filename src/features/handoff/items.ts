import { createHmac } from 'node:crypto';
import { type KeySet, loadOrCreateKeySet } from '../../platform/secrets/key-set.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { HandoffType } from './handoff.ts';

/** Key of the External IDs of items. With another one the same item would be made a second time: it is never replaced. */
const keyName = 'keys/items';

/** An offer that a consumer has for a trip, as its source knows it. */
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

/** UUID of version 8 (RFC 9562 section 5.8), so that nobody else can make or guess it. */
function itemId({ get, current }: KeySet, { consumerId, tripId, type, source, reference }: Item): string {
  const named = JSON.stringify([consumerId, tripId, type, source, reference]);
  const bytes = createHmac('sha256', get(1) ?? current.key)
    .update(named)
    .digest();
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString('hex', 0, 16);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
