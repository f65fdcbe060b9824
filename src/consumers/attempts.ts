/** How an attempt to authenticate ended. */
export const attemptResults = [
  'accepted',
  'missing',
  'unknown_key',
  'wrong_secret',
  'expired',
  'revoked',
  'certificate',
  'permission_denied',
] as const;

export type AttemptResult = (typeof attemptResults)[number];

/** One attempt, accepted or not; never holds a key or a secret. */
export interface Attempt {
  /** Null only when the key is unknown. */
  consumer_id: string | null;
  /** Method and route pattern, e.g. `GET /v1/quotes/:id`. */
  endpoint: string;
  result: AttemptResult;
  /** RFC 3339 UTC with milliseconds. */
  timestamp: string;
  request_id: string;
}

/** Where attempts go. Recording never fails and never waits: a request does not depend on it. */
export interface AttemptRecorder {
  record(attempt: Attempt): void;
}
