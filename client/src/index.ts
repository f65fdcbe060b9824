export { type HandOffOptions, HandoffClient, type RecordsApi } from './client.ts';
export type * from './contract.ts';
export { JsonNumber, type JsonObject, type JsonValue } from './json.ts';
export type { List, Page } from './list.ts';
export { HandoffConnectionError, HandoffProblem } from './problem.ts';
export type { ClientOptions, ReadOptions, WriteOptions } from './transport.ts';
export type {
  Booking,
  BookingChange,
  Consumer,
  Fault,
  Handoff,
  HandoffConfirmation,
  Health,
  ListBookingsQuery,
  ListMembersQuery,
  ListQuotesQuery,
  Member,
  NewBooking,
  NewQuote,
  NewReservation,
  Problem,
  Quote,
  QuoteChange,
  Reservation,
} from './types.ts';
export { unwrapWebhook, type WebhookHeaders, WebhookVerificationError } from './webhook.ts';
