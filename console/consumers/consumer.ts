import type { RequestOptions } from '../shared/api.ts';

/** Sends a change, and resolves to the answer as text; the list follows, which no secret waits for. Throws what failed. */
export type Change = (path: string, options: RequestOptions) => Promise<string>;

/** A consumer as the admin API shows it. */
export interface Consumer {
  id: string;
  name: string;
  mode?: 'live' | 'test';
  apiKey: string | null;
  permissions: Permission[];
  createdAt: string;
  updatedAt: string;
  rotatedAt: string | null;
  expiresAt: string | null;
  enabled?: boolean;
  validUntil?: string | null;
  rateLimitPerMinute?: number | null;
  crmShare?: number | null;
  allowance?: { requests: number; per: 'day' | 'month' } | null;
  certificateNames?: string[];
  people?: { claim: string; value: string }[];
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
  approval?: boolean;
  fields?: string[];
}

export const resources = ['members', 'quotes', 'bookings', 'webhooks', 'consumers'];
export const actions = ['read', 'write', 'delete'];
/** Those whose records can be those of the consumer alone, and whose hand-offs can need approval. */
export const ownable = ['quotes', 'bookings'];

/** Those whose fields a permission can name. */
export const withFields = ['members', 'quotes', 'bookings'];

/** Why its credentials are refused at the moment; undefined where they are not. */
export function refusedBecause({ enabled, validUntil }: Consumer): string | undefined {
  if (enabled === false) return 'disabled';
  if (validUntil && Date.parse(validUntil) <= Date.now()) return 'expired';
  return undefined;
}

/** `quotes: read, write (own, with approval, only name and status)`. */
export function inShort({ resource, actions: allowed, records, approval, fields }: Permission): string {
  const bounds = [
    ...(records === 'own' ? ['own'] : []),
    ...(approval ? ['with approval'] : []),
    ...(fields ? [`only ${fields.join(' and ') || 'id'}`] : []),
  ];
  return `${resource}: ${allowed.join(', ')}${bounds.length > 0 ? ` (${bounds.join(', ')})` : ''}`;
}
