// Made from the OpenAPI document by scripts/generate-openapi.ts: npm run openapi
import type { JsonObject } from './json.ts';

/** A hand-off that was answered 202. */
export interface AcceptedHandoff {
  /** External ID of the hand-off, and of its record in the CRM. */
  external_id: string;
  /** What the result becomes. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
  type: 'quote' | 'booking' | (string & {});
  /** `accepted`: it waits, or is being delivered. `created`: the CRM has the record. `failed`: the CRM refuses it, as `problem` says. `cancelled`: it is not delivered. Known values: `accepted`, `created`, `failed`, `cancelled`. Others may be added; treat an unknown one as such. */
  status: 'accepted' | 'created' | 'failed' | 'cancelled' | (string & {});
  /** The CRM's own identifier of the record; null until it is created. */
  id: string | null;
  /** A problem document, as the hand-off would have been answered. */
  problem: {
    /** Path of the page that explains the problem. */
    type: string;
    /** The kind of problem. */
    title: string;
    /** The HTTP status that it stands for. */
    status: number;
    /** What is wrong. */
    detail: string;
    /** The stable name of the problem. */
    code: string;
    /** The X-Request-Id of the hand-off. */
    request_id: string;
  } | null;
  /** How often it was tried to deliver it. */
  attempts: number;
  /** When it was stored. */
  accepted_at: string;
  /** When it was created, failed or cancelled. */
  completed_at: string | null;
}

export interface Activity {
  interval_seconds: number;
  series: Series[];
}

/** A change of a consumer. */
export interface AuditEvent {
  /** Id of the event. */
  id: string;
  timestamp: string;
  /** What was done. Where `enabled` changes with other fields, that is the action. Known values: `consumer.created`, `consumer.updated`, `consumer.rotated`, `consumer.disabled`, `consumer.enabled`, `consumer.revoked`. Others may be added; treat an unknown one as such. */
  action: 'consumer.created' | 'consumer.updated' | 'consumer.rotated' | 'consumer.disabled' | 'consumer.enabled' | 'consumer.revoked' | (string & {});
  /** Who did it. */
  actor: {
    /** `service`: the first start, which makes two consumers. Known values: `consumer`, `command_line`, `service`. Others may be added; treat an unknown one as such. */
    type: 'consumer' | 'command_line' | 'service' | (string & {});
    /** Id of the consumer; the name of the user of the operating system; `service`. */
    id: string;
    /** Its name. */
    name: string;
    /** The person whom X-Actor named. */
    person: string | null;
  };
  /** The consumer. */
  target: {
    /** Id of the consumer. */
    id: string;
    /** Its name then. */
    name: string;
  };
  /** Address of the request; null without one. */
  address: string | null;
  /** What the client called itself. */
  user_agent: string | null;
  /** The X-Request-Id of the request. */
  request_id: string | null;
  /** The fields that were changed; never a secret. */
  changes: ({
    /** Name of the field. */
    field: string;
    /** Its value before; null for a new consumer. */
    from: null | boolean | number | string | (string | JsonObject)[] | JsonObject;
    /** Its value since. */
    to: null | boolean | number | string | (string | JsonObject)[] | JsonObject;
  })[];
}

/** A page of changes of consumers. */
export interface AuditEventPage {
  data: AuditEvent[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** An attempt to authenticate, accepted or not. */
export interface AuthenticationAttempt {
  /** Id of the consumer. */
  consumer_id: string | null;
  /** Method and route pattern. */
  endpoint: string;
  /** Known values: `accepted`, `missing`, `unknown_key`, `wrong_secret`, `expired`, `revoked`, `disabled`, `certificate`, `address`, `permission_denied`. Others may be added; treat an unknown one as such. */
  result: 'accepted' | 'missing' | 'unknown_key' | 'wrong_secret' | 'expired' | 'revoked' | 'disabled' | 'certificate' | 'address' | 'permission_denied' | (string & {});
  timestamp: string;
  /** The X-Request-Id of the request. */
  request_id: string;
  /** Address of the caller; null in a sum of many addresses, and in attempts that earlier versions recorded. */
  address: string | null;
  /** The User-Agent header, at most 255 characters; null where none was sent. */
  user_agent: string | null;
  /** The API key that was presented, of what is no API key the beginning; null where none was. */
  api_key: string | null;
  /** HTTP status of the answer; null in attempts that earlier versions recorded. */
  status: number | null;
  /** How many attempts this stands for. More than 1 where an address failed more often than the limit, or a consumer was refused (403, 429), or needed no credentials, more than 60 times a minute: attempts beyond it are one entry for each minute and result, and the other fields are of the first of them. */
  count: number;
}

/** A page of authentication attempts. */
export interface AuthenticationAttemptPage {
  data: AuthenticationAttempt[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** A booking. */
export interface Booking {
  /** External ID of the record, made by the service. */
  id: string;
  /** The trip it belongs to. */
  trip_id: string | null;
  /** External ID of the member. */
  member_id: string | null;
  /** What was chosen, for people. */
  name: string | null;
  /** The supplier that it came from. */
  source: string | null;
  /** The search result itself, whatever it holds. */
  details: JsonObject | null;
  /** `created` at first, then whatever the CRM says. */
  status: string | null;
  /** Who made it through the API; null where it was made in another way. */
  created_by: {
    /** Id of the consumer that made the record. */
    consumer_id: string;
    /** Name of that consumer when it made the record. */
    consumer_name: string | null;
    /** The person who acted at the consumer, as X-Actor named them; null where it was not sent. */
    actor: string | null;
  } | null;
  /** When the CRM made the record. */
  created_at: string | null;
  /** When the CRM last changed the record. */
  updated_at: string | null;
}

export interface BookingChange {
  /** The trip it belongs to. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** What was chosen, for people. */
  name?: string | undefined;
  /** The supplier that it came from. */
  source?: string | undefined;
  /** The search result itself, whatever it holds. */
  details?: JsonObject | undefined;
}

/** A page of bookings. */
export interface BookingPage {
  data: Booking[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** A consumer of the API. Nothing here is secret. */
export interface Consumer {
  /** Id of the consumer. */
  id: string;
  /** Name of the consumer. */
  name: string;
  /** The active API key; null where every pair was rotated out. */
  apiKey: string | null;
  /** What the consumer may do. */
  permissions: ({
    /** Known values: `members`, `quotes`, `bookings`, `consumers`, `webhooks`. Others may be added; treat an unknown one as such. */
    resource: 'members' | 'quotes' | 'bookings' | 'consumers' | 'webhooks' | (string & {});
    actions: ('read' | 'write' | 'delete' | (string & {}))[];
    /** `own`: records that this consumer made, and no others; on quotes and bookings only. Reservations follow bookings. Known values: `all`, `own`. Others may be added; treat an unknown one as such. */
    records: 'all' | 'own' | (string & {});
  })[];
  createdAt: string;
  updatedAt: string;
  /** When its credentials were rotated last. */
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names; null while it is active. */
  expiresAt: string | null;
  /** SHA-256 of client certificates in lower-case hex. */
  certificateFingerprints: string[];
  /** False: its credentials are refused, until it is true again. */
  enabled: boolean;
  /** From then on its credentials are refused; null: never. */
  validUntil: string | null;
  /** Requests within 60 seconds; null: the limit of the settings. */
  rateLimitPerMinute: number | null;
  /** IPv4 and IPv6 addresses and blocks of them that it may call from; none: any. From elsewhere the answer is 403 `address_not_allowed`. */
  allowedAddresses: string[];
  /** When its credentials were used last, on any replica, to the minute; null: never. */
  lastUsedAt: string | null;
  /** Every pair that is valid, and those that expired in the last 30 days. */
  credentials: ({
    apiKey: string;
    /** `rotated` is valid until `expiresAt`, `expired` is refused. Known values: `active`, `rotated`, `expired`. Others may be added; treat an unknown one as such. */
    state: 'active' | 'rotated' | 'expired' | (string & {});
    createdAt: string;
    /** From then on the pair is refused; null while it is active. */
    expiresAt: string | null;
    /** When its credentials were used last, on any replica, to the minute; null: never. */
    lastUsedAt: string | null;
  })[];
}

/** A page of consumers. */
export interface ConsumerPage {
  data: Consumer[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** A consumer with its first pair. */
export interface CreatedConsumer {
  /** Id of the consumer. */
  id: string;
  /** Name of the consumer. */
  name: string;
  apiKey: string;
  /** What the consumer may do. */
  permissions: ({
    /** Known values: `members`, `quotes`, `bookings`, `consumers`, `webhooks`. Others may be added; treat an unknown one as such. */
    resource: 'members' | 'quotes' | 'bookings' | 'consumers' | 'webhooks' | (string & {});
    actions: ('read' | 'write' | 'delete' | (string & {}))[];
    /** `own`: records that this consumer made, and no others; on quotes and bookings only. Reservations follow bookings. Known values: `all`, `own`. Others may be added; treat an unknown one as such. */
    records: 'all' | 'own' | (string & {});
  })[];
  createdAt: string;
  updatedAt: string;
  /** When its credentials were rotated last. */
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names; null while it is active. */
  expiresAt: string | null;
  /** SHA-256 of client certificates in lower-case hex. */
  certificateFingerprints: string[];
  /** False: its credentials are refused, until it is true again. */
  enabled: boolean;
  /** From then on its credentials are refused; null: never. */
  validUntil: string | null;
  /** Requests within 60 seconds; null: the limit of the settings. */
  rateLimitPerMinute: number | null;
  /** IPv4 and IPv6 addresses and blocks of them that it may call from; none: any. From elsewhere the answer is 403 `address_not_allowed`. */
  allowedAddresses: string[];
  /** When its credentials were used last, on any replica, to the minute; null: never. */
  lastUsedAt: string | null;
  /** Every pair that is valid, and those that expired in the last 30 days. */
  credentials: ({
    apiKey: string;
    /** `rotated` is valid until `expiresAt`, `expired` is refused. Known values: `active`, `rotated`, `expired`. Others may be added; treat an unknown one as such. */
    state: 'active' | 'rotated' | 'expired' | (string & {});
    createdAt: string;
    /** From then on the pair is refused; null while it is active. */
    expiresAt: string | null;
    /** When its credentials were used last, on any replica, to the minute; null: never. */
    lastUsedAt: string | null;
  })[];
  /** The API secret. It is shown this one time and not stored. */
  apiSecret: string;
}

/** A webhook endpoint with its secret. */
export interface CreatedWebhookEndpoint {
  /** Id of the webhook endpoint. */
  id: string;
  /** Where events are sent to: https, port 443, 80 or from 1024, no user name, a host with public addresses only. */
  url: string;
  /** Types of events to send, each perhaps with `.*` at its end. Empty: all that the consumer may read when they are sent. */
  event_types: string[];
  /** For people. */
  description: string | null;
  /** Whether events are sent to it. */
  enabled: boolean;
  /** Known values: `requested`, `gone`, `failing`. Others may be added; treat an unknown one as such. */
  disabled_reason: 'requested' | 'gone' | 'failing' | (string & {}) | null;
  created_at: string;
  updated_at: string;
  /** When an attempt last succeeded. */
  last_success_at: string | null;
  /** When an attempt last failed. */
  last_failure_at: string | null;
  /** Signs the deliveries, as Standard Webhooks has it. It is shown this one time. */
  secret: string;
}

/** Something that happened to a resource. */
export interface Event {
  /** The same wherever the event is seen: whoever has seen it leaves a repeat out. */
  id: string;
  /** What has happened. Known values: `quote.created`, `quote.updated`, `quote.deleted`, `booking.created`, `booking.updated`, `booking.deleted`, `member.created`, `member.updated`, `member.deleted`, `handoff.created`, `handoff.failed`, `reservation.confirmed`, `reservation.cancelled`, `reservation.failed`, `reservation.needs_attention`, `webhook_endpoint.disabled`. Others may be added; treat an unknown one as such. */
  type: 'quote.created' | 'quote.updated' | 'quote.deleted' | 'booking.created' | 'booking.updated' | 'booking.deleted' | 'member.created' | 'member.updated' | 'member.deleted' | 'handoff.created' | 'handoff.failed' | 'reservation.confirmed' | 'reservation.cancelled' | 'reservation.failed' | 'reservation.needs_attention' | 'webhook_endpoint.disabled' | (string & {});
  /** When it happened; for records of the CRM a whole second. It gives no order: the feed does. */
  occurred_at: string;
  /** What it happened to. */
  resource: {
    /** Type of the resource. */
    type: string;
    /** Its id. */
    id: string;
  };
  /** The resource as it was then, as GET shows it; only its `id` once it is deleted. */
  data: JsonObject;
  /** True where the data is left out, for being too long or erased: read the resource. */
  data_omitted?: boolean | undefined;
}

/** A page of events. The last one has a `next_cursor`, too. */
export interface EventPage {
  data: Event[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** A place where the request is at fault, named by one of `pointer`, `parameter` and `header`. */
export interface Fault {
  /** The field of the body: a JSON Pointer as URI fragment (RFC 6901). Empty if an error of the CRM is about no field of this API. */
  pointer?: string | undefined;
  /** Name of a path or query parameter. */
  parameter?: string | undefined;
  /** Name of a header. */
  header?: string | undefined;
  /** What is wrong there. */
  message: string;
}

export interface Handoff {
  /** What the result becomes in the CRM. */
  type: 'quote' | 'booking';
  /** The trip it belongs to. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** The search result that was chosen. */
  result: {
    /** What was chosen, for people. */
    name: string;
    /** The supplier that it came from. */
    source: string;
    /** The search result itself, whatever it holds. */
    details: JsonObject;
  };
}

export interface HandoffAcceptance {
  /** What the result becomes. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
  type: 'quote' | 'booking' | (string & {});
  /** It is stored, and delivered to the CRM. Known values: `accepted`. Others may be added; treat an unknown one as such. */
  status: 'accepted' | (string & {});
  /** External ID of the record, made by the service. */
  external_id: string;
}

export interface HandoffConfirmation {
  /** The CRM's own identifier of the record. */
  id: string;
  /** What the result became. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
  type: 'quote' | 'booking' | (string & {});
  /** What happened. Known values: `created`. Others may be added; treat an unknown one as such. */
  status: 'created' | (string & {});
  /** External ID of the record, made by the service. */
  external_id: string;
}

/** A page of hand-offs. */
export interface HandoffPage {
  data: AcceptedHandoff[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

export interface Health {
  /** Whether the service can work. Known values: `ok`, `unavailable`. Others may be added; treat an unknown one as such. */
  status: 'ok' | 'unavailable' | (string & {});
  crm: {
    connected: boolean;
    /** Null while not connected. */
    user: {
      /** The CRM's identifier of the integration user. */
      Id: string;
      /** Name of the integration user. */
      Name: string;
    } | null;
    /** What its operator has to fix so that the CRM gives the service access; else absent. */
    reason?: string | undefined;
    /** Fields that the org does not have, and what to do; the service works without. Else absent. */
    lacks?: string | undefined;
    /** Use of the daily quota of CRM calls, once the CRM has reported it. */
    quota?: {
      /** Calls of the org in 24 hours. */
      used: number;
      /** Calls that it may make. */
      limit: number;
      /** Calls that the service may make, where a budget is set. */
      budget?: number | undefined;
      /** Calls that it has made in 24 hours, of all replicas. */
      budget_used?: number | undefined;
    } | undefined;
  };
  /** Where consumers and keys come from. */
  secretsManager: {
    connected: boolean;
  };
  /** Where idempotency keys are remembered. */
  database: {
    connected: boolean;
  };
  /** What all replicas share for speed. */
  cache: {
    connected: boolean;
  };
  /** Hand-offs that were answered 202 and are not delivered yet. */
  handoffs: {
    /** False where the database cannot be asked. */
    connected: boolean;
    /** Accepted hand-offs that wait for the CRM. */
    waiting?: number | undefined;
    /** How long the first of them has waited. */
    oldest_seconds?: number | undefined;
  };
}

/** A member. */
export interface Member {
  /** External ID of the member. */
  id: string;
  /** Given name. */
  first_name: string | null;
  /** Family name. */
  last_name: string | null;
  /** Address for mail. */
  email: string | null;
  /** Telephone number. */
  phone: string | null;
  /** When the CRM made the record. */
  created_at: string | null;
  /** When the CRM last changed the record. */
  updated_at: string | null;
}

/** A page of members. */
export interface MemberPage {
  data: Member[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

export interface MemberWebhook {
  /** What happened: member.created, member.updated, member.deleted. Others are kept and ignored. */
  type: string;
  /** When it happened, RFC 3339. */
  timestamp: string;
  /** What it happened to. */
  data: {
    /** External ID of the member, a UUID; the three types above need it. */
    external_id?: string | undefined;
  };
}

export interface NewBooking {
  /** The trip it belongs to. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** What was chosen, for people. */
  name: string;
  /** The supplier that it came from. */
  source: string;
  /** The search result itself, whatever it holds. */
  details: JsonObject;
}

export interface NewQuote {
  /** The trip it belongs to. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** What was chosen, for people. */
  name: string;
  /** The supplier that it came from. */
  source: string;
  /** The search result itself, whatever it holds. */
  details: JsonObject;
}

export interface NewReservation {
  /** The trip it belongs to. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** What was chosen, for people. */
  name: string;
  /** The table that is wanted. */
  dining: {
    /** The restaurant, as the partner calls it. */
    merchant_id: string;
    /** What is booked there. */
    service_id: string;
    /** When the table is wanted: RFC 3339 in UTC (it ends in Z), whole seconds. */
    start_at: string;
    /** How many guests. */
    party_size: number;
    /** How long the table is kept. */
    duration_minutes?: number | undefined;
    /** In whose name the table is. */
    guest: {
      /** Given name. */
      given_name: string;
      /** Family name. */
      family_name: string;
      /** Where the partner writes to. */
      email: string;
      /** Telephone number: + and digits, with the country code. */
      phone: string;
    };
  };
  /** The search result itself, whatever it holds. */
  details?: JsonObject | undefined;
}

export interface NewWebhookEndpoint {
  /** Where events are sent to: https, port 443, 80 or from 1024, no user name, a host with public addresses only. */
  url: string;
  /** Types of events to send, each perhaps with `.*` at its end. Empty: all that the consumer may read when they are sent. */
  event_types?: string[] | undefined;
  /** For people. */
  description?: string | null | undefined;
}

/** A problem document (RFC 9457). Programs go by `code`; the texts are for people. */
export interface Problem {
  /** Path of the page that explains the problem; follows from `code`. */
  type: string;
  /** The kind of problem, the same each time. */
  title: string;
  /** The HTTP status. */
  status: number;
  /** What is wrong this time. */
  detail: string;
  /** The stable name of the problem, for programs. Others may be added; treat an unknown one by its status. */
  code: 'invalid_request' | 'malformed_json' | 'idempotency_key_missing' | 'idempotency_key_invalid' | 'invalid_cursor' | 'cursor_expired' | 'invalid_credentials' | 'permission_denied' | 'address_not_allowed' | 'not_found' | 'method_not_allowed' | 'idempotency_in_progress' | 'conflict' | 'precondition_failed' | 'payload_too_large' | 'unsupported_media_type' | 'idempotency_key_reused' | 'member_not_found' | 'details_too_large' | 'crm_rejected' | 'partner_rejected' | 'rate_limited' | 'internal_error' | 'crm_error' | 'partner_error' | 'crm_unavailable' | 'crm_quota_exhausted' | 'partner_unavailable' | 'store_unavailable' | 'secrets_unavailable' | 'crm_timeout' | 'partner_timeout' | (string & {});
  /** Id of the request, as it stands in the log. */
  request_id: string;
  /** Where the request is at fault. */
  errors?: Fault[] | undefined;
  /** The permission that is missing. */
  required?: {
    /** On what, for example `quotes`. */
    resource: string;
    /** `read`, `write` or `delete`. */
    action: string;
  } | undefined;
  /** The partner's own word for its refusal, for example `SLOT_UNAVAILABLE`. */
  cause?: string | undefined;
  /** Seconds after which a repeat may help. */
  retry_after?: number | undefined;
  /** After a write without Idempotency-Key whose outcome is not known: the record to look for before sending it again. */
  external_id?: string | undefined;
}

/** A quote. */
export interface Quote {
  /** External ID of the record, made by the service. */
  id: string;
  /** The trip it belongs to. */
  trip_id: string | null;
  /** External ID of the member. */
  member_id: string | null;
  /** What was chosen, for people. */
  name: string | null;
  /** The supplier that it came from. */
  source: string | null;
  /** The search result itself, whatever it holds. */
  details: JsonObject | null;
  /** `created` at first, then whatever the CRM says. */
  status: string | null;
  /** Who made it through the API; null where it was made in another way. */
  created_by: {
    /** Id of the consumer that made the record. */
    consumer_id: string;
    /** Name of that consumer when it made the record. */
    consumer_name: string | null;
    /** The person who acted at the consumer, as X-Actor named them; null where it was not sent. */
    actor: string | null;
  } | null;
  /** When the CRM made the record. */
  created_at: string | null;
  /** When the CRM last changed the record. */
  updated_at: string | null;
}

export interface QuoteChange {
  /** The trip it belongs to. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** What was chosen, for people. */
  name?: string | undefined;
  /** The supplier that it came from. */
  source?: string | undefined;
  /** The search result itself, whatever it holds. */
  details?: JsonObject | undefined;
}

/** A page of quotes. */
export interface QuotePage {
  data: Quote[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** A table, and the booking of it in the CRM. */
export interface Reservation {
  /** Id of the reservation, and External ID of its booking in the CRM. */
  id: string;
  /** `pending`: it is being made, or the partner decides later. `confirmed`: table and CRM booking exist and refer to each other. `failed`: the partner decided against it. `needs_attention`: the operator has to look. Known values: `pending`, `confirmed`, `cancelled`, `failed`, `needs_attention`. Others may be added; treat an unknown one as such. */
  status: 'pending' | 'confirmed' | 'cancelled' | 'failed' | 'needs_attention' | (string & {});
  /** The trip it belongs to. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** What was chosen, for people. */
  name: string;
  /** Its record in the CRM. */
  booking: {
    /** External ID of the booking in the CRM. */
    id: string;
    /** What the CRM says; null where there is no booking, `unknown` while the CRM cannot be asked. */
    status: string | null;
  };
  /** The table. */
  dining: {
    /** The partner that has the table. */
    partner: string;
    /** What the partner knows the table by; null where there is none. */
    booking_id: string | null;
    /** Known values: `pending`, `confirmed`, `cancelled`, `failed`, `unknown`. Others may be added; treat an unknown one as such. */
    status: 'pending' | 'confirmed' | 'cancelled' | 'failed' | 'unknown' | (string & {}) | null;
    /** When the table is wanted: RFC 3339 in UTC (it ends in Z), whole seconds. */
    start_at: string;
    /** How many guests. */
    party_size: number;
  };
  /** Who made it through the API; null where it was made in another way. */
  created_by: {
    /** Id of the consumer that made the record. */
    consumer_id: string;
    /** Name of that consumer when it made the record. */
    consumer_name: string | null;
    /** The person who acted at the consumer, as X-Actor named them; null where it was not sent. */
    actor: string | null;
  } | null;
  /** When it was ordered. */
  created_at: string;
  /** When the service last changed it. */
  updated_at: string;
  /** Only where the personal data is erased: when that was. `name` is `(erased)` then. */
  erased_at?: string | undefined;
}

/** A page of reservations. */
export interface ReservationPage {
  data: Reservation[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** The new pair, and until when the old one is valid. */
export interface Rotation {
  /** Id of the consumer. */
  id: string;
  apiKey: string;
  /** The API secret. It is shown this one time and not stored. */
  apiSecret: string;
  rotatedAt: string;
  /** The pair that was active before. */
  previous: {
    apiKey: string;
    expiresAt: string;
  } | null;
}

export interface Series {
  /** What was counted. */
  name: string;
  /** What a value of 1 means. */
  unit: string;
  /** Oldest first. An interval of which nothing is known is left out. */
  points: ((string | number)[])[];
}

/** Whether a table is free. */
export interface TableAvailability {
  /** Whether the table is free now. */
  available: boolean;
  /** Times within an hour and a half at which such a table is free, the nearest first. Empty where it is available itself. */
  alternatives: string[];
}

/** An event on its way to an endpoint. */
export interface WebhookDelivery {
  /** Id of the delivery. */
  id: string;
  /** Id of the event, and `webhook-id` of its deliveries. */
  event_id: string;
  /** Type of the event. */
  event_type: string;
  /** `pending` is sent, or sent again, by itself; the others are not. Known values: `pending`, `delivered`, `failed`. Others may be added; treat an unknown one as such. */
  status: 'pending' | 'delivered' | 'failed' | (string & {});
  /** The last 50, oldest first. */
  attempts: ({
    /** When it began. */
    at: string;
    /** HTTP status; null: there was no answer. */
    status: number | null;
    /** How long it took. */
    duration_ms: number;
    /** Class of the failure: `http_` and the status, `dns`, `blocked_address`, `tls`, `timeout`, `connection`, `no_secret`, or `not_permitted` where the consumer may not read the event any more. Null: delivered. */
    error: string | null;
  })[];
  /** When it is sent next; null where it is not. */
  next_attempt_at: string | null;
}

/** A page of deliveries. */
export interface WebhookDeliveryPage {
  data: WebhookDelivery[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** Where a consumer wants events sent to. Nothing here is secret. */
export interface WebhookEndpoint {
  /** Id of the webhook endpoint. */
  id: string;
  /** Where events are sent to: https, port 443, 80 or from 1024, no user name, a host with public addresses only. */
  url: string;
  /** Types of events to send, each perhaps with `.*` at its end. Empty: all that the consumer may read when they are sent. */
  event_types: string[];
  /** For people. */
  description: string | null;
  /** Whether events are sent to it. */
  enabled: boolean;
  /** Known values: `requested`, `gone`, `failing`. Others may be added; treat an unknown one as such. */
  disabled_reason: 'requested' | 'gone' | 'failing' | (string & {}) | null;
  created_at: string;
  updated_at: string;
  /** When an attempt last succeeded. */
  last_success_at: string | null;
  /** When an attempt last failed. */
  last_failure_at: string | null;
}

export interface WebhookEndpointChange {
  /** Where events are sent to: https, port 443, 80 or from 1024, no user name, a host with public addresses only. */
  url?: string | undefined;
  /** Types of events to send, each perhaps with `.*` at its end. Empty: all that the consumer may read when they are sent. */
  event_types?: string[] | undefined;
  /** For people. */
  description?: string | null | undefined;
  /** False stops all that waits; true brings it back for events from then on. */
  enabled?: boolean | undefined;
}

/** A page of webhook endpoints. */
export interface WebhookEndpointPage {
  data: WebhookEndpoint[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

export interface WebhookReceipt {
  /** `duplicate`: a webhook with this id had been accepted before. Known values: `accepted`, `duplicate`. Others may be added; treat an unknown one as such. */
  status: 'accepted' | 'duplicate' | (string & {});
}

export interface WebhookRecovery {
  /** How many events are sent again. */
  deliveries: number;
}

export interface WebhookRecoveryRequest {
  /** Events that were recorded earlier are left out. */
  since: string;
}

/** The new secret. */
export interface WebhookSecretRotation {
  /** Signs the deliveries, as Standard Webhooks has it. It is shown this one time. */
  secret: string;
  /** Until then the secrets before it sign too. */
  previous_expires_at: string;
}

export interface WebhookSecretRotationRequest {
  /** How long the secrets until now sign too, fractions allowed; 0 ends them at once. */
  grace_window_hours?: number | undefined;
}

export interface WebhookTest {
  /** Id of the event, and `webhook-id` of its deliveries. */
  event_id: string;
}

interface EventOf<Type extends string, ResourceType extends string, Data>
  extends Omit<Event, 'type' | 'resource' | 'data'> {
  type: Type;
  resource: { type: ResourceType; id: string };
  data: Data;
  /** In webhooks only: the same as `occurred_at`. */
  timestamp?: string;
}

/** Something that happened, whoever did it. Other types may be added: ignore those that you do not know. */
export type GatewayEvent =
  | EventOf<'quote.created' | 'quote.updated', 'quote', Quote>
  | EventOf<'quote.deleted', 'quote', { id: string }>
  | EventOf<'booking.created' | 'booking.updated', 'booking', Booking>
  | EventOf<'booking.deleted', 'booking', { id: string }>
  | EventOf<'member.created' | 'member.updated', 'member', Member>
  | EventOf<'member.deleted', 'member', { id: string }>
  | EventOf<'handoff.created' | 'handoff.failed', 'handoff', Omit<AcceptedHandoff, 'id'>>
  | EventOf<'reservation.confirmed' | 'reservation.cancelled' | 'reservation.failed' | 'reservation.needs_attention', 'reservation', Reservation>
  | EventOf<'webhook_endpoint.disabled', 'webhook_endpoint', WebhookEndpoint>
  | EventOf<'ping', string, JsonObject>;

/** List hand-offs that were answered 202: what can be asked for. */
export interface ListHandoffsQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** `accepted`: it waits, or is being delivered. `created`: the CRM has the record. `failed`: the CRM refuses it, as `problem` says. `cancelled`: it is not delivered. */
  status?: 'accepted' | 'created' | 'failed' | 'cancelled' | undefined;
  /** What the result becomes. */
  type?: 'quote' | 'booking' | undefined;
  /** The trip it belongs to. */
  trip_id?: string | undefined;
}

/** List members: what can be asked for. */
export interface ListMembersQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** Address for mail. */
  email?: string | undefined;
  /** Only records whose `updated_at` is this or later; the order is `updated_at` ascending, ties by id. Deleted records are not told of: the feed of events does that. */
  updated_since?: string | undefined;
}

/** List quotes: what can be asked for. */
export interface ListQuotesQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** The trip it belongs to. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** `created` at first, then whatever the CRM says. */
  status?: string | undefined;
  /** Id of the consumer that made the record. */
  consumer_id?: string | undefined;
  /** Only records whose `updated_at` is this or later; the order is `updated_at` ascending, ties by id. Deleted records are not told of: the feed of events does that. */
  updated_since?: string | undefined;
}

/** List bookings: what can be asked for. */
export interface ListBookingsQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** The trip it belongs to. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** `created` at first, then whatever the CRM says. */
  status?: string | undefined;
  /** Id of the consumer that made the record. */
  consumer_id?: string | undefined;
  /** Only records whose `updated_at` is this or later; the order is `updated_at` ascending, ties by id. Deleted records are not told of: the feed of events does that. */
  updated_since?: string | undefined;
}

/** List reservations: what can be asked for. */
export interface ListReservationsQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** Where it stands. */
  status?: 'pending' | 'confirmed' | 'cancelled' | 'failed' | 'needs_attention' | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** The trip it belongs to. */
  trip_id?: string | undefined;
  /** Id of the consumer that made the record. */
  consumer_id?: string | undefined;
}

/** Ask whether a table is free: what can be asked for. */
export interface GetTableAvailabilityQuery {
  /** The restaurant, as the partner calls it. */
  merchant_id: string;
  /** What is booked there. */
  service_id: string;
  /** When the table is wanted: RFC 3339 in UTC (it ends in Z), whole seconds. */
  start_at: string;
  /** How many guests. */
  party_size: number;
}

/** Read the feed of events: what can be asked for. */
export interface ListEventsQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** Only events of this type; may be repeated. */
  type?: ('quote.created' | 'quote.updated' | 'quote.deleted' | 'booking.created' | 'booking.updated' | 'booking.deleted' | 'member.created' | 'member.updated' | 'member.deleted' | 'handoff.created' | 'handoff.failed' | 'reservation.confirmed' | 'reservation.cancelled' | 'reservation.failed' | 'reservation.needs_attention' | 'webhook_endpoint.disabled')[] | undefined;
  /** Only events of the resource with this id. */
  resource_id?: string | undefined;
  /** Only events with this `occurred_at` or a later one. */
  since?: string | undefined;
}

/** List webhook endpoints: what can be asked for. */
export interface ListWebhookEndpointsQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
}

/** List deliveries: what can be asked for. */
export interface ListWebhookDeliveriesQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** `pending` is sent, or sent again, by itself; the others are not. */
  status?: 'pending' | 'delivered' | 'failed' | undefined;
  /** Id of the event, and `webhook-id` of its deliveries. */
  event_id?: string | undefined;
}

/** List consumers: what can be asked for. */
export interface ListConsumersQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
}

/** List authentication attempts: what can be asked for. */
export interface ListAuthenticationAttemptsQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** Id of the consumer. */
  consumer_id?: string | undefined;
  /** How the attempt ended. */
  result?: 'accepted' | 'missing' | 'unknown_key' | 'wrong_secret' | 'expired' | 'revoked' | 'disabled' | 'certificate' | 'address' | 'permission_denied' | undefined;
  /** Address of the caller. It also finds the sums of what its network (of IPv6 the first 64 bits) sent beyond the limit. */
  address?: string | undefined;
  /** The API key that was presented. */
  api_key?: string | undefined;
  /** Earlier attempts are left out. */
  since?: string | undefined;
}

/** List changes of consumers: what can be asked for. */
export interface ListAuditEventsQuery {
  /** Records on the page at most. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one record; `has_more` tells whether there are others. */
  limit?: number | undefined;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** What was done. Where `enabled` changes with other fields, that is the action. */
  action?: 'consumer.created' | 'consumer.updated' | 'consumer.rotated' | 'consumer.disabled' | 'consumer.enabled' | 'consumer.revoked' | undefined;
  /** Id of the consumer; the name of the user of the operating system; `service`. */
  actor_id?: string | undefined;
  /** Id of the consumer. */
  target_id?: string | undefined;
  /** Earlier events are left out. */
  since?: string | undefined;
}
