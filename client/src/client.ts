import { type List, listOf } from './list.ts';
import type { Reply } from './reply.ts';
import {
  type ClientOptions,
  type IncludeOptions,
  type Query,
  type ReadOptions,
  type RecordReadOptions,
  readHeaders,
  Transport,
  type WriteOptions,
} from './transport.ts';
import type {
  AcceptedHandoff,
  AuthenticationAttempt,
  Booking,
  BookingChange,
  Consumer,
  ConsumerUsageReport,
  CreatedWebhookEndpoint,
  GatewayEvent,
  GetOwnUsageQuery,
  GetTableAvailabilityQuery,
  HandoffAcceptance,
  HandoffCheck,
  HandoffConfirmation,
  HandoffRejection,
  HandoffRepetition,
  Health,
  History,
  ListBookingsQuery,
  ListEventsQuery,
  ListHandoffsQuery,
  ListMembersQuery,
  ListMerchantsQuery,
  ListOwnAuthenticationAttemptsQuery,
  ListQuotesQuery,
  ListReservationsQuery,
  ListWebhookDeliveriesQuery,
  ListWebhookEndpointsQuery,
  Member,
  Merchant,
  NewBooking,
  NewHandoff,
  NewQuote,
  NewReservation,
  NewWebhookEndpoint,
  Quote,
  QuoteChange,
  Reservation,
  Rotation,
  TableAvailability,
  Trip,
  TripConfirmation,
  TripHandoff,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEndpointChange,
  WebhookRecovery,
  WebhookRecoveryRequest,
  WebhookSecretRotation,
  WebhookSecretRotationRequest,
  WebhookTest,
} from './types.ts';

export interface HandOffOptions extends WriteOptions {
  /** Have it stored and delivered later: answered at once with the status `accepted`, whether or not the CRM is available. */
  respondAsync?: boolean | undefined;
  /** With `respondAsync`: how many seconds to wait for the CRM first, 20 at most. */
  waitSeconds?: number | undefined;
}

/** The record exists in the CRM. */
export interface CreatedHandoff extends HandoffConfirmation {
  status: 'created';
}

/** The offer with this `reference` was handed off before. */
export interface FoundHandoff extends HandoffRepetition {
  status: 'existing' | 'updated';
}

/** The hand-off is stored: for later, or until another consumer approves it. */
export interface StoredHandoff extends HandoffAcceptance {
  status: 'accepted' | 'awaiting_approval';
}

/** Reads one; with `ifNoneMatch` undefined stands for what has not changed. */
export interface Retrieve<Item, Options extends ReadOptions> {
  (id: string, options: Options & { ifNoneMatch: string }): Reply<Item | undefined>;
  (id: string, options?: Options): Reply<Item>;
}

/** Quotes or bookings. */
export interface RecordsApi<Item, NewItem, ItemChange, ListQuery> {
  create(body: NewItem, options?: WriteOptions): Reply<Item>;
  retrieve: Retrieve<Item, RecordReadOptions & IncludeOptions>;
  update(id: string, change: ItemChange, options?: WriteOptions): Reply<Item>;
  delete(id: string, options?: WriteOptions): Reply<void>;
  list(query?: ListQuery, options?: RecordReadOptions): List<Item>;
  history(id: string, options?: ReadOptions): Reply<History>;
}

export interface MembersApi {
  retrieve: Retrieve<Member, RecordReadOptions>;
  list(query?: ListMembersQuery, options?: RecordReadOptions): List<Member>;
}

export interface ReservationsApi {
  create(body: NewReservation, options?: WriteOptions): Reply<Reservation>;
  retrieve: Retrieve<Reservation, ReadOptions & IncludeOptions>;
  list(query?: ListReservationsQuery, options?: ReadOptions): List<Reservation>;
  /** Whether a table is free; nothing is held. */
  availability(query: GetTableAvailabilityQuery, options?: ReadOptions): Reply<TableAvailability>;
  cancel(id: string, options?: WriteOptions): Reply<void>;
  history(id: string, options?: ReadOptions): Reply<History>;
}

/**
 * A client of Handoff Gateway. Every write has an Idempotency-Key, which its retries keep, so that it is done once. Lists are
 * read page by page with `for await`. Numbers that JavaScript would change are JsonNumber objects.
 */
export class HandoffClient {
  readonly quotes: RecordsApi<Quote, NewQuote, QuoteChange, ListQuotesQuery>;
  readonly bookings: RecordsApi<Booking, NewBooking, BookingChange, ListBookingsQuery>;
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
    this.quotes = this.#records('/v1/quotes');
    this.bookings = this.#records('/v1/bookings');
  }

  /**
   * Hands a chosen search result off to the CRM, as a quote or a booking. `status` of the answer says whether the record
   * exists. A hand-off can be stored without `respondAsync` too: where it needs approval, and where the service is set up to
   * store hand-offs while the CRM is unavailable.
   */
  handOff(
    body: NewHandoff & { reference: string },
    options?: HandOffOptions,
  ): Reply<CreatedHandoff | FoundHandoff | StoredHandoff>;
  handOff(body: NewHandoff, options?: HandOffOptions): Reply<CreatedHandoff | StoredHandoff>;
  handOff(
    body: NewHandoff,
    options: HandOffOptions = {},
  ): Reply<CreatedHandoff | FoundHandoff | StoredHandoff> {
    return this.#handOff('/api/v1/handoff', body, options);
  }

  /** Hands several results of a trip off: all of them or none, unless `atomic` is false. */
  handOffTrip(body: TripHandoff, options: HandOffOptions = {}): Reply<TripConfirmation> {
    return this.#handOff('/api/v1/handoffs', body, options);
  }

  /** All that `handOff` would be refused for, and warnings, at once; nothing is written. */
  checkHandOff(body: NewHandoff, options: ReadOptions = {}): Reply<HandoffCheck> {
    return this.#check('/api/v1/handoff/check', body, options);
  }

  /** All that `handOffTrip` would be refused for, and warnings, at once; nothing is written. */
  checkHandOffTrip(body: TripHandoff, options: ReadOptions = {}): Reply<HandoffCheck> {
    return this.#check('/api/v1/handoffs/check', body, options);
  }

  readonly trips = {
    /** Its members, quotes, bookings, reservations, and hand-offs that wait or have failed. */
    retrieve: (id: string, options?: RecordReadOptions): Reply<Trip> =>
      this.#get(`/v1/trips/${part(id)}`, options),
  };

  readonly diningMerchants = {
    list: (query?: ListMerchantsQuery, options?: ReadOptions): List<Merchant> =>
      this.#list('/v1/dining/merchants', query, options),
  };

  readonly members: MembersApi = {
    retrieve: this.#retrieve('/v1/members'),
    list: (query, options) => this.#list('/v1/members', query, options),
  };

  readonly reservations: ReservationsApi = {
    create: (body, options) => this.#write('POST', '/v1/reservations', body, options),
    retrieve: this.#retrieve('/v1/reservations'),
    history: (id, options) => this.#history('/v1/reservations', id, options),
    list: (query, options) => this.#list('/v1/reservations', query, options),
    availability: (query, options) => this.#get('/v1/reservations/availability', options, query),
    cancel: (id, options) => this.#write('DELETE', `/v1/reservations/${part(id)}`, undefined, options),
  };

  /** Hand-offs that were answered before the CRM had them. */
  readonly handoffs = {
    retrieve: (externalId: string, options?: ReadOptions & IncludeOptions): Reply<AcceptedHandoff> =>
      this.#get(`/v1/handoffs/${part(externalId)}`, options, includedBy(options)),
    history: (externalId: string, options?: ReadOptions): Reply<History> =>
      this.#history('/v1/handoffs', externalId, options),
    list: (query?: ListHandoffsQuery, options?: ReadOptions): List<AcceptedHandoff> =>
      this.#list('/v1/handoffs', query, options),
    /** Tries one that failed again. */
    retry: (externalId: string, options?: WriteOptions): Reply<HandoffAcceptance> =>
      this.#write('POST', `/v1/handoffs/${part(externalId)}/retry`, undefined, options),
    /** Approves one that another consumer made and that waits for it. */
    approve: (externalId: string, options?: WriteOptions): Reply<AcceptedHandoff> =>
      this.#write('POST', `/v1/handoffs/${part(externalId)}/approve`, undefined, options),
    reject: (externalId: string, body: HandoffRejection, options?: WriteOptions): Reply<AcceptedHandoff> =>
      this.#write('POST', `/v1/handoffs/${part(externalId)}/reject`, body, options),
    cancel: (externalId: string, options?: WriteOptions): Reply<void> =>
      this.#write('DELETE', `/v1/handoffs/${part(externalId)}`, undefined, options),
  };

  readonly events = {
    /** Oldest first. The `next_cursor` of the last page is where to go on later. */
    list: (query?: ListEventsQuery, options?: ReadOptions): List<GatewayEvent> =>
      this.#list('/v1/events', query, options),
  };

  readonly webhookEndpoints = {
    /** `secret` of the answer is shown only here. */
    create: (body: NewWebhookEndpoint, options?: WriteOptions): Reply<CreatedWebhookEndpoint> =>
      this.#write('POST', endpoints, body, options),
    retrieve: (id: string, options?: ReadOptions): Reply<WebhookEndpoint> =>
      this.#get(`${endpoints}/${part(id)}`, options),
    list: (query?: ListWebhookEndpointsQuery, options?: ReadOptions): List<WebhookEndpoint> =>
      this.#list(endpoints, query, options),
    update: (id: string, change: WebhookEndpointChange, options?: WriteOptions): Reply<WebhookEndpoint> =>
      this.#write('PATCH', `${endpoints}/${part(id)}`, change, options),
    delete: (id: string, options?: WriteOptions): Reply<void> =>
      this.#write('DELETE', `${endpoints}/${part(id)}`, undefined, options),
    /** Until `previous_expires_at` both secrets sign. */
    rotateSecret: (
      id: string,
      body: WebhookSecretRotationRequest = {},
      options?: WriteOptions,
    ): Reply<WebhookSecretRotation> =>
      this.#write('POST', `${endpoints}/${part(id)}/rotate-secret`, body, options),
    /** Sends an event of type `ping`. */
    test: (id: string, options?: WriteOptions): Reply<WebhookTest> =>
      this.#write('POST', `${endpoints}/${part(id)}/test`, undefined, options),
    deliveries: (
      id: string,
      query?: ListWebhookDeliveriesQuery,
      options?: ReadOptions,
    ): List<WebhookDelivery> => this.#list(`${endpoints}/${part(id)}/deliveries`, query, options),
    resend: (id: string, deliveryId: string, options?: WriteOptions): Reply<void> =>
      this.#write(
        'POST',
        `${endpoints}/${part(id)}/deliveries/${part(deliveryId)}/resend`,
        undefined,
        options,
      ),
    /** Sends again what was not delivered since then. */
    recover: (id: string, body: WebhookRecoveryRequest, options?: WriteOptions): Reply<WebhookRecovery> =>
      this.#write('POST', `${endpoints}/${part(id)}/recover`, body, options),
  };

  readonly consumer = {
    /** The consumer that these credentials belong to. */
    retrieve: (options?: ReadOptions): Reply<Consumer> => this.#get('/v1/consumer', options),
    /**
     * Makes a new pair, which the answer has this once; the active one stays valid for the grace window. It is not sent again by
     * itself: where the answer was lost, ask the operator for a pair.
     */
    rotate: (body: { grace_window_hours?: number } = {}, options?: WriteOptions): Reply<Rotation> =>
      this.#transport.send({
        method: 'POST',
        path: '/v1/consumer/rotate',
        body,
        write: options ?? {},
        isOnce: true,
      }),
    usage: (query?: GetOwnUsageQuery, options?: ReadOptions): Reply<ConsumerUsageReport> =>
      this.#get('/v1/consumer/usage', options, query),
    /** Authentication attempts, newest first. */
    attempts: (
      query?: ListOwnAuthenticationAttemptsQuery,
      options?: ReadOptions,
    ): List<AuthenticationAttempt> => this.#list('/v1/consumer/auth-attempts', query, options),
  };

  readonly test = {
    /** Empties the world of a test consumer. */
    reset: (options?: WriteOptions): Reply<void> => this.#write('POST', '/v1/test/reset', undefined, options),
  };

  /** Whether the service and the systems behind it are available; resolves where they are not, too. */
  health(options: ReadOptions = {}): Reply<Health> {
    return this.#transport.send({ method: 'GET', path: '/v1/healthz', resultStatus: 503, ...options });
  }

  #records<Item, NewItem, ItemChange, ListQuery extends Query>(
    path: string,
  ): RecordsApi<Item, NewItem, ItemChange, ListQuery> {
    return {
      create: (body, options) => this.#write('POST', path, body, options),
      retrieve: this.#retrieve(path),
      update: (id, change, options) => this.#write('PATCH', `${path}/${part(id)}`, change, options),
      delete: (id, options) => this.#write('DELETE', `${path}/${part(id)}`, undefined, options),
      list: (query, options) => this.#list(path, query, options),
      history: (id, options) => this.#history(path, id, options),
    };
  }

  #handOff<Answer>(path: string, body: unknown, options: HandOffOptions): Reply<Answer> {
    const { respondAsync, waitSeconds, ...write } = options;
    const wait = waitSeconds === undefined ? '' : `, wait=${waitSeconds}`;
    const headers: Record<string, string> = respondAsync ? { prefer: `respond-async${wait}` } : {};
    return this.#transport.send({ method: 'POST', path, body, write, headers });
  }

  #check(path: string, body: unknown, { signal }: ReadOptions): Reply<HandoffCheck> {
    return this.#transport.send({ method: 'POST', path, body, signal });
  }

  #retrieve<Item, Options extends ReadOptions & IncludeOptions>(path: string): Retrieve<Item, Options> {
    return (id: string, options?: Options) =>
      this.#get<Item>(`${path}/${part(id)}`, options, includedBy(options));
  }

  #history(path: string, id: string, options: ReadOptions | undefined): Reply<History> {
    return this.#get(`${path}/${part(id)}/history`, options);
  }

  #get<Answer>(path: string, options: RecordReadOptions = {}, query?: Query): Reply<Answer> {
    const { signal } = options;
    return this.#transport.send({ method: 'GET', path, query, signal, headers: readHeaders(options) });
  }

  #write<Answer>(
    method: 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body: unknown,
    write: WriteOptions = {},
  ): Reply<Answer> {
    return this.#transport.send({ method, path, body, write });
  }

  #list<Item>(path: string, query: Query | undefined, options: RecordReadOptions | undefined): List<Item> {
    return listOf(this.#transport, path, query, options);
  }
}

function includedBy({ include }: IncludeOptions = {}): Query | undefined {
  return include && { include };
}

const endpoints = '/v1/webhook-endpoints';

/** An id as one part of a path; an empty one would ask for the list. */
function part(id: string): string {
  if (!id) throw new TypeError('the id is missing');
  return encodeURIComponent(id);
}
