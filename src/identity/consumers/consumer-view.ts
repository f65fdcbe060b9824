import { type Consumer, isExpired, type Permission, recordsOf, type StoredCredential } from './consumer.ts';

/** A pair as it is at a moment; stored are `active` and `rotated` only. */
export const credentialStates = ['active', 'rotated', 'expired'] as const;

/** How long an expired pair is listed. */
export const expiredListedDays = 30;

/** A consumer as it is shown: no hash, no secret. */
export interface ConsumerView {
  id: string;
  name: string;
  /** The active key; null where every pair was rotated out. */
  apiKey: string | null;
  permissions: Required<Permission>[];
  createdAt: string;
  updatedAt: string;
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names. */
  expiresAt: string | null;
  certificateFingerprints: string[];
  enabled: boolean;
  validUntil: string | null;
  /** Null: the limit of the settings. */
  rateLimitPerMinute: number | null;
  allowedAddresses: string[];
  /** To the minute; null: never. */
  lastUsedAt: string | null;
  /** Without pairs that expired more than 30 days ago. */
  credentials: (Pick<StoredCredential, 'apiKey' | 'createdAt' | 'expiresAt'> & {
    state: (typeof credentialStates)[number];
    lastUsedAt: string | null;
  })[];
}

/** The consumer as it is at that moment, milliseconds since 1970; `uses`: by key and by consumer, when they were used last. */
export function viewOfConsumer(
  consumer: Consumer,
  now: number,
  uses: ReadonlyMap<string, string> = new Map(),
): ConsumerView {
  const credentials = consumer.credentials
    .filter((pair) => isStillListed(pair, now))
    .map((pair) => ({
      apiKey: pair.apiKey,
      state: isExpired(pair, now) ? ('expired' as const) : pair.state,
      createdAt: pair.createdAt,
      expiresAt: pair.expiresAt,
      lastUsedAt: uses.get(pair.apiKey) ?? null,
    }));
  const active = credentials.find(({ state }) => state === 'active');
  const { id, name, createdAt, updatedAt, rotatedAt, certificateFingerprints } = consumer;
  return {
    id,
    name,
    apiKey: active?.apiKey ?? null,
    permissions: consumer.permissions.map((permission) => ({
      ...permission,
      records: recordsOf(permission),
    })),
    createdAt,
    updatedAt,
    rotatedAt,
    expiresAt: active?.expiresAt ?? null,
    certificateFingerprints,
    ...limitsOf(consumer),
    lastUsedAt: uses.get(id) ?? null,
    credentials,
  };
}

/** What is not set shows as its default. */
function limitsOf(consumer: Consumer) {
  const { enabled = true, validUntil = null, rateLimitPerMinute = null, allowedAddresses = [] } = consumer;
  return { enabled, validUntil, rateLimitPerMinute, allowedAddresses };
}

/** Whether the pair is valid, or has expired lately enough to be shown. */
export function isStillListed(pair: StoredCredential, now: number): boolean {
  return !isExpired(pair, now - expiredListedDays * 86_400_000);
}
