/** What all problems with one code have in common. */
interface ProblemKind {
  status: number;
  title: string;
  /** What the caller should do; for the reference page. */
  advice: string;
}

/**
 * Every error that the service can answer with: one table of codes, and the exception that carries one of them.
 * Inner layers throw a `Problem` with a code and facts; `api/pipeline/problem-answer.ts` alone turns it into HTTP.
 * A code is only ever added or retired, never given another meaning.
 */
export const problems = {
  invalid_request: {
    status: 400,
    title: 'The request is not valid',
    advice: 'Mend what `errors` names and send the request again.',
  },
  malformed_json: {
    status: 400,
    title: 'The body is not JSON',
    advice: 'Send one JSON value in UTF-8. `detail` tells the place of the fault.',
  },
  idempotency_key_missing: {
    status: 400,
    title: 'The Idempotency-Key header is missing',
    advice: 'Send an Idempotency-Key header with a new UUID.',
  },
  idempotency_key_invalid: {
    status: 400,
    title: 'The Idempotency-Key header is not a UUID',
    advice: 'Send one UUID, bare or in double quotes.',
  },
  invalid_cursor: {
    status: 400,
    title: 'The cursor is not valid for this list',
    advice: 'Start the list again without `cursor`, with the same filters on every page.',
  },
  invalid_credentials: {
    status: 401,
    title: 'The credentials are missing or not valid',
    advice:
      'Check both headers. Do not repeat: the same credentials get the same answer until somebody changes them.',
  },
  permission_denied: {
    status: 403,
    title: 'The credentials lack a permission',
    advice: 'Ask the operator for the permission that `required` names.',
  },
  not_found: {
    status: 404,
    title: 'There is nothing here',
    advice: 'Check the path and the id. A record that existed has been deleted.',
  },
  method_not_allowed: {
    status: 405,
    title: 'The method is not allowed here',
    advice: 'Use one of the methods in the Allow header.',
  },
  idempotency_in_progress: {
    status: 409,
    title: 'The first request with this key is still running',
    advice: 'Wait as long as Retry-After says and send the same request with the same key.',
  },
  conflict: {
    status: 409,
    title: 'The request conflicts with the state of the record',
    advice: 'Read the record again and decide anew.',
  },
  precondition_failed: {
    status: 412,
    title: 'The record is not in the state that If-Match asks for',
    advice: 'Read the record again, and send the change with its new ETag.',
  },
  payload_too_large: {
    status: 413,
    title: 'The body is too large',
    advice: 'Send at most 1 MiB (1,048,576 bytes), and 64 KiB (65,536 bytes) as a webhook.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'The content type is not supported',
    advice: 'Send `Content-Type: application/json`.',
  },
  idempotency_key_reused: {
    status: 422,
    title: 'The Idempotency-Key was used for another request',
    advice: 'Take a new key for a new request. To repeat a request, send it byte for byte as it was.',
  },
  member_not_found: {
    status: 422,
    title: 'The member does not exist',
    advice:
      "Check the member's External ID; the member must exist in the CRM. Then send the request with a new key, if with any.",
  },
  details_too_large: {
    status: 422,
    title: 'The details are too large for the CRM',
    advice: 'Shorten the details to what `detail` says the CRM holds.',
  },
  crm_rejected: {
    status: 422,
    title: 'The CRM refused the record',
    advice:
      "Mend what `errors` names, and take a new key, if any. The rule is the CRM's; its administrator knows it.",
  },
  partner_rejected: {
    status: 422,
    title: 'The partner refused the reservation',
    advice: 'Read `cause`, and offer the guest something else.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    advice: 'Wait as long as Retry-After says, and send less.',
  },
  internal_error: {
    status: 500,
    title: 'Something went wrong in the service',
    advice: 'Tell the operator the `request_id`. With an Idempotency-Key the same request may be sent again.',
  },
  crm_error: {
    status: 502,
    title: 'The CRM gave an answer that the service cannot use',
    advice:
      'Tell the operator the `request_id`: the CRM has to be looked at. If `detail` says that the outcome is unknown, do what it says.',
  },
  partner_error: {
    status: 502,
    title: 'The partner gave an answer that the service cannot use',
    advice: 'Tell the operator the `request_id`. With an Idempotency-Key the same request may be sent again.',
  },
  crm_unavailable: {
    status: 503,
    title: 'The CRM is not available',
    advice:
      'Wait as long as Retry-After says and send the request again. If `detail` says that the outcome is unknown, do what it says first.',
  },
  crm_quota_exhausted: {
    status: 503,
    title: 'The quota of CRM calls is used up',
    advice: 'Wait as long as Retry-After says. The operator can raise the quota or see who uses it up.',
  },
  partner_unavailable: {
    status: 503,
    title: 'The partner is not available',
    advice: 'Wait as long as Retry-After says and send the same request with the same key.',
  },
  store_unavailable: {
    status: 503,
    title: 'The database is not available',
    advice: 'Wait as long as Retry-After says and send the same request with the same key.',
  },
  secrets_unavailable: {
    status: 503,
    title: 'The secrets manager is not available',
    advice: 'Wait as long as Retry-After says and send the request again.',
  },
  crm_timeout: {
    status: 504,
    title: 'The CRM did not answer in time',
    advice:
      'Send the request again later. If `detail` says that the outcome is unknown, do what it says first.',
  },
  partner_timeout: {
    status: 504,
    title: 'The partner did not answer in time',
    advice: 'Send the same request with the same key.',
  },
} as const satisfies Record<string, ProblemKind>;

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
  /** The partner's own word for its refusal; shown as `cause`. */
  partnerCause?: string;
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
