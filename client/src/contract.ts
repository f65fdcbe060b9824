import type { JsonObject } from './json.ts';
import type { AcceptedHandoff, Booking, Member, Quote, Reservation } from './types.ts';

interface EventOf<Type extends string, ResourceType extends string, Data> {
  id: string;
  type: Type;
  occurred_at: string;
  /** In webhooks only: the same as `occurred_at`. */
  timestamp?: string;
  resource: { type: ResourceType; id: string };
  data: Data;
  /** `data` is cut to the id, since it was too large. */
  data_omitted?: boolean;
}

/** A change of a record, whoever made it. Other types may be added: ignore those that you do not know. */
export type GatewayEvent =
  | EventOf<'quote.created' | 'quote.updated', 'quote', Quote>
  | EventOf<'booking.created' | 'booking.updated', 'booking', Booking>
  | EventOf<'member.created' | 'member.updated', 'member', Member>
  | EventOf<'quote.deleted', 'quote', { id: string }>
  | EventOf<'booking.deleted', 'booking', { id: string }>
  | EventOf<'member.deleted', 'member', { id: string }>
  | EventOf<'handoff.created' | 'handoff.failed', 'handoff', Omit<AcceptedHandoff, 'id'>>
  | EventOf<
      `reservation.${'confirmed' | 'cancelled' | 'failed' | 'needs_attention'}`,
      'reservation',
      Reservation
    >
  | EventOf<'webhook_endpoint.disabled', 'webhook_endpoint', WebhookEndpoint>
  | EventOf<'ping', string, JsonObject>;

export interface WebhookEndpoint {
  id: string;
  url: string;
  event_types: string[];
  description: string | null;
  enabled: boolean;
  disabled_reason: string | null;
  created_at: string;
  updated_at: string;
  last_success_at: string | null;
  last_failure_at: string | null;
}

export interface NewWebhookEndpoint {
  url: string;
  /** May end in `.*`; absent: all that the consumer may read. */
  event_types?: string[] | undefined;
  description?: string | undefined;
}

/** A delivery of an event to a webhook endpoint. */
export interface Delivery {
  id: string;
  event_id: string;
  event_type: string;
  status: 'pending' | 'delivered' | 'failed' | (string & {});
  attempts: { at: string; status: number | null; duration_ms: number; error: string | null }[];
  next_attempt_at: string | null;
}

export interface ListEventsQuery {
  limit?: number | undefined;
  cursor?: string | undefined;
  type?: string | readonly string[] | undefined;
  resource_id?: string | undefined;
  since?: string | undefined;
}

export interface ListDeliveriesQuery {
  limit?: number | undefined;
  cursor?: string | undefined;
  status?: Delivery['status'] | undefined;
  event_id?: string | undefined;
}
