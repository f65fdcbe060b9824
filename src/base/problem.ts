/**
 * Every error that the service can answer with: one table of codes, and the exception that carries one of them.
 * Inner layers throw a `Problem` with a code and facts; `api/pipeline/problem-response.ts` alone turns it into HTTP.
 * A code is only ever added or retired, never given another meaning.
 */
export const problems = {
  invalid_request: { status: 400, title: 'The request is not valid' },
  malformed_json: { status: 400, title: 'The body is not JSON' },
  idempotency_key_missing: { status: 400, title: 'The Idempotency-Key header is missing' },
  idempotency_key_invalid: { status: 400, title: 'The Idempotency-Key header is not a UUID' },
  invalid_cursor: { status: 400, title: 'The cursor is not valid for this list' },
  invalid_credentials: { status: 401, title: 'The credentials are missing or not valid' },
  permission_denied: { status: 403, title: 'The credentials lack a permission' },
  not_found: { status: 404, title: 'There is nothing here' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  idempotency_in_progress: { status: 409, title: 'The first request with this key is still running' },
  conflict: { status: 409, title: 'The request conflicts with the state of the record' },
  precondition_failed: { status: 412, title: 'The record is not in the state that If-Match asks for' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: { status: 415, title: 'The content type is not supported' },
  idempotency_key_reused: { status: 422, title: 'The Idempotency-Key was used for another request' },
  member_not_found: { status: 422, title: 'The member does not exist' },
  details_too_large: { status: 422, title: 'The details are too large for the CRM' },
  crm_rejected: { status: 422, title: 'The CRM refused the record' },
  partner_rejected: { status: 422, title: 'The partner refused the reservation' },
  rate_limited: { status: 429, title: 'Too many requests' },
  internal_error: { status: 500, title: 'Something went wrong in the service' },
  crm_error: { status: 502, title: 'The CRM gave an answer that the service cannot use' },
  partner_error: { status: 502, title: 'The partner gave an answer that the service cannot use' },
  crm_unavailable: { status: 503, title: 'The CRM is not available' },
  crm_quota_exhausted: { status: 503, title: 'The quota of CRM calls is used up' },
  partner_unavailable: { status: 503, title: 'The partner is not available' },
  store_unavailable: { status: 503, title: 'The database is not available' },
  secrets_unavailable: { status: 503, title: 'The secrets manager is not available' },
  crm_timeout: { status: 504, title: 'The CRM did not answer in time' },
  partner_timeout: { status: 504, title: 'The partner did not answer in time' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ProblemCode = keyof typeof problems;

/** Where in the request a fault lies, and what to do about it: a JSON Pointer as URI fragment, or a name. */
export type Fault =
  | { pointer: string; message: string }
  | { parameter: string; message: string }
  | { header: string; message: string };

export interface ProblemFacts {
  errors?: Fault[];
  required?: { resource: string; action: string };
  /** Seconds after which a repeat may help. */
  retryAfter?: number;
  /** A write was sent and nobody knows whether it took effect. */
  outcomeUnknown?: boolean;
  /** The External ID of the record that such a write would have made. */
  externalId?: string;
  /** Methods that the path does answer, for 405. */
  allow?: string[];
  /** What happened inside; logged, never sent. */
  cause?: unknown;
}

/** An error with a code of the table, a sentence for the caller, and facts. The message may leave the service. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly facts: ProblemFacts;

  constructor(code: ProblemCode, detail: string, facts: ProblemFacts = {}) {
    super(detail, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = 'Problem';
    this.code = code;
    this.facts = facts;
  }

  get status(): number {
    return problems[this.code].status;
  }
}
