export { type HandOffOptions, HandoffClient, type RecordsApi } from './client.ts';
export type * from './contract.ts';
export { JsonNumber, type JsonObject, type JsonValue } from './json.ts';
export type { List, Page } from './list.ts';
export { HandoffConnectionError, HandoffProblem } from './problem.ts';
export type { ClientOptions, ReadOptions, WriteOptions } from './transport.ts';
export type {
  AcceptedHandoff,
  Booking,
  BookingChange,
  Consumer,
  Fault,
  GetTableAvailabilityQuery,
  Handoff,
  HandoffAcceptance,
  HandoffConfirmation,
  Health,
  ListBookingsQuery,
  ListHandoffsQuery,
  ListMembersQuery,
  ListQuotesQuery,
  ListReservationsQuery,
  Member,
  NewBooking,
  NewQuote,
  NewReservation,
  Problem,
  Quote,
  QuoteChange,
  Reservation,
  TableAvailability,
} from './types.ts';
export { unwrapWebhook, type WebhookHeaders, WebhookVerificationError } from './webhook.ts';
