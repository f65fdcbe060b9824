import type { Consumer } from '../../identity/consumers/consumer.ts';
import { withinScopes } from '../../identity/consumers/scopes.ts';

/** Why an endpoint gets nothing: its consumer asked for that, it answered 410, or nothing but failures came for days. */
export const disabledReasons = ['requested', 'gone', 'failing'] as const;
export type DisabledReason = (typeof disabledReasons)[number];

/** Endpoints of one consumer at most. */
export const maxEndpoints = 20;

export interface Endpoint {
  id: string;
  consumer_id: string;
  url: string;
  event_types: string[];
  /** Scopes of the token that made it or changed its URL; null: a pair did. */
  scopes: string[] | null;
  description: string | null;
  enabled: boolean;
  disabled_reason: DisabledReason | null;
  created_at: Date;
  updated_at: Date;
  last_success_at: Date | null;
  last_failure_at: Date | null;
  /** `updated_at` in microseconds since 1970. */
  version: string;
}

export function viewOfEndpoint(endpoint: Endpoint): Omit<Endpoint, 'consumer_id' | 'version'> {
  const { consumer_id: _owner, version: _version, ...shown } = endpoint;
  return shown;
}

export function withinScopesOf(
  { scopes }: { scopes: readonly string[] | null },
  consumer: Consumer,
): Consumer {
  return scopes === null ? consumer : withinScopes(consumer, new Set(scopes));
}

export const deliveryStatuses = ['pending', 'delivered', 'failed'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

export interface DeliveryAttempt {
  at: string;
  /** The HTTP status; null where there was no answer. */
  status: number | null;
  duration_ms: number;
  /** The class of the failure, never what was answered; null where it was delivered. */
  error: string | null;
}

export interface Delivery {
  id: string;
  event_id: string;
  event_type: string;
  status: DeliveryStatus;
  attempts: DeliveryAttempt[];
  next_attempt_at: Date | null;
}

export const pingType = 'ping';

export function isEventFilter(filter: string, types: readonly string[]): boolean {
  if (!filter.endsWith('.*')) return types.includes(filter);
  return types.some((type) => type.startsWith(filter.slice(0, -1)));
}
