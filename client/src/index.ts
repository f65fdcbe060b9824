export {
  type CreatedHandoff,
  type FoundHandoff,
  type HandOffOptions,
  HandoffClient,
  type MembersApi,
  type RecordsApi,
  type ReservationsApi,
  type Retrieve,
  type StoredHandoff,
} from './client.ts';
export type {
  KeyCredentials,
  PairCredentials,
  PrivateCryptoKey,
  PrivateKeyJwk,
  TokenCredentials,
} from './credentials.ts';
export { JsonNumber, type JsonObject, type JsonValue, writeJson } from './json.ts';
export type { List, Page } from './list.ts';
export { HandoffConnectionError, HandoffProblem } from './problem.ts';
export type { Reply, WithMeta } from './reply.ts';
export type {
  ClientOptions,
  IncludeOptions,
  ReadOptions,
  RecordReadOptions,
  WriteOptions,
} from './transport.ts';
export type * from './types.ts';
/** Its name in 0.1. */
export type { NewHandoff as Handoff } from './types.ts';
export { makeUuid } from './uuid.ts';
export { unwrapWebhook, type WebhookHeaders, WebhookVerificationError } from './webhook.ts';
