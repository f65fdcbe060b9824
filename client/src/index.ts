export {
  type CreatedHandoff,
  type HandOffOptions,
  HandoffClient,
  type RecordsApi,
  type StoredHandoff,
} from './client.ts';
export type {
  KeyCredentials,
  PairCredentials,
  PrivateCryptoKey,
  PrivateKeyJwk,
  TokenCredentials,
} from './credentials.ts';
export { JsonNumber, type JsonObject, type JsonValue } from './json.ts';
export type { List, Page } from './list.ts';
export { HandoffConnectionError, HandoffProblem } from './problem.ts';
export type { ClientOptions, ReadOptions, RecordReadOptions, WriteOptions } from './transport.ts';
export type * from './types.ts';
/** Its name in 0.1. */
export type { NewHandoff as Handoff } from './types.ts';
export { makeUuid } from './uuid.ts';
export { unwrapWebhook, type WebhookHeaders, WebhookVerificationError } from './webhook.ts';
