import type { Consumer, Permission, StoredCredential } from './consumer.ts';

/** A consumer as it is shown: no hash, no secret. */
export interface ConsumerView {
  id: string;
  name: string;
  /** The active key; null where every pair was rotated out. */
  apiKey: string | null;
  permissions: Permission[];
  createdAt: string;
  updatedAt: string;
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names. */
  expiresAt: string | null;
  certificateFingerprints: string[];
  credentials: Pick<StoredCredential, 'apiKey' | 'state' | 'createdAt' | 'expiresAt'>[];
}

export function viewOfConsumer(consumer: Consumer): ConsumerView {
  const active = consumer.credentials.find(({ state }) => state === 'active');
  const { id, name, permissions, createdAt, updatedAt, rotatedAt, certificateFingerprints } = consumer;
  return {
    id,
    name,
    apiKey: active?.apiKey ?? null,
    permissions,
    createdAt,
    updatedAt,
    rotatedAt,
    expiresAt: active?.expiresAt ?? null,
    certificateFingerprints,
    credentials: consumer.credentials.map((pair) => ({
      apiKey: pair.apiKey,
      state: pair.state,
      createdAt: pair.createdAt,
      expiresAt: pair.expiresAt,
    })),
  };
}
