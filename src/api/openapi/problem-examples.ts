import { Problem, type ProblemCode, type ProblemFacts } from '../../base/problem.ts';

type Example = [detail: string, facts?: ProblemFacts];

/**
 * One occurrence of each problem, as an answer would tell it. Whatever has `retryAfter` here is documented with the
 * header Retry-After.
 */
const occurrences: Record<ProblemCode, Example> = {
  invalid_request: [
    'The body is not valid: #/trip_id must be a UUID.',
    { errors: [{ pointer: '#/trip_id', message: 'must be a UUID' }] },
  ],
  malformed_json: ['The body is not JSON: the fault is at position 17 (line 1 column 18).'],
  idempotency_key_missing: [
    'The Idempotency-Key header is missing; send a new UUID with each new write, and the same one when you repeat it.',
    { errors: [{ header: 'Idempotency-Key', message: 'is missing' }] },
  ],
  idempotency_key_invalid: [
    'The Idempotency-Key header must be one UUID, bare or in double quotes.',
    {
      errors: [{ header: 'Idempotency-Key', message: 'must be one UUID, bare or in double quotes' }],
    },
  ],
  invalid_cursor: [
    'The cursor is not a cursor of this list with these filters; take next_cursor of the page before.',
    { errors: [{ parameter: 'cursor', message: 'is not a cursor of this list with these filters' }] },
  ],
  invalid_credentials: ['Send valid credentials in the headers x-api-key and x-api-secret.'],
  permission_denied: [
    'These credentials lack the permission bookings:write.',
    { required: { resource: 'bookings', action: 'write' } },
  ],
  not_found: ['There is no quote with this id.'],
  method_not_allowed: ['PUT is not allowed here.'],
  idempotency_in_progress: [
    'The first request with this key is still running; send the same request again a little later.',
    { retryAfter: 1 },
  ],
  conflict: [
    'The record was changed by somebody else while this change was interrupted. Read it and decide anew.',
  ],
  precondition_failed: ['The record has changed since the state that If-Match names; read it again.'],
  payload_too_large: ['The body is larger than 1048576 bytes.'],
  unsupported_media_type: ['Send the body as JSON, with Content-Type: application/json.'],
  idempotency_key_reused: [
    'This Idempotency-Key was used for another request; take a new one.',
    { errors: [{ header: 'Idempotency-Key', message: 'was used for another request' }] },
  ],
  member_not_found: [
    'The CRM has no member with this id.',
    { errors: [{ pointer: '#/member_id', message: 'is not the id of a member' }] },
  ],
  details_too_large: [
    'The details take 140312 characters without insignificant white space; the CRM holds at most 131072.',
    { errors: [{ pointer: '#/details', message: 'take 140312 characters; the CRM holds at most 131072' }] },
  ],
  crm_rejected: [
    'The CRM refused the record: The trip is closed.',
    { errors: [{ pointer: '#/trip_id', message: 'The trip is closed' }] },
  ],
  partner_rejected: [
    'The dining partner refused the table: SLOT_UNAVAILABLE.',
    { partnerCause: 'SLOT_UNAVAILABLE' },
  ],
  rate_limited: ['There were too many requests with these credentials.', { retryAfter: 12 }],
  internal_error: ['The service made an error. It is logged under the request id.'],
  crm_error: ['The CRM gave an answer that the service cannot use.'],
  partner_error: ['The partner gave an answer that the service cannot use.'],
  crm_unavailable: ['The CRM is not available.', { retryAfter: 5 }],
  crm_quota_exhausted: ["The CRM's daily quota of calls is used up.", { retryAfter: 900 }],
  partner_unavailable: ['The partner is not available.', { retryAfter: 5 }],
  store_unavailable: ['The database is not available.', { retryAfter: 5 }],
  secrets_unavailable: ['The secrets manager is not available.', { retryAfter: 5 }],
  crm_timeout: ['The CRM did not answer in time.', { outcomeUnknown: true }],
  partner_timeout: ['The partner did not answer in time.', { outcomeUnknown: true }],
};

/** An occurrence of the problem, as if it had been thrown. */
export function exampleProblem(code: ProblemCode): Problem {
  const [detail, facts] = occurrences[code];
  return new Problem(code, detail, facts);
}
