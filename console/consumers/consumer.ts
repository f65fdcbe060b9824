import type { ConsumerWithUse } from '@handoff-gateway/client';
import type { RequestOptions } from '../shared/api.ts';

/** Sends a change, and resolves to the answer as text; what is shown follows, which no secret waits for. Throws what failed. */
export type Change = (path: string, options: RequestOptions) => Promise<string>;

/** A consumer as lists have it: what is used of its allowance is on its page only. */
export type Consumer = Omit<ConsumerWithUse, 'allowance'> & {
  allowance: { requests: number; per: string; used?: number; resets_at?: string } | null;
};

export const resources = ['members', 'quotes', 'bookings', 'webhooks', 'consumers'];
export const actions = ['read', 'write', 'delete'];
/** Those whose records can be those of the consumer alone, and whose hand-offs can need approval. */
export const ownable = ['quotes', 'bookings'];

/** Those whose fields a permission can name. */
export const withFields = ['members', 'quotes', 'bookings'];

export function pathOf(id: string): string {
  return `/v1/admin/consumers/${encodeURIComponent(id)}`;
}

export function statusOf({ enabled, validUntil }: Consumer): 'active' | 'disabled' | 'expired' {
  if (!enabled) return 'disabled';
  return validUntil && Date.parse(validUntil) <= Date.now() ? 'expired' : 'active';
}
