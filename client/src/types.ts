// Made from the OpenAPI document by scripts/generate-openapi.ts: npm run openapi
import type { JsonObject } from './json.ts';

/** A hand-off that was answered 202. */
export interface AcceptedHandoff {
  /** External ID of the hand-off, and of its record in the CRM. */
  external_id: string;
  /** Type of record that the result becomes. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
  type: 'quote' | 'booking' | (string & {});
  /** `awaiting_approval`: another consumer has to approve it first. `accepted`: it waits, or is being delivered. `created`: the CRM has the record. `failed`: it wasn't created; `problem` says why. `cancelled`: it won't be delivered. `rejected`: another consumer rejected it. Known values: `awaiting_approval`, `accepted`, `created`, `failed`, `cancelled`, `rejected`. Others may be added; treat an unknown one as such. */
  status: 'awaiting_approval' | 'accepted' | 'created' | 'failed' | 'cancelled' | 'rejected' | (string & {});
  /** The record's own id in the CRM; null until it is created. */
  id: string | null;
  /** The problem document that the hand-off would have been answered with. */
  problem: {
    /** Path of the page that explains the problem. */
    type: string;
    /** The kind of problem. */
    title: string;
    /** The HTTP status that it stands for. */
    status: number;
    /** Explanation of the problem. */
    detail: string;
    /** The stable name of the problem. */
    code: string;
    /** The X-Request-Id of the hand-off. */
    request_id: string;
  } | null;
  /** How many times delivery was attempted. */
  attempts: number;
  /** When it was stored. */
  accepted_at: string;
  /** When it was done. */
  completed_at: string | null;
  /** When the offer ends. */
  valid_until: string | null;
  /** Whether another consumer has approved it; null if none has to. */
  approval: {
    /** `expired`: nobody decided in time. Known values: `pending`, `approved`, `rejected`, `expired`. Others may be added; treat an unknown one as such. */
    status: 'pending' | 'approved' | 'rejected' | 'expired' | (string & {});
    /** Who decided; null if nobody did. */
    decided_by: {
      /** Id of the consumer. */
      consumer_id: string;
      /** Its name. */
      consumer_name: string | null;
      /** The person, as named by X-Actor or as signed in. */
      actor: string | null;
      /** True: the person signed in. */
      verified: boolean;
    } | null;
    /** When. */
    decided_at: string | null;
    /** Why it was rejected. */
    reason: string | null;
  } | null;
  /** Changes when what will be written is replaced. Name it in a decision, so that you decide on nothing else. */
  version: string;
  /** The last ones, oldest first; only in the response for a single hand-off. */
  latest_attempts?: ({
    /** 1 is the first. One that was cut off is missing. */
    number: number;
    /** When it started. */
    at: string;
    /** How long it took. */
    duration_ms: number;
    /** Why it wasn't created; null if it was. */
    problem: {
      /** The stable name of the problem. */
      code: string;
      /** The error in words. */
      detail: string;
    } | null;
  })[] | undefined;
  /** When it will be tried again. */
  next_attempt_at?: string | null | undefined;
  /** The member; null where there is none, or none that can be read now. */
  member?: {
    /** External ID of the member. */
    id: string;
    /** Given name. */
    first_name: string | null;
    /** Family name. */
    last_name: string | null;
    /** E-mail address. */
    email: string | null;
  } | null | undefined;
  /** Content to write, until it is created, cancelled or rejected; `details` only in the response for a single hand-off. If the credentials' permission names fields: null unless it names all of these, and `created_by` only if it names that. */
  request: {
    /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
    trip_id: string;
    /** External ID of the member. */
    member_id: string;
    created_by: {
      /** Id of the consumer. */
      consumer_id: string;
      /** Its name. */
      consumer_name: string | null;
      /** The person, as named by X-Actor or as signed in. */
      actor: string | null;
      /** True: the person signed in. */
      verified: boolean;
    };
    result: {
      /** Name of the chosen offer, for people. */
      name: string;
      /** The supplier that it came from. */
      source: string;
      /** The search result itself, whatever it holds. */
      details?: JsonObject | undefined;
    };
  } | null;
}

export interface Activity {
  interval_seconds: number;
  series: Series[];
  /** When the CRM call budget runs out at the last hour's rate; from then on, requests wait for calls. Null: it lasts for the next 24 hours, or there is none. */
  budget_exhausted_at: string | null;
}

/** A change to a consumer, or a decision on a hand-off. */
export interface AuditEvent {
  /** Id of the event. */
  id: string;
  timestamp: string;
  /** The action. If `enabled` changed together with other fields, it is `consumer.enabled` or `consumer.disabled`. Known values: `consumer.created`, `consumer.updated`, `consumer.rotated`, `consumer.disabled`, `consumer.enabled`, `consumer.revoked`, `handoff.approved`, `handoff.rejected`. Others may be added; treat an unknown one as such. */
  action: 'consumer.created' | 'consumer.updated' | 'consumer.rotated' | 'consumer.disabled' | 'consumer.enabled' | 'consumer.revoked' | 'handoff.approved' | 'handoff.rejected' | (string & {});
  /** Who did it. */
  actor: {
    /** `service`: the first start, which makes two consumers. Known values: `consumer`, `command_line`, `service`. Others may be added; treat an unknown one as such. */
    type: 'consumer' | 'command_line' | 'service' | (string & {});
    /** Id of the consumer, name of the operating system user, or `service`. */
    id: string;
    /** Its name. */
    name: string;
    /** The person named by X-Actor, or signed in. */
    person: string | null;
    /** True: the person signed in. */
    verified: boolean;
  };
  /** The consumer, or the hand-off by its External ID. */
  target: {
    /** Id of the consumer. */
    id: string;
    /** Its name at the time; for a hand-off, its type. */
    name: string;
  };
  /** The request's address; null if there was none. */
  address: string | null;
  /** The User-Agent header of the request. */
  user_agent: string | null;
  /** The X-Request-Id of the request. */
  request_id: string | null;
  /** The fields that were changed; never a secret. */
  changes: ({
    /** Name of the field. */
    field: string;
    /** Its value before; null for a new consumer. */
    from: null | boolean | number | string | (string | JsonObject)[] | JsonObject;
    /** Its value after. */
    to: null | boolean | number | string | (string | JsonObject)[] | JsonObject;
  })[];
  /** `test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later. Known values: `live`, `test`. Others may be added; treat an unknown one as such. */
  mode: 'live' | 'test' | (string & {});
}

/** A page of changes to consumers. */
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
  /** Its current name; null if it was revoked. */
  consumer_name: string | null;
  /** Method and route pattern. */
  endpoint: string;
  /** Known values: `accepted`, `missing`, `unknown_key`, `wrong_secret`, `expired`, `revoked`, `disabled`, `certificate`, `address`, `permission_denied`. Others may be added; treat an unknown one as such. */
  result: 'accepted' | 'missing' | 'unknown_key' | 'wrong_secret' | 'expired' | 'revoked' | 'disabled' | 'certificate' | 'address' | 'permission_denied' | (string & {});
  timestamp: string;
  /** The X-Request-Id of the request. */
  request_id: string;
  /** The caller's address; null in a summary of many addresses. */
  address: string | null;
  /** The User-Agent header, at most 255 characters; null if none was sent. */
  user_agent: string | null;
  /** The API key that was sent, or the beginning of what was sent in its place; null if none was. */
  api_key: string | null;
  /** The signed-in person who sent the request; null if it came with the consumer's credentials. */
  person: string | null;
  /** HTTP status of the response. */
  status: number;
  /** How many attempts this stands for. More than 1 if an address failed more often than the limit, or a consumer was refused (403, 429), or needed no credentials, more than 60 times a minute: further attempts share one entry for each minute and result, with the other fields of the first one. With very many requests too: then only the time, the request id and the client are those of the first. */
  count: number;
  /** `test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later. Known values: `live`, `test`. Others may be added; treat an unknown one as such. */
  mode: 'live' | 'test' | (string & {});
}

/** A page of authentication attempts. */
export interface AuthenticationAttemptPage {
  data: AuthenticationAttempt[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

export interface AuthorizationServer {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  jwks_uri: string;
  scopes_supported: string[];
  response_types_supported: string[];
  grant_types_supported: string[];
  token_endpoint_auth_methods_supported: string[];
  token_endpoint_auth_signing_alg_values_supported: string[];
  service_documentation: string;
}

/** A booking. Where the permission of the credentials names fields, it has those and `id` alone: the others are left out, also where they are required here. */
export interface Booking {
  /** External ID of the record, created by the gateway. */
  id: string;
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string | null;
  /** External ID of the member. */
  member_id: string | null;
  /** Name of the chosen offer, for people. */
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
    /** The person who acted at the consumer: who had signed in, or whom X-Actor named; null for nobody. */
    actor: string | null;
    /** True: the person had signed in. Null where the org has no field for it. */
    verified: boolean | null;
  } | null;
  /** When the CRM made the record. */
  created_at: string | null;
  /** When the CRM last changed the record. */
  updated_at: string | null;
  /** The member; null where there is none, or none that can be read now. */
  member?: {
    /** External ID of the member. */
    id: string;
    /** Given name. */
    first_name: string | null;
    /** Family name. */
    last_name: string | null;
    /** E-mail address. */
    email: string | null;
  } | null | undefined;
}

export interface BookingChange {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** Name of the chosen offer, for people. */
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
  /** `test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later. Known values: `live`, `test`. Others may be added; treat an unknown one as such. */
  mode: 'live' | 'test' | (string & {});
  /** The active API key; null where every pair was rotated out. */
  apiKey: string | null;
  /** Permissions of the consumer. */
  permissions: ({
    /** Known values: `members`, `quotes`, `bookings`, `consumers`, `webhooks`. Others may be added; treat an unknown one as such. */
    resource: 'members' | 'quotes' | 'bookings' | 'consumers' | 'webhooks' | (string & {});
    actions: ('read' | 'write' | 'delete' | (string & {}))[];
    /** `own`: only records that this consumer created; for quotes and bookings only. Reservations follow bookings. Known values: `all`, `own`. Others may be added; treat an unknown one as such. */
    records: 'all' | 'own' | (string & {});
    /** True: what the consumer hands off as this resource waits until another consumer approves it, and it can't write it in any other way; for quotes and bookings only. */
    approval?: boolean | undefined;
    /** Only these fields, as named in responses, and `id`; for the consumer, others don't exist. For members, quotes and bookings only; absent: all. */
    fields?: string[] | undefined;
  })[];
  createdAt: string;
  updatedAt: string;
  /** When its credentials were last rotated. */
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names; null while it is active. */
  expiresAt: string | null;
  /** SHA-256 of client certificates in lower-case hex. */
  certificateFingerprints: string[];
  /** False: its credentials are refused, until it is true again. */
  enabled: boolean;
  /** When its credentials stop working; null: never. */
  validUntil: string | null;
  /** Requests within 60 seconds; null: the limit of the settings. */
  rateLimitPerMinute: number | null;
  /** IPv4 and IPv6 addresses and blocks it may call from; none: any. From elsewhere it gets 403 `address_not_allowed`. */
  allowedAddresses: string[];
  /** Public keys of the private keys with which it may sign assertions, at most 5: RSA, EC on P-256 or Ed25519, as JWK (RFC 7517). None: it authenticates with its pairs only. */
  publicKeys: ({
    /** Kind of key. Known values: `RSA`, `EC`, `OKP`. Others may be added; treat an unknown one as such. */
    kty: 'RSA' | 'EC' | 'OKP' | (string & {});
    crv?: string | undefined;
    x?: string | undefined;
    y?: string | undefined;
    n?: string | undefined;
    e?: string | undefined;
    kid?: string | undefined;
    alg?: string | undefined;
    use?: string | undefined;
  })[];
  /** Percentage of CRM calls it is guaranteed while they are short; null: no share of its own. At most 100 for all consumers together. */
  crmShare: number | null;
  /** DNS names, URIs and e-mail addresses of client certificates, as their subject alternative names have them and without wildcards; the consumer must present a certificate with one of them, or one of `certificateFingerprints`. So a renewed certificate needs no change. */
  certificateNames: string[];
  /** Requests the consumer may send per day or month; null: unlimited. */
  allowance: {
    /** Requests per period. */
    requests: number;
    /** In UTC. Known values: `day`, `month`. Others may be added; treat an unknown one as such. */
    per: 'day' | 'month' | (string & {});
  } | null;
  /** People who sign in to the console and may act as this consumer: those whose ID token has a claim with this value, or with it among its values. None: nobody. */
  people: ({
    claim: string;
    value: string;
  })[];
  /** When its credentials were last used, on any replica, to the minute; null: never. */
  lastUsedAt: string | null;
  /** Every valid pair, and those that expired in the last 30 days. */
  credentials: ({
    apiKey: string;
    /** `rotated` is valid until `expiresAt`, `expired` is refused. Known values: `active`, `rotated`, `expired`. Others may be added; treat an unknown one as such. */
    state: 'active' | 'rotated' | 'expired' | (string & {});
    createdAt: string;
    /** When the pair stops working; null while it is active. */
    expiresAt: string | null;
    /** When its credentials were last used, on any replica, to the minute; null: never. */
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

export interface ConsumerUsage {
  /** The day in UTC. */
  day: string;
  /** Requests with valid credentials, by class of the answer; 304 counts as `2xx`. */
  requests: {
    '2xx': number;
    '4xx': number;
    '5xx': number;
  };
  /** Metered CRM calls; of a shared call, this consumer's part. */
  crm_calls: number;
}

export interface ConsumerUsageReport {
  data: ConsumerUsage[];
}

/** A consumer, with how much of its allowance is used. Nothing here is secret. */
export interface ConsumerWithUse {
  /** Id of the consumer. */
  id: string;
  /** Name of the consumer. */
  name: string;
  /** `test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later. Known values: `live`, `test`. Others may be added; treat an unknown one as such. */
  mode: 'live' | 'test' | (string & {});
  /** The active API key; null where every pair was rotated out. */
  apiKey: string | null;
  /** Permissions of the consumer. */
  permissions: ({
    /** Known values: `members`, `quotes`, `bookings`, `consumers`, `webhooks`. Others may be added; treat an unknown one as such. */
    resource: 'members' | 'quotes' | 'bookings' | 'consumers' | 'webhooks' | (string & {});
    actions: ('read' | 'write' | 'delete' | (string & {}))[];
    /** `own`: only records that this consumer created; for quotes and bookings only. Reservations follow bookings. Known values: `all`, `own`. Others may be added; treat an unknown one as such. */
    records: 'all' | 'own' | (string & {});
    /** True: what the consumer hands off as this resource waits until another consumer approves it, and it can't write it in any other way; for quotes and bookings only. */
    approval?: boolean | undefined;
    /** Only these fields, as named in responses, and `id`; for the consumer, others don't exist. For members, quotes and bookings only; absent: all. */
    fields?: string[] | undefined;
  })[];
  createdAt: string;
  updatedAt: string;
  /** When its credentials were last rotated. */
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names; null while it is active. */
  expiresAt: string | null;
  /** SHA-256 of client certificates in lower-case hex. */
  certificateFingerprints: string[];
  /** False: its credentials are refused, until it is true again. */
  enabled: boolean;
  /** When its credentials stop working; null: never. */
  validUntil: string | null;
  /** Requests within 60 seconds; null: the limit of the settings. */
  rateLimitPerMinute: number | null;
  /** IPv4 and IPv6 addresses and blocks it may call from; none: any. From elsewhere it gets 403 `address_not_allowed`. */
  allowedAddresses: string[];
  /** Public keys of the private keys with which it may sign assertions, at most 5: RSA, EC on P-256 or Ed25519, as JWK (RFC 7517). None: it authenticates with its pairs only. */
  publicKeys: ({
    /** Kind of key. Known values: `RSA`, `EC`, `OKP`. Others may be added; treat an unknown one as such. */
    kty: 'RSA' | 'EC' | 'OKP' | (string & {});
    crv?: string | undefined;
    x?: string | undefined;
    y?: string | undefined;
    n?: string | undefined;
    e?: string | undefined;
    kid?: string | undefined;
    alg?: string | undefined;
    use?: string | undefined;
  })[];
  /** Percentage of CRM calls it is guaranteed while they are short; null: no share of its own. At most 100 for all consumers together. */
  crmShare: number | null;
  /** DNS names, URIs and e-mail addresses of client certificates, as their subject alternative names have them and without wildcards; the consumer must present a certificate with one of them, or one of `certificateFingerprints`. So a renewed certificate needs no change. */
  certificateNames: string[];
  /** Requests the consumer may send per day or month; null: unlimited. */
  allowance: {
    /** Requests per period. */
    requests: number;
    /** In UTC. Known values: `day`, `month`. Others may be added; treat an unknown one as such. */
    per: 'day' | 'month' | (string & {});
    /** Requests since it began, on all replicas; it may lag by some seconds. */
    used: number;
    /** When it resets. */
    resets_at: string;
  } | null;
  /** People who sign in to the console and may act as this consumer: those whose ID token has a claim with this value, or with it among its values. None: nobody. */
  people: ({
    claim: string;
    value: string;
  })[];
  /** When its credentials were last used, on any replica, to the minute; null: never. */
  lastUsedAt: string | null;
  /** Every valid pair, and those that expired in the last 30 days. */
  credentials: ({
    apiKey: string;
    /** `rotated` is valid until `expiresAt`, `expired` is refused. Known values: `active`, `rotated`, `expired`. Others may be added; treat an unknown one as such. */
    state: 'active' | 'rotated' | 'expired' | (string & {});
    createdAt: string;
    /** When the pair stops working; null while it is active. */
    expiresAt: string | null;
    /** When its credentials were last used, on any replica, to the minute; null: never. */
    lastUsedAt: string | null;
  })[];
}

/** A consumer with its first pair. */
export interface CreatedConsumer {
  /** Id of the consumer. */
  id: string;
  /** Name of the consumer. */
  name: string;
  /** `test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later. Known values: `live`, `test`. Others may be added; treat an unknown one as such. */
  mode: 'live' | 'test' | (string & {});
  apiKey: string;
  /** Permissions of the consumer. */
  permissions: ({
    /** Known values: `members`, `quotes`, `bookings`, `consumers`, `webhooks`. Others may be added; treat an unknown one as such. */
    resource: 'members' | 'quotes' | 'bookings' | 'consumers' | 'webhooks' | (string & {});
    actions: ('read' | 'write' | 'delete' | (string & {}))[];
    /** `own`: only records that this consumer created; for quotes and bookings only. Reservations follow bookings. Known values: `all`, `own`. Others may be added; treat an unknown one as such. */
    records: 'all' | 'own' | (string & {});
    /** True: what the consumer hands off as this resource waits until another consumer approves it, and it can't write it in any other way; for quotes and bookings only. */
    approval?: boolean | undefined;
    /** Only these fields, as named in responses, and `id`; for the consumer, others don't exist. For members, quotes and bookings only; absent: all. */
    fields?: string[] | undefined;
  })[];
  createdAt: string;
  updatedAt: string;
  /** When its credentials were last rotated. */
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names; null while it is active. */
  expiresAt: string | null;
  /** SHA-256 of client certificates in lower-case hex. */
  certificateFingerprints: string[];
  /** False: its credentials are refused, until it is true again. */
  enabled: boolean;
  /** When its credentials stop working; null: never. */
  validUntil: string | null;
  /** Requests within 60 seconds; null: the limit of the settings. */
  rateLimitPerMinute: number | null;
  /** IPv4 and IPv6 addresses and blocks it may call from; none: any. From elsewhere it gets 403 `address_not_allowed`. */
  allowedAddresses: string[];
  /** Public keys of the private keys with which it may sign assertions, at most 5: RSA, EC on P-256 or Ed25519, as JWK (RFC 7517). None: it authenticates with its pairs only. */
  publicKeys: ({
    /** Kind of key. Known values: `RSA`, `EC`, `OKP`. Others may be added; treat an unknown one as such. */
    kty: 'RSA' | 'EC' | 'OKP' | (string & {});
    crv?: string | undefined;
    x?: string | undefined;
    y?: string | undefined;
    n?: string | undefined;
    e?: string | undefined;
    kid?: string | undefined;
    alg?: string | undefined;
    use?: string | undefined;
  })[];
  /** Percentage of CRM calls it is guaranteed while they are short; null: no share of its own. At most 100 for all consumers together. */
  crmShare: number | null;
  /** DNS names, URIs and e-mail addresses of client certificates, as their subject alternative names have them and without wildcards; the consumer must present a certificate with one of them, or one of `certificateFingerprints`. So a renewed certificate needs no change. */
  certificateNames: string[];
  /** Requests the consumer may send per day or month; null: unlimited. */
  allowance: {
    /** Requests per period. */
    requests: number;
    /** In UTC. Known values: `day`, `month`. Others may be added; treat an unknown one as such. */
    per: 'day' | 'month' | (string & {});
  } | null;
  /** People who sign in to the console and may act as this consumer: those whose ID token has a claim with this value, or with it among its values. None: nobody. */
  people: ({
    claim: string;
    value: string;
  })[];
  /** When its credentials were last used, on any replica, to the minute; null: never. */
  lastUsedAt: string | null;
  /** Every valid pair, and those that expired in the last 30 days. */
  credentials: ({
    apiKey: string;
    /** `rotated` is valid until `expiresAt`, `expired` is refused. Known values: `active`, `rotated`, `expired`. Others may be added; treat an unknown one as such. */
    state: 'active' | 'rotated' | 'expired' | (string & {});
    createdAt: string;
    /** When the pair stops working; null while it is active. */
    expiresAt: string | null;
    /** When its credentials were last used, on any replica, to the minute; null: never. */
    lastUsedAt: string | null;
  })[];
  /** The API secret. Only this response shows it. */
  apiSecret: string;
}

/** A webhook endpoint with its secret. */
export interface CreatedWebhookEndpoint {
  /** Id of the webhook endpoint. */
  id: string;
  /** Where events are sent: https, port 443, 80 or 1024 and up, no user name, a host with public addresses only. */
  url: string;
  /** Event types to send, optionally ending in `.*`. Empty: all that the consumer may read when they are sent. */
  event_types: string[];
  /** Scopes of the access token that created it or changed its URL: it gets only events that these and the consumer's permissions allow. Null: all that the consumer may read. */
  scopes: string[] | null;
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
  /** Deliveries are signed with it, as Standard Webhooks says. Only this response shows it. */
  secret: string;
}

export interface CrmUsage {
  /** Id of the consumer; `service` for the gateway's own calls; null unless `by=consumer`. */
  consumer_id: string | null;
  /** Its name; null if it was revoked. */
  consumer_name: string | null;
  /** Operation of the calls; null unless `by=operation`. */
  operation: string | null;
  /** The day in UTC; null unless `by=day`. */
  day: string | null;
  /** Metered calls; of a shared call, the part of these requests. */
  calls: number;
  /** Requests that the calls carried; one that took two calls counts twice. */
  requests: number;
}

export interface CrmUsageReport {
  /** The most calls first; days in their order. */
  data: CrmUsage[];
  /** All metered calls between the two moments. */
  total: number;
}

/** Something that happened to a resource. */
export interface Event {
  /** Id of the event. It stays the same wherever the event appears, so readers can skip repeats. */
  id: string;
  /** Type of the event. Known values: `quote.created`, `quote.updated`, `quote.deleted`, `booking.created`, `booking.updated`, `booking.deleted`, `member.created`, `member.updated`, `member.deleted`, `handoff.awaiting_approval`, `handoff.rejected`, `handoff.created`, `handoff.failed`, `reservation.confirmed`, `reservation.cancelled`, `reservation.failed`, `reservation.needs_attention`, `webhook_endpoint.disabled`, `consumer.allowance_used`. Others may be added; treat an unknown one as such. */
  type: 'quote.created' | 'quote.updated' | 'quote.deleted' | 'booking.created' | 'booking.updated' | 'booking.deleted' | 'member.created' | 'member.updated' | 'member.deleted' | 'handoff.awaiting_approval' | 'handoff.rejected' | 'handoff.created' | 'handoff.failed' | 'reservation.confirmed' | 'reservation.cancelled' | 'reservation.failed' | 'reservation.needs_attention' | 'webhook_endpoint.disabled' | 'consumer.allowance_used' | (string & {});
  /** When it happened; for CRM records, in whole seconds. The order is the feed's. */
  occurred_at: string;
  /** Present on test consumers' events. Known values: `test`. Others may be added; treat an unknown one as such. */
  mode?: 'test' | (string & {}) | undefined;
  /** The resource it happened to. */
  resource: {
    /** Type of the resource. */
    type: string;
    /** Its id. */
    id: string;
  };
  /** The resource as it was then, as GET shows it to the caller; only its `id` once it is deleted. */
  data: JsonObject;
  /** True if the data is left out: it's too long, was erased, or the permission names fields and this isn't a record. Read the resource. */
  data_omitted?: boolean | undefined;
  /** The member; null where there is none, or none that can be read now. */
  member?: {
    /** External ID of the member. */
    id: string;
    /** Given name. */
    first_name: string | null;
    /** Family name. */
    last_name: string | null;
    /** E-mail address. */
    email: string | null;
  } | null | undefined;
  /** With `include=record`, for hand-offs: the record as it was last read, or what will be written; null if neither is known or the caller may see neither. */
  record?: JsonObject | null | undefined;
}

/** A page of events. Oldest first, the last one has a `next_cursor`, too. */
export interface EventPage {
  data: Event[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** A fault in the request, located by one of `pointer`, `parameter` and `header`. */
export interface Fault {
  /** The field of the body: a JSON Pointer as URI fragment (RFC 6901). Empty if an error of the CRM is about no field of this API. */
  pointer?: string | undefined;
  /** Name of a path or query parameter. */
  parameter?: string | undefined;
  /** Name of a header. */
  header?: string | undefined;
  /** Explanation of the fault, for people. */
  message: string;
}

export interface HandoffAcceptance {
  /** Type of record that the result becomes. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
  type: 'quote' | 'booking' | (string & {});
  /** It's stored, and delivered to the CRM: at once or once another consumer has approved it. Known values: `accepted`, `awaiting_approval`. Others may be added; treat an unknown one as such. */
  status: 'accepted' | 'awaiting_approval' | (string & {});
  /** External ID of the record, created by the gateway. */
  external_id: string;
}

export interface HandoffCheck {
  /** Whether nothing speaks against the hand-off. */
  ok: boolean;
  /** Everything that the hand-off would be refused for. */
  problems: ({
    /** Code of the problem that the hand-off would be answered with. */
    code: string;
    /** Explanation of the problem. */
    detail: string;
    /** The places in the body. */
    errors: ({
      /** Explanation of the fault. */
      message: string;
    })[];
  })[];
  /** Warnings that wouldn't make it fail. */
  warnings: ({
    /** The kind of warning. Known values: `possible_duplicate`, `offer_ends_soon`. Others may be added; treat an unknown one as such. */
    code: 'possible_duplicate' | 'offer_ends_soon' | (string & {});
    /** The place in the body. */
    pointer: string;
    /** Explanation of the warning. */
    detail: string;
    /** External ID of the record, created by the gateway. */
    external_id: string | null;
  })[];
}

export interface HandoffConfirmation {
  /** The record's own id in the CRM. */
  id: string;
  /** Type of record that the result became. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
  type: 'quote' | 'booking' | (string & {});
  /** Outcome. `existing`, `updated`: the offer was handed off before. Known values: `created`. Others may be added; treat an unknown one as such. */
  status: 'created' | (string & {});
  /** External ID of the record, created by the gateway. */
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

export interface HandoffRejection {
  /** Why it is rejected, for the consumer that made the hand-off. */
  reason: string;
}

export interface HandoffRepetition {
  /** The record's own id in the CRM. */
  id: string;
  /** Type of record that the result became. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
  type: 'quote' | 'booking' | (string & {});
  /** Outcome. `existing`, `updated`: the offer was handed off before. Known values: `existing`, `updated`. Others may be added; treat an unknown one as such. */
  status: 'existing' | 'updated' | (string & {});
  /** External ID of the record, created by the gateway. */
  external_id: string;
}

export interface Health {
  /** Whether the gateway can work. Known values: `ok`, `unavailable`. Others may be added; treat an unknown one as such. */
  status: 'ok' | 'unavailable' | (string & {});
  crm: {
    connected: boolean;
    /** Null while not connected. Left out for test keys, although it is required here. */
    user: {
      /** The integration user's id in the CRM. */
      Id: string;
      /** Display name of the integration user, not its user name. */
      Name: string;
    } | null;
    /** The part that doesn't work: signing in, all data calls, the API version, or the connection to the CRM; otherwise absent. Known values: `sign_in`, `data`, `version`, `network`. Others may be added; treat an unknown one as such. */
    reason?: 'sign_in' | 'data' | 'version' | 'network' | (string & {}) | undefined;
    /** Advice for the operator while the CRM refuses the gateway access; otherwise absent. */
    advice?: string | undefined;
    /** Why the org refused the last sign-in; otherwise absent. */
    sign_in?: {
      /** The error of the token endpoint. */
      error: string;
      /** The org's explanation. */
      error_description: string | null;
    } | undefined;
    /** Objects and fields that the org lacks or that don't fit; requests that don't need them still work. Otherwise absent. */
    lacks?: ({
      /** The object's name in the CRM. */
      object: string;
      /** The field's name in the CRM; null: the object itself. */
      field: string | null;
      /** Explanation of the fault. */
      problem: string;
    })[] | undefined;
    /** Use of the daily CRM call quota, as last reported to any replica. Before that: absent, or, where a budget is set, the gateway's own `used` and `limit`. */
    quota?: {
      /** The org's calls in 24 hours. */
      used: number;
      /** Calls it may make. */
      limit: number;
      /** Calls the gateway may make, where a budget is set. */
      budget?: number | undefined;
      /** Calls it made in 24 hours, on all replicas. */
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
  /** Shared by all replicas, for speed. */
  cache: {
    connected: boolean;
  };
  /** The copy of the CRM's records, where one is kept. */
  copy?: {
    /** False where it is too old, or not filled yet. */
    connected: boolean;
    /** How old the copy is; null until it is filled. */
    age_seconds?: number | null | undefined;
    /** How many records it has, perhaps estimated. */
    records?: number | undefined;
    /** True while it is being filled; else absent. */
    filling?: boolean | undefined;
  } | undefined;
  /** Hand-offs that were answered 202 and aren't delivered yet. */
  handoffs: {
    /** False if the database can't be reached. */
    connected: boolean;
    /** Accepted hand-offs that wait for the CRM. */
    waiting?: number | undefined;
    /** How long the oldest of them has waited. */
    oldest_seconds?: number | undefined;
  };
  /** The dining partner, where there is one. */
  dining?: {
    connected: boolean;
    /** `credentials`: the partner refuses the gateway's. */
    reason?: string | undefined;
  } | undefined;
  /** Changes in the CRM, where they are read. */
  changes?: {
    /** False if changes haven't been read for too long, or not all of them yet. */
    connected: boolean;
    /** How long ago they were read; null until all were read once. */
    seconds_behind?: number | null | undefined;
    /** True for 30 days after deletions may have been missed; else absent. */
    deletions_missed?: boolean | undefined;
  } | undefined;
}

/** History of a record. */
export interface History {
  /** Oldest first. */
  data: HistoryEntry[];
}

/** Something that happened. */
export interface HistoryEntry {
  /** When it happened. For changes in the CRM, the CRM's time in whole seconds. */
  at: string;
  /** `requested`: a consumer asked for it, at `endpoint`. `awaiting_approval`, `approved`, `rejected`, `accepted`: of a hand-off that was answered 202. `created`, `updated`, `deleted`, `restored`: in the CRM, by anyone. `step`: of a reservation. `delivered`, `delivery_failed`: an event, to one of your own webhook endpoints. Known values: `requested`, `awaiting_approval`, `approved`, `rejected`, `accepted`, `created`, `updated`, `step`, `delivered`, `delivery_failed`, `failed`, `cancelled`, `deleted`, `restored`. Others may be added; treat an unknown one as such. */
  kind: 'requested' | 'awaiting_approval' | 'approved' | 'rejected' | 'accepted' | 'created' | 'updated' | 'step' | 'delivered' | 'delivery_failed' | 'failed' | 'cancelled' | 'deleted' | 'restored' | (string & {});
  /** Who did it; null if unknown or hidden. */
  by: {
    /** Id of the consumer. */
    consumer_id: string;
    /** Its name. */
    consumer_name: string | null;
    /** The person, as named by X-Actor or as signed in. */
    actor: string | null;
    /** True: the person signed in. */
    verified: boolean;
  } | null;
  /** For an update or a step; null if unknown, and for everything else. */
  changes: ({
    /** Name of the field. */
    field: string;
    /** Its value before; left out if unknown, and for `details`. */
    from?: string | number | boolean | JsonObject | null | undefined;
    /** Its value after; left out for `details`. */
    to?: string | number | boolean | JsonObject | null | undefined;
  })[] | null;
  /** The operation of a request; the id of the webhook endpoint of a delivery; else null. */
  endpoint: string | null;
}

/** A member. Where the permission of the credentials names fields, it has those and `id` alone: the others are left out, also where they are required here. */
export interface Member {
  /** External ID of the member. */
  id: string;
  /** Given name. */
  first_name: string | null;
  /** Family name. */
  last_name: string | null;
  /** E-mail address. */
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
  /** Type of the event: member.created, member.updated, member.deleted. Others are kept and ignored. */
  type: string;
  /** When it happened, RFC 3339. */
  timestamp: string;
  /** The member it happened to. */
  data: {
    /** External ID of the member, a UUID; the three types above need it. */
    external_id?: string | undefined;
  };
}

/** A restaurant of the dining partner. */
export interface Merchant {
  /** The partner's id of the restaurant. */
  merchant_id: string;
  /** Name, for people. */
  name: string;
  /** IANA name of its time zone. */
  time_zone: string;
  /** A service that can be booked there. */
  services: ({
    /** The partner's id of the service. */
    service_id: string;
    /** Name, for people. */
    name: string;
  })[];
}

/** A page of restaurants. */
export interface MerchantPage {
  data: Merchant[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

export interface NewBooking {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** Name of the chosen offer, for people. */
  name: string;
  /** The supplier that it came from. */
  source: string;
  /** The search result itself, whatever it holds. */
  details: JsonObject;
}

export interface NewHandoff {
  /** Type of record that the result becomes in the CRM. */
  type: 'quote' | 'booking';
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** The search result that was chosen. */
  result: {
    /** Name of the chosen offer, for people. */
    name: string;
    /** The supplier that it came from. */
    source: string;
    /** The search result itself, whatever it holds. */
    details: JsonObject;
  };
  /** When the offer ends; after that, nothing is created. */
  valid_until?: string | undefined;
  /** The offer's own reference at its source. If it is handed off again for the same trip, at any time and with any key, the offer is found and no second record is created. */
  reference?: string | undefined;
  /** Action if the offer was handed off before: `return` (default) changes nothing, `update` writes name and details again. Needs `reference`. */
  on_repeat?: 'return' | 'update' | undefined;
}

export interface NewQuote {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** Name of the chosen offer, for people. */
  name: string;
  /** The supplier that it came from. */
  source: string;
  /** The search result itself, whatever it holds. */
  details: JsonObject;
}

export interface NewReservation {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** Name of the chosen offer, for people. */
  name: string;
  /** The table that is wanted. */
  dining: {
    /** The partner's id of the restaurant. */
    merchant_id: string;
    /** The partner's id of the service to book. */
    service_id: string;
    /** When the table is wanted: RFC 3339 in UTC (it ends in Z), whole seconds. */
    start_at: string;
    /** How many guests. */
    party_size: number;
    /** How long the table is kept. */
    duration_minutes?: number | undefined;
    /** The guest in whose name the table is. */
    guest: {
      /** Given name. */
      given_name: string;
      /** Family name. */
      family_name: string;
      /** Where the partner sends messages. */
      email: string;
      /** Telephone number with + and the country code. Spaces, dots, dashes and parentheses are left out. */
      phone: string;
    };
  };
  /** The search result itself, whatever it holds. */
  details?: JsonObject | undefined;
}

export interface NewWebhookEndpoint {
  /** Where events are sent: https, port 443, 80 or 1024 and up, no user name, a host with public addresses only. */
  url: string;
  /** Event types to send, optionally ending in `.*`. Empty: all that the consumer may read when they are sent. */
  event_types?: string[] | undefined;
  /** For people. */
  description?: string | null | undefined;
}

export interface OAuthError {
  /** Code of RFC 6749. */
  error: string;
  /** Explanation of the error, for people. */
  error_description: string;
}

/** The calling consumer. Nothing here is secret. */
export interface OwnConsumer {
  /** Id of the consumer. */
  id: string;
  /** Name of the consumer. */
  name: string;
  /** `test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later. Known values: `live`, `test`. Others may be added; treat an unknown one as such. */
  mode: 'live' | 'test' | (string & {});
  /** The active API key; null where every pair was rotated out. */
  apiKey: string | null;
  /** Permissions of the consumer. */
  permissions: ({
    /** Known values: `members`, `quotes`, `bookings`, `consumers`, `webhooks`. Others may be added; treat an unknown one as such. */
    resource: 'members' | 'quotes' | 'bookings' | 'consumers' | 'webhooks' | (string & {});
    actions: ('read' | 'write' | 'delete' | (string & {}))[];
    /** `own`: only records that this consumer created; for quotes and bookings only. Reservations follow bookings. Known values: `all`, `own`. Others may be added; treat an unknown one as such. */
    records: 'all' | 'own' | (string & {});
    /** True: what the consumer hands off as this resource waits until another consumer approves it, and it can't write it in any other way; for quotes and bookings only. */
    approval?: boolean | undefined;
    /** Only these fields, as named in responses, and `id`; for the consumer, others don't exist. For members, quotes and bookings only; absent: all. */
    fields?: string[] | undefined;
  })[];
  createdAt: string;
  updatedAt: string;
  /** When its credentials were last rotated. */
  rotatedAt: string | null;
  /** Expiry of the pair that `apiKey` names; null while it is active. */
  expiresAt: string | null;
  /** SHA-256 of client certificates in lower-case hex. */
  certificateFingerprints: string[];
  /** False: its credentials are refused, until it is true again. */
  enabled: boolean;
  /** When its credentials stop working; null: never. */
  validUntil: string | null;
  /** Requests within 60 seconds; null: the limit of the settings. */
  rateLimitPerMinute: number | null;
  /** IPv4 and IPv6 addresses and blocks it may call from; none: any. From elsewhere it gets 403 `address_not_allowed`. */
  allowedAddresses: string[];
  /** Public keys of the private keys with which it may sign assertions, at most 5: RSA, EC on P-256 or Ed25519, as JWK (RFC 7517). None: it authenticates with its pairs only. */
  publicKeys: ({
    /** Kind of key. Known values: `RSA`, `EC`, `OKP`. Others may be added; treat an unknown one as such. */
    kty: 'RSA' | 'EC' | 'OKP' | (string & {});
    crv?: string | undefined;
    x?: string | undefined;
    y?: string | undefined;
    n?: string | undefined;
    e?: string | undefined;
    kid?: string | undefined;
    alg?: string | undefined;
    use?: string | undefined;
  })[];
  /** Percentage of CRM calls it is guaranteed while they are short; null: no share of its own. At most 100 for all consumers together. */
  crmShare: number | null;
  /** DNS names, URIs and e-mail addresses of client certificates, as their subject alternative names have them and without wildcards; the consumer must present a certificate with one of them, or one of `certificateFingerprints`. So a renewed certificate needs no change. */
  certificateNames: string[];
  /** Requests the consumer may send per day or month; null: unlimited. */
  allowance: {
    /** Requests per period. */
    requests: number;
    /** In UTC. Known values: `day`, `month`. Others may be added; treat an unknown one as such. */
    per: 'day' | 'month' | (string & {});
    /** Requests since it began, on all replicas; it may lag by some seconds. */
    used: number;
    /** When it resets. */
    resets_at: string;
  } | null;
  /** People who sign in to the console and may act as this consumer: those whose ID token has a claim with this value, or with it among its values. None: nobody. */
  people: ({
    claim: string;
    value: string;
  })[];
  /** When its credentials were last used, on any replica, to the minute; null: never. */
  lastUsedAt: string | null;
  /** Every valid pair, and those that expired in the last 30 days. */
  credentials: ({
    apiKey: string;
    /** `rotated` is valid until `expiresAt`, `expired` is refused. Known values: `active`, `rotated`, `expired`. Others may be added; treat an unknown one as such. */
    state: 'active' | 'rotated' | 'expired' | (string & {});
    createdAt: string;
    /** When the pair stops working; null while it is active. */
    expiresAt: string | null;
    /** When its credentials were last used, on any replica, to the minute; null: never. */
    lastUsedAt: string | null;
  })[];
}

/** A problem document (RFC 9457). `code` is for programs; the texts are for people. */
export interface Problem {
  /** Path of the page that explains the problem; derived from `code`. */
  type: string;
  /** The kind of problem, the same each time. */
  title: string;
  /** The HTTP status. */
  status: number;
  /** Explanation of the problem, for people. */
  detail: string;
  /** The stable name of the problem, for programs. Others may be added; treat an unknown one by its status. */
  code: 'invalid_request' | 'malformed_json' | 'idempotency_key_missing' | 'idempotency_key_invalid' | 'invalid_cursor' | 'cursor_expired' | 'invalid_credentials' | 'permission_denied' | 'approval_required' | 'address_not_allowed' | 'not_found' | 'method_not_allowed' | 'idempotency_in_progress' | 'conflict' | 'precondition_failed' | 'payload_too_large' | 'unsupported_media_type' | 'idempotency_key_reused' | 'member_not_found' | 'details_too_large' | 'crm_rejected' | 'offer_expired' | 'partner_rejected' | 'rate_limited' | 'allowance_exhausted' | 'internal_error' | 'crm_error' | 'partner_error' | 'crm_unavailable' | 'crm_quota_exhausted' | 'partner_unavailable' | 'store_unavailable' | 'secrets_unavailable' | 'crm_timeout' | 'partner_timeout' | (string & {});
  /** Id of the request, as it stands in the log. */
  request_id: string;
  /** Where the request is at fault. */
  errors?: Fault[] | undefined;
  /** The permission that is missing. */
  required?: {
    /** The resource, such as `quotes`. */
    resource: string;
    /** `read`, `write` or `delete`. */
    action: string;
    /** The missing field, where the permission exists but lacks one. */
    field?: string | undefined;
  } | undefined;
  /** The partner's own word for its refusal, for example `SLOT_UNAVAILABLE`. */
  cause?: string | undefined;
  /** Seconds to wait before retrying. */
  retry_after?: number | undefined;
  /** After a write without Idempotency-Key whose outcome is unknown: the record to look for before retrying. */
  external_id?: string | undefined;
}

export interface ProtectedResource {
  resource: string;
  authorization_servers: string[];
  scopes_supported: string[];
  bearer_methods_supported: string[];
  resource_name: string;
  resource_documentation: string;
}

/** A quote. Where the permission of the credentials names fields, it has those and `id` alone: the others are left out, also where they are required here. */
export interface Quote {
  /** External ID of the record, created by the gateway. */
  id: string;
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string | null;
  /** External ID of the member. */
  member_id: string | null;
  /** Name of the chosen offer, for people. */
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
    /** The person who acted at the consumer: who had signed in, or whom X-Actor named; null for nobody. */
    actor: string | null;
    /** True: the person had signed in. Null where the org has no field for it. */
    verified: boolean | null;
  } | null;
  /** When the CRM made the record. */
  created_at: string | null;
  /** When the CRM last changed the record. */
  updated_at: string | null;
  /** The member; null where there is none, or none that can be read now. */
  member?: {
    /** External ID of the member. */
    id: string;
    /** Given name. */
    first_name: string | null;
    /** Family name. */
    last_name: string | null;
    /** E-mail address. */
    email: string | null;
  } | null | undefined;
}

export interface QuoteChange {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** Name of the chosen offer, for people. */
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

/** A table, and the booking of it in the CRM. If the permission on bookings names fields, the others are left out, even if they are required here. */
export interface Reservation {
  /** Id of the reservation, and External ID of its booking in the CRM. */
  id: string;
  /** `pending`: it is being made, or the partner decides later. `confirmed`: table and CRM booking exist and refer to each other. `failed`: the partner declined it. `needs_attention`: the operator has to check it. Known values: `pending`, `confirmed`, `cancelled`, `failed`, `needs_attention`. Others may be added; treat an unknown one as such. */
  status: 'pending' | 'confirmed' | 'cancelled' | 'failed' | 'needs_attention' | (string & {});
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** Name of the chosen offer, for people. */
  name: string;
  /** Its record in the CRM. */
  booking: {
    /** External ID of the booking in the CRM. */
    id: string;
    /** The CRM's status; null if there is no booking, `unknown` while the CRM can't be reached. */
    status: string | null;
  };
  /** The table. */
  dining: {
    /** The partner that has the table. */
    partner: string;
    /** The partner's reference for the table; null if there is none. */
    booking_id: string | null;
    /** Known values: `pending`, `confirmed`, `cancelled`, `failed`, `unknown`. Others may be added; treat an unknown one as such. */
    status: 'pending' | 'confirmed' | 'cancelled' | 'failed' | 'unknown' | (string & {}) | null;
    /** When the table is wanted: RFC 3339 in UTC (it ends in Z), whole seconds. */
    start_at: string;
    /** IANA name of the restaurant's time zone; null if unknown. */
    time_zone: string | null;
    /** How many guests. */
    party_size: number;
  };
  /** The member; null where there is none, or none that can be read now. */
  member?: {
    /** External ID of the member. */
    id: string;
    /** Given name. */
    first_name: string | null;
    /** Family name. */
    last_name: string | null;
    /** E-mail address. */
    email: string | null;
  } | null | undefined;
  /** Who made it through the API; null where it was made in another way. */
  created_by: {
    /** Id of the consumer that made the record. */
    consumer_id: string;
    /** Name of that consumer when it made the record. */
    consumer_name: string | null;
    /** The person who acted at the consumer: who had signed in, or whom X-Actor named; null for nobody. */
    actor: string | null;
    /** True: the person signed in. */
    verified: boolean;
  } | null;
  /** When it was ordered. */
  created_at: string;
  /** When the gateway last changed it. */
  updated_at: string;
  /** When its personal data was erased; otherwise absent. `name` is then `(erased)`. */
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
  /** The API secret. Only this response shows it. */
  apiSecret: string;
  rotatedAt: string;
  /** The pair that was active before. */
  previous: {
    apiKey: string;
    expiresAt: string;
  } | null;
}

export interface Series {
  /** Name of the series. */
  name: string;
  /** Unit of the values. */
  unit: string;
  /** Oldest first. Intervals without data are left out. */
  points: ((string | number)[])[];
}

/** Whether a table is free. */
export interface TableAvailability {
  /** Whether the table is free now. */
  available: boolean;
  /** Times within an hour and a half when such a table is free, nearest first. Empty if the time asked for is available. */
  alternatives: string[];
}

export interface Token {
  /** For the header Authorization, after `Bearer `. A JWT (RFC 9068). */
  access_token: string;
  /** Known values: `Bearer`. Others may be added; treat an unknown one as such. */
  token_type: 'Bearer' | (string & {});
  /** Seconds. */
  expires_in: number;
  /** Scopes of the token; it may have fewer than were asked for. */
  scope: string;
}

export interface TokenKeys {
  keys: ({
    kty: string;
    crv: string;
    x: string;
    y: string;
    kid: string;
    alg: string;
    use: string;
  })[];
}

export interface TokenRequest {
  /** `client_credentials`. */
  grant_type?: string | undefined;
  /** Permissions such as `quotes:read`, separated by spaces; if left out, all that the consumer has. */
  scope?: string | undefined;
  /** The API key, with `client_secret`. The id of the consumer, or nothing, with `client_assertion`. */
  client_id?: string | undefined;
  /** The API secret. */
  client_secret?: string | undefined;
  /** `urn:ietf:params:oauth:client-assertion-type:jwt-bearer`, with `client_assertion`. */
  client_assertion_type?: string | undefined;
  /** A JWT (RFC 7523) signed with a private key of the consumer. `iss` and `sub` are the id of the consumer, `aud` is the issuer alone, `exp` at most 300 seconds ahead, `jti` new each time. */
  client_assertion?: string | undefined;
  /** Address of the gateway, or of a part of it (RFC 8707). */
  resource?: string | undefined;
}

export interface Trip {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** Whose trip it is. Empty without members:read. */
  members: ({
    /** External ID of the member. */
    id: string;
    /** Given name. */
    first_name: string | null;
    /** Family name. */
    last_name: string | null;
  })[];
  /** Newest first. */
  quotes: Quote[];
  /** Newest first. */
  bookings: Booking[];
  /** As the list of reservations shows them. */
  reservations: JsonObject[];
  /** Hand-offs that wait or have failed. */
  handoffs: AcceptedHandoff[];
  /** Whether one of them has more; its list has the rest. */
  truncated: boolean;
}

export interface TripConfirmation {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** One for each item of the request, in its order. */
  items: ({
    /** The record's own id in the CRM; absent until there is one. */
    id?: string | undefined;
    /** Type of record that the result becomes. Known values: `quote`, `booking`. Others may be added; treat an unknown one as such. */
    type: 'quote' | 'booking' | (string & {});
    /** `existing`, `updated`: the item was handed off before. `accepted`, `awaiting_approval`: a hand-off of its own that waits. `failed`: it was refused; `problem` says why. Known values: `created`, `existing`, `updated`, `accepted`, `awaiting_approval`, `failed`. Others may be added; treat an unknown one as such. */
    status: 'created' | 'existing' | 'updated' | 'accepted' | 'awaiting_approval' | 'failed' | (string & {});
    /** External ID of the record, created by the gateway. */
    external_id: string | null;
    /** The problem document of an item that was refused. */
    problem?: JsonObject | undefined;
  })[];
}

export interface TripHandoff {
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id: string;
  /** External ID of the member. */
  member_id: string;
  /** Whether all items are handed off or none (default), or each on its own. */
  atomic?: boolean | undefined;
  /** The search results that were chosen. */
  items: ({
    /** Type of record that the result becomes in the CRM. */
    type: 'quote' | 'booking';
    /** The search result that was chosen. */
    result: {
      /** Name of the chosen offer, for people. */
      name: string;
      /** The supplier that it came from. */
      source: string;
      /** The search result itself, whatever it holds. */
      details: JsonObject;
    };
    /** When the offer ends; after that, nothing is created. */
    valid_until?: string | undefined;
    /** The offer's own reference at its source. If it is handed off again for the same trip, at any time and with any key, the offer is found and no second record is created. */
    reference?: string | undefined;
    /** Action if the offer was handed off before: `return` (default) changes nothing, `update` writes name and details again. Needs `reference`. */
    on_repeat?: 'return' | 'update' | undefined;
  })[];
}

/** An event on its way to an endpoint. */
export interface WebhookDelivery {
  /** Id of the delivery. */
  id: string;
  /** Id of the event, and `webhook-id` of its deliveries. */
  event_id: string;
  /** Type of the event. */
  event_type: string;
  /** `pending`: it will be sent, or sent again. `delivered` and `failed` aren't resent automatically. Known values: `pending`, `delivered`, `failed`. Others may be added; treat an unknown one as such. */
  status: 'pending' | 'delivered' | 'failed' | (string & {});
  /** The last 50, oldest first. */
  attempts: ({
    /** When it began. */
    at: string;
    /** HTTP status; null: there was no response. */
    status: number | null;
    /** How long it took. */
    duration_ms: number;
    /** Class of the failure: `http_` and the status, `dns`, `blocked_address`, `tls`, `timeout`, `connection`, `no_secret`, or `not_permitted` if the consumer may no longer read the event. Null: delivered. */
    error: string | null;
  })[];
  /** When it is sent next; null if it isn't. */
  next_attempt_at: string | null;
  /** The body, as text; only if the request has `event_id`. Null if the event is no longer kept, or the consumer may no longer read it. */
  body?: string | null | undefined;
}

/** A page of deliveries. */
export interface WebhookDeliveryPage {
  data: WebhookDelivery[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
  /** Whether there is a next page. */
  has_more: boolean;
}

/** Where a consumer wants its events sent. Nothing here is secret. */
export interface WebhookEndpoint {
  /** Id of the webhook endpoint. */
  id: string;
  /** Where events are sent: https, port 443, 80 or 1024 and up, no user name, a host with public addresses only. */
  url: string;
  /** Event types to send, optionally ending in `.*`. Empty: all that the consumer may read when they are sent. */
  event_types: string[];
  /** Scopes of the access token that created it or changed its URL: it gets only events that these and the consumer's permissions allow. Null: all that the consumer may read. */
  scopes: string[] | null;
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
  /** Where events are sent: https, port 443, 80 or 1024 and up, no user name, a host with public addresses only. */
  url?: string | undefined;
  /** Event types to send, optionally ending in `.*`. Empty: all that the consumer may read when they are sent. */
  event_types?: string[] | undefined;
  /** For people. */
  description?: string | null | undefined;
  /** False: nothing more is sent, and waiting deliveries fail. True: events from then on are sent. */
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
  /** How many events are being resent. */
  deliveries: number;
}

export interface WebhookRecoveryRequest {
  /** Events that were recorded earlier are left out. */
  since: string;
}

/** The new secret. */
export interface WebhookSecretRotation {
  /** Deliveries are signed with it, as Standard Webhooks says. Only this response shows it. */
  secret: string;
  /** Until then deliveries are also signed with the old secrets. */
  previous_expires_at: string;
}

export interface WebhookSecretRotationRequest {
  /** How long deliveries are also signed with the old secrets, fractions allowed; 0 ends them at once. */
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

/** Something that happened, by any caller. Other types may be added: ignore those that you do not know. */
export type GatewayEvent =
  | EventOf<'quote.created' | 'quote.updated', 'quote', Quote>
  | EventOf<'quote.deleted', 'quote', { id: string }>
  | EventOf<'booking.created' | 'booking.updated', 'booking', Booking>
  | EventOf<'booking.deleted', 'booking', { id: string }>
  | EventOf<'member.created' | 'member.updated', 'member', Member>
  | EventOf<'member.deleted', 'member', { id: string }>
  | EventOf<'handoff.awaiting_approval' | 'handoff.rejected' | 'handoff.created' | 'handoff.failed', 'handoff', Omit<AcceptedHandoff, 'id'>>
  | EventOf<'reservation.confirmed' | 'reservation.cancelled' | 'reservation.failed' | 'reservation.needs_attention', 'reservation', Reservation>
  | EventOf<'webhook_endpoint.disabled', 'webhook_endpoint', WebhookEndpoint>
  | EventOf<'consumer.allowance_used', 'consumer', JsonObject>
  | EventOf<'ping', string, JsonObject>;

/** Read who used the CRM quota: what can be asked for. */
export interface GetCrmUsageQuery {
  /** Calls of this hour and later; the last 90 days if left out. */
  from?: string | undefined;
  /** Calls of this hour and earlier; until now if left out. */
  to?: string | undefined;
  /** How the calls are grouped. */
  by?: 'consumer' | 'operation' | 'day' | undefined;
}

/** Read your own usage: what can be asked for. */
export interface GetOwnUsageQuery {
  /** This day (UTC) and later; the last 90 if left out. */
  from?: string | undefined;
  /** This day and earlier; until today if left out. */
  to?: string | undefined;
}

/** Read a consumer's usage: what can be asked for. */
export interface GetConsumerUsageQuery {
  /** This day (UTC) and later; the last 90 if left out. */
  from?: string | undefined;
  /** This day and earlier; until today if left out. */
  to?: string | undefined;
}

/** List queued hand-offs: what can be asked for. */
export interface ListHandoffsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** `awaiting_approval`: another consumer has to approve it first. `accepted`: it waits, or is being delivered. `created`: the CRM has the record. `failed`: it wasn't created; `problem` says why. `cancelled`: it won't be delivered. `rejected`: another consumer rejected it. */
  status?: 'awaiting_approval' | 'accepted' | 'created' | 'failed' | 'cancelled' | 'rejected' | undefined;
  /** Type of record that the result becomes. */
  type?: 'quote' | 'booking' | undefined;
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id?: string | undefined;
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** Read a queued hand-off: what can be asked for. */
export interface GetHandoffQuery {
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** List members: what can be asked for. */
export interface ListMembersQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** Only records with this text in `first_name` and `last_name`, `email`, or `phone`, ignoring case and leading or trailing white space. */
  q?: string | undefined;
  /** E-mail address. */
  email?: string | undefined;
  /** Only records with this `updated_at` or later, ordered by `updated_at` ascending, ties by id. Deleted records aren't in it; the event feed has them. */
  updated_since?: string | undefined;
}

/** List quotes: what can be asked for. */
export interface ListQuotesQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** Only records with this text in `name` or `source`, ignoring case and leading or trailing white space. */
  q?: string | undefined;
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** `created` at first, then whatever the CRM says. */
  status?: string | undefined;
  /** Id of the consumer that made the record. */
  consumer_id?: string | undefined;
  /** Only records with this `updated_at` or later, ordered by `updated_at` ascending, ties by id. Deleted records aren't in it; the event feed has them. */
  updated_since?: string | undefined;
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** Read a quote: what can be asked for. */
export interface GetQuoteQuery {
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** List bookings: what can be asked for. */
export interface ListBookingsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** Only records with this text in `name` or `source`, ignoring case and leading or trailing white space. */
  q?: string | undefined;
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id?: string | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** `created` at first, then whatever the CRM says. */
  status?: string | undefined;
  /** Id of the consumer that made the record. */
  consumer_id?: string | undefined;
  /** Only records with this `updated_at` or later, ordered by `updated_at` ascending, ties by id. Deleted records aren't in it; the event feed has them. */
  updated_since?: string | undefined;
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** Read a booking: what can be asked for. */
export interface GetBookingQuery {
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** List restaurants: what can be asked for. */
export interface ListMerchantsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** Part of the name or id of the restaurant, or of one of its services, ignoring case. */
  q?: string | undefined;
}

/** List reservations: what can be asked for. */
export interface ListReservationsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** State of the reservation. */
  status?: 'pending' | 'confirmed' | 'cancelled' | 'failed' | 'needs_attention' | undefined;
  /** External ID of the member. */
  member_id?: string | undefined;
  /** The trip it belongs to: a UUID that its caller makes, once for each trip. */
  trip_id?: string | undefined;
  /** Id of the consumer that made the record. */
  consumer_id?: string | undefined;
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** Check whether a table is free: what can be asked for. */
export interface GetTableAvailabilityQuery {
  /** The partner's id of the restaurant. */
  merchant_id: string;
  /** The partner's id of the service to book. */
  service_id: string;
  /** When the table is wanted: RFC 3339 in UTC (it ends in Z), whole seconds. */
  start_at: string;
  /** How many guests. */
  party_size: number;
}

/** Read a reservation: what can be asked for. */
export interface GetReservationQuery {
  /** Adds the member to each record: id, names and e-mail address. Needs members:read. */
  include?: 'member' | undefined;
}

/** Read the feed of events: what can be asked for. */
export interface ListEventsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** Only events of this type; may be repeated. */
  type?: ('quote.created' | 'quote.updated' | 'quote.deleted' | 'booking.created' | 'booking.updated' | 'booking.deleted' | 'member.created' | 'member.updated' | 'member.deleted' | 'handoff.awaiting_approval' | 'handoff.rejected' | 'handoff.created' | 'handoff.failed' | 'reservation.confirmed' | 'reservation.cancelled' | 'reservation.failed' | 'reservation.needs_attention' | 'webhook_endpoint.disabled' | 'consumer.allowance_used')[] | undefined;
  /** Only events of the resource with this id. */
  resource_id?: string | undefined;
  /** `newest_first`: from the newest event back, to look at what has happened; its last page has no cursor. To follow the feed, read it oldest first. */
  order?: 'oldest_first' | 'newest_first' | undefined;
  /** Only events with this `occurred_at` or a later one. */
  since?: string | undefined;
  /** `member`: adds the member: id, names and e-mail address; needs members:read. `record`: adds to hand-offs the record, or what will be written. May be repeated. */
  include?: ('member' | 'record')[] | undefined;
}

/** List webhook endpoints: what can be asked for. */
export interface ListWebhookEndpointsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
}

/** List deliveries: what can be asked for. */
export interface ListWebhookDeliveriesQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** `pending`: it will be sent, or sent again. `delivered` and `failed` aren't resent automatically. */
  status?: 'pending' | 'delivered' | 'failed' | undefined;
  /** Id of the event, and `webhook-id` of its deliveries. */
  event_id?: string | undefined;
}

/** List consumers: what can be asked for. */
export interface ListConsumersQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** Only consumers with this text in their name or id, ignoring case. */
  q?: string | undefined;
  /** `expired`: `validUntil` has passed. Revoked consumers aren't listed. */
  status?: 'active' | 'disabled' | 'expired' | undefined;
  /** `test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later. */
  mode?: 'live' | 'test' | undefined;
}

/** List your own authentication attempts: what can be asked for. */
export interface ListOwnAuthenticationAttemptsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** How the attempt ended. */
  result?: 'accepted' | 'missing' | 'unknown_key' | 'wrong_secret' | 'expired' | 'revoked' | 'disabled' | 'certificate' | 'address' | 'permission_denied' | undefined;
  /** The caller's address. It also finds the summaries for its network (for IPv6 the first 64 bits) beyond the limit. */
  address?: string | undefined;
  /** The API key that was presented. */
  api_key?: string | undefined;
  /** Id of the request, as in its response and its log line. */
  request_id?: string | undefined;
  /** Earlier attempts are left out. */
  since?: string | undefined;
}

/** List authentication attempts: what can be asked for. */
export interface ListAuthenticationAttemptsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** How the attempt ended. */
  result?: 'accepted' | 'missing' | 'unknown_key' | 'wrong_secret' | 'expired' | 'revoked' | 'disabled' | 'certificate' | 'address' | 'permission_denied' | undefined;
  /** The caller's address. It also finds the summaries for its network (for IPv6 the first 64 bits) beyond the limit. */
  address?: string | undefined;
  /** The API key that was presented. */
  api_key?: string | undefined;
  /** Id of the request, as in its response and its log line. */
  request_id?: string | undefined;
  /** Earlier attempts are left out. */
  since?: string | undefined;
  /** Id of the consumer. */
  consumer_id?: string | undefined;
}

/** List changes to consumers: what can be asked for. */
export interface ListAuditEventsQuery {
  /** Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; `has_more` says whether there are more. */
  limit?: number | undefined;
  /** The previous page's `next_cursor`. */
  cursor?: string | undefined;
  /** The action. If `enabled` changed together with other fields, it is `consumer.enabled` or `consumer.disabled`. */
  action?: 'consumer.created' | 'consumer.updated' | 'consumer.rotated' | 'consumer.disabled' | 'consumer.enabled' | 'consumer.revoked' | 'handoff.approved' | 'handoff.rejected' | undefined;
  /** Id of the consumer, name of the operating system user, or `service`. */
  actor_id?: string | undefined;
  /** Id of the consumer. */
  target_id?: string | undefined;
  /** Earlier events are left out. */
  since?: string | undefined;
}
