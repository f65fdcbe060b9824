/** A consumer as the admin API shows it. */
export interface Consumer {
  id: string;
  name: string;
  apiKey: string | null;
  permissions: Permission[];
  createdAt: string;
  updatedAt: string;
  rotatedAt: string | null;
  expiresAt: string | null;
  enabled?: boolean;
  validUntil?: string | null;
  rateLimitPerMinute?: number | null;
  allowedAddresses?: string[];
  lastUsedAt?: string | null;
  credentials: {
    apiKey: string;
    state: string;
    createdAt: string;
    expiresAt: string | null;
    lastUsedAt?: string | null;
  }[];
}

export interface Permission {
  resource: string;
  actions: string[];
  records?: 'all' | 'own';
}

export const resources = ['members', 'quotes', 'bookings', 'webhooks', 'consumers'];
export const actions = ['read', 'write', 'delete'];
/** Those whose records can be those of the consumer alone. */
export const ownable = ['quotes', 'bookings'];

/** Why its credentials are refused at the moment; undefined where they are not. */
export function refusedBecause({ enabled, validUntil }: Consumer): string | undefined {
  if (enabled === false) return 'disabled';
  if (validUntil && Date.parse(validUntil) <= Date.now()) return 'expired';
  return undefined;
}

/** `quotes: read, write (own)`. */
export function inShort({ resource, actions: allowed, records }: Permission): string {
  return `${resource}: ${allowed.join(', ')}${records === 'own' ? ' (own)' : ''}`;
}
