import { modeOf } from '../../platform/base/call.ts';
import { dayMs } from '../../platform/base/moment.ts';
import { type Consumer, isExpired, recordsOf, type StoredCredential } from './consumer.ts';
import { entriesOf } from './people.ts';

export const credentialStates = ['active', 'rotated', 'expired'] as const;

export const expiredListedDays = 30;

export type ConsumerView = ReturnType<typeof viewOfConsumer>;

/**
 * The consumer as it is at that moment, milliseconds since 1970. `uses`: by key and by consumer, when they were used last,
 * where that is known.
 */
export function viewOfConsumer(consumer: Consumer, now: number, uses?: ReadonlyMap<string, string>) {
  const lastUseOf = (name: string) => uses && (uses.get(name) ?? null);
  const credentials = consumer.credentials
    .filter((pair) => isStillListed(pair, now))
    .map((pair) => ({
      apiKey: pair.apiKey,
      state: isExpired(pair, now) ? ('expired' as const) : pair.state,
      createdAt: pair.createdAt,
      expiresAt: pair.expiresAt,
      lastUsedAt: lastUseOf(pair.apiKey),
    }));
  const active = credentials.find(({ state }) => state === 'active');
  const { id, name, createdAt, updatedAt, rotatedAt, certificateFingerprints } = consumer;
  return {
    id,
    name,
    mode: modeOf(id),
    apiKey: active?.apiKey ?? null,
    // One without actions is left of a caller whose token is not for it.
    permissions: consumer.permissions
      .filter(({ actions }) => actions.length > 0)
      .map((permission) => ({ ...permission, records: recordsOf(permission) })),
    createdAt,
    updatedAt,
    rotatedAt,
    expiresAt: active?.expiresAt ?? null,
    certificateFingerprints,
    ...limitsOf(consumer),
    lastUsedAt: lastUseOf(id),
    credentials,
  };
}

function limitsOf(consumer: Consumer) {
  const { enabled = true, validUntil = null, rateLimitPerMinute = null } = consumer;
  const { allowedAddresses = [], publicKeys = [], crmShare = null } = consumer;
  const { certificateNames = [], allowance = null, people = [] } = consumer;
  const limits = { enabled, validUntil, rateLimitPerMinute, allowedAddresses, publicKeys, crmShare };
  return { ...limits, certificateNames, allowance, people: entriesOf(people) };
}

export function isStillListed(pair: StoredCredential, now: number): boolean {
  return !isExpired(pair, now - expiredListedDays * dayMs);
}
