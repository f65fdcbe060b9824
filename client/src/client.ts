import { type List, listOf } from './list.ts';
import {
  ageHeaders,
  type ClientOptions,
  type Query,
  type ReadOptions,
  type RecordReadOptions,
  Transport,
  type WriteOptions,
} from './transport.ts';
import type {
  AcceptedHandoff,
  Booking,
  BookingChange,
  Consumer,
  CreatedWebhookEndpoint,
  GatewayEvent,
  GetTableAvailabilityQuery,
  HandoffAcceptance,
  HandoffConfirmation,
  HandoffRejection,
  Health,
  ListBookingsQuery,
  ListEventsQuery,
  ListHandoffsQuery,
  ListMembersQuery,
  ListQuotesQuery,
  ListReservationsQuery,
  ListWebhookDeliveriesQuery,
  ListWebhookEndpointsQuery,
  Member,
  NewBooking,
  NewHandoff,
  NewQuote,
  NewReservation,
  NewWebhookEndpoint,
  Quote,
  QuoteChange,
  Reservation,
  TableAvailability,
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

/** The hand-off is stored: for later, or until another consumer approves it. */
export interface StoredHandoff extends HandoffAcceptance {
  status: 'accepted' | 'awaiting_approval';
}

/** Quotes or bookings. */
export interface RecordsApi<Item, NewItem, ItemChange, ListQuery> {
  create(body: NewItem, options?: WriteOptions): Promise<Item>;
  retrieve(id: string, options?: RecordReadOptions): Promise<Item>;
  update(id: string, change: ItemChange, options?: WriteOptions): Promise<Item>;
  delete(id: string, options?: WriteOptions): Promise<void>;
  list(query?: ListQuery, options?: RecordReadOptions): List<Item>;
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
  handOff(body: NewHandoff, options: HandOffOptions = {}): Promise<CreatedHandoff | StoredHandoff> {
    const { respondAsync, waitSeconds, ...write } = options;
    const wait = waitSeconds === undefined ? '' : `, wait=${waitSeconds}`;
    const headers: Record<string, string> = respondAsync ? { prefer: `respond-async${wait}` } : {};
    return this.#transport.send({ method: 'POST', path: '/api/v1/handoff', body, write, headers });
  }

  readonly members = {
    retrieve: (id: string, options?: RecordReadOptions): Promise<Member> =>
      this.#get(`/v1/members/${part(id)}`, options),
    list: (query?: ListMembersQuery, options?: RecordReadOptions): List<Member> =>
      this.#list('/v1/members', query, options),
  };

  readonly reservations = {
    create: (body: NewReservation, options?: WriteOptions): Promise<Reservation> =>
      this.#write('POST', '/v1/reservations', body, options),
    retrieve: (id: string, options?: ReadOptions): Promise<Reservation> =>
      this.#get(`/v1/reservations/${part(id)}`, options),
    list: (query?: ListReservationsQuery, options?: ReadOptions): List<Reservation> =>
      this.#list('/v1/reservations', query, options),
    /** Whether a table is free; nothing is held. */
    availability: (query: GetTableAvailabilityQuery, options?: ReadOptions): Promise<TableAvailability> =>
      this.#get('/v1/reservations/availability', options, query),
    cancel: (id: string, options?: WriteOptions): Promise<void> =>
      this.#write('DELETE', `/v1/reservations/${part(id)}`, undefined, options),
  };

  /** Hand-offs that were answered before the CRM had them. */
  readonly handoffs = {
    retrieve: (externalId: string, options?: ReadOptions): Promise<AcceptedHandoff> =>
      this.#get(`/v1/handoffs/${part(externalId)}`, options),
    list: (query?: ListHandoffsQuery, options?: ReadOptions): List<AcceptedHandoff> =>
      this.#list('/v1/handoffs', query, options),
    /** Tries one that failed again. */
    retry: (externalId: string, options?: WriteOptions): Promise<HandoffAcceptance> =>
      this.#write('POST', `/v1/handoffs/${part(externalId)}/retry`, undefined, options),
    /** Approves one that another consumer made and that waits for it. */
    approve: (externalId: string, options?: WriteOptions): Promise<AcceptedHandoff> =>
      this.#write('POST', `/v1/handoffs/${part(externalId)}/approve`, undefined, options),
    reject: (externalId: string, body: HandoffRejection, options?: WriteOptions): Promise<AcceptedHandoff> =>
      this.#write('POST', `/v1/handoffs/${part(externalId)}/reject`, body, options),
    cancel: (externalId: string, options?: WriteOptions): Promise<void> =>
      this.#write('DELETE', `/v1/handoffs/${part(externalId)}`, undefined, options),
  };

  readonly events = {
    /** Oldest first. The `next_cursor` of the last page is where to go on later. */
    list: (query?: ListEventsQuery, options?: ReadOptions): List<GatewayEvent> =>
      this.#list('/v1/events', query, options),
  };

  readonly webhookEndpoints = {
    /** `secret` of the answer is shown only here. */
    create: (body: NewWebhookEndpoint, options?: WriteOptions): Promise<CreatedWebhookEndpoint> =>
      this.#write('POST', endpoints, body, options),
    retrieve: (id: string, options?: ReadOptions): Promise<WebhookEndpoint> =>
      this.#get(`${endpoints}/${part(id)}`, options),
    list: (query?: ListWebhookEndpointsQuery, options?: ReadOptions): List<WebhookEndpoint> =>
      this.#list(endpoints, query, options),
    update: (id: string, change: WebhookEndpointChange, options?: WriteOptions): Promise<WebhookEndpoint> =>
      this.#write('PATCH', `${endpoints}/${part(id)}`, change, options),
    delete: (id: string, options?: WriteOptions): Promise<void> =>
      this.#write('DELETE', `${endpoints}/${part(id)}`, undefined, options),
    /** Until `previous_expires_at` both secrets sign. */
    rotateSecret: (
      id: string,
      body: WebhookSecretRotationRequest = {},
      options?: WriteOptions,
    ): Promise<WebhookSecretRotation> =>
      this.#write('POST', `${endpoints}/${part(id)}/rotate-secret`, body, options),
    /** Sends an event of type `ping`. */
    test: (id: string, options?: WriteOptions): Promise<WebhookTest> =>
      this.#write('POST', `${endpoints}/${part(id)}/test`, undefined, options),
    deliveries: (
      id: string,
      query?: ListWebhookDeliveriesQuery,
      options?: ReadOptions,
    ): List<WebhookDelivery> => this.#list(`${endpoints}/${part(id)}/deliveries`, query, options),
    resend: async (id: string, deliveryId: string, options?: WriteOptions): Promise<void> => {
      await this.#write(
        'POST',
        `${endpoints}/${part(id)}/deliveries/${part(deliveryId)}/resend`,
        undefined,
        options,
      );
    },
    /** Sends again what was not delivered since then. */
    recover: (id: string, body: WebhookRecoveryRequest, options?: WriteOptions): Promise<WebhookRecovery> =>
      this.#write('POST', `${endpoints}/${part(id)}/recover`, body, options),
  };

  readonly consumer = {
    /** The consumer that these credentials belong to. */
    retrieve: (options?: ReadOptions): Promise<Consumer> => this.#get('/v1/consumer', options),
  };

  /** Whether the service and the systems behind it are available; resolves where they are not, too. */
  health(options: ReadOptions = {}): Promise<Health> {
    return this.#transport.send({ method: 'GET', path: '/v1/healthz', resultStatus: 503, ...options });
  }

  #records<Item, NewItem, ItemChange, ListQuery extends Query>(
    path: string,
  ): RecordsApi<Item, NewItem, ItemChange, ListQuery> {
    return {
      create: (body, options) => this.#write('POST', path, body, options),
      retrieve: (id, options) => this.#get(`${path}/${part(id)}`, options),
      update: (id, change, options) => this.#write('PATCH', `${path}/${part(id)}`, change, options),
      delete: (id, options) => this.#write('DELETE', `${path}/${part(id)}`, undefined, options),
      list: (query, options) => this.#list(path, query, options),
    };
  }

  #get<Answer>(path: string, options: RecordReadOptions = {}, query?: Query): Promise<Answer> {
    const { signal } = options;
    return this.#transport.send({ method: 'GET', path, query, signal, headers: ageHeaders(options) });
  }

  #write<Answer>(
    method: 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body: unknown,
    write: WriteOptions = {},
  ): Promise<Answer> {
    return this.#transport.send({ method, path, body, write });
  }

  #list<Item>(path: string, query: Query | undefined, options: RecordReadOptions | undefined): List<Item> {
    return listOf(this.#transport, path, query, options);
  }
}

const endpoints = '/v1/webhook-endpoints';

/** An id as one part of a path; an empty one would ask for the list. */
function part(id: string): string {
  if (!id) throw new TypeError('the id is missing');
  return encodeURIComponent(id);
}
