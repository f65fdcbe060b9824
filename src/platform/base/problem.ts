import { type Call, isTestCall } from './call.ts';

interface ProblemKind {
  status: number;
  title: string;
  meaning: string;
  advice: string;
  /**
   * One occurrence, as an answer shows it. A problem whose example has `retryAfter` is documented with the header
   * Retry-After.
   */
  example: { detail: string; facts?: ProblemFacts };
}

/** Where in the request a fault lies, and what to do about it: a JSON Pointer as URI fragment, or a name. */
export type Fault =
  | { pointer: string; message: string }
  | { parameter: string; message: string }
  | { header: string; message: string };

export interface ProblemFacts {
  /** Where HTTP has a status of its own for a request that did not come whole: 408, 431. */
  status?: number;
  errors?: Fault[];
  required?: { resource: string; action: string; field?: string };
  /** Seconds after which a repeat may help. */
  retryAfter?: number;
  /** A write was sent, and it is unknown whether it took effect. */
  outcomeUnknown?: boolean;
  /** It is not the CRM that refuses: the service limits its own calls. */
  isBudgetExhausted?: boolean;
  /** The CRM took the request and could not finish it now: a lock on the record, say, or a lost connection. */
  isOfRecord?: boolean;
  /** It is for what the CRM's administrators have set up, and passes once they have changed it. */
  isOfOrg?: boolean;
  /**
   * For a refusal that rests on what is known of the CRM: has that learnt anew, if that may help. Resolves, never rejects: true
   * where the request may be tried once more.
   */
  lookAgain?: () => Promise<boolean>;
  externalId?: string;
  /** The partner's own word for its refusal; shown as `cause`. */
  partnerCause?: string;
  /** Methods that the path does answer, for 405. */
  allow?: string[];
  /** Logged, never sent. */
  cause?: unknown;
}

const unknownOutcome =
  'If `detail` says that the outcome is unknown, a write may have been executed; otherwise nothing was changed.';

/**
 * Every error that the service can answer with: schema, reference pages and examples follow from this table. A code is
 * only ever added or retired, never given another meaning.
 */
export const problems = {
  invalid_request: {
    status: 400,
    title: "The request isn't valid",
    meaning: "Part of the request doesn't match what the operation expects. Nothing was changed.",
    advice: 'Fix what `errors` names and send the request again.',
    example: {
      detail: "The body isn't valid: #/trip_id must be a UUID.",
      facts: { errors: [{ pointer: '#/trip_id', message: 'must be a UUID' }] },
    },
  },
  malformed_json: {
    status: 400,
    title: "The body isn't JSON",
    meaning: "The body is missing, or it isn't one JSON value in UTF-8. Nothing was changed.",
    advice: 'Send one JSON value in UTF-8. `detail` says where the error is.',
    example: { detail: "The body isn't JSON: the fault is at position 17 (line 1 column 18)." },
  },
  idempotency_key_missing: {
    status: 400,
    title: 'The Idempotency-Key header is missing',
    meaning: 'This operation writes, and every write needs a key. Nothing was changed.',
    advice: 'Send an Idempotency-Key header with a new UUID.',
    example: {
      detail:
        'The Idempotency-Key header is missing; send a new UUID with each new write, and the same one when you repeat it.',
      facts: { errors: [{ header: 'Idempotency-Key', message: 'is missing' }] },
    },
  },
  idempotency_key_invalid: {
    status: 400,
    title: "The Idempotency-Key header isn't a UUID",
    meaning: "The key isn't a UUID. Nothing was changed.",
    advice: 'Send one UUID, bare or in double quotes.',
    example: {
      detail: 'The Idempotency-Key header must be one UUID, bare or in double quotes.',
      facts: {
        errors: [{ header: 'Idempotency-Key', message: 'must be one UUID, bare or in double quotes' }],
      },
    },
  },
  invalid_cursor: {
    status: 400,
    title: "The cursor isn't valid for this list",
    meaning:
      'The cursor was changed, or it belongs to another list or to other filters. Nothing was changed.',
    advice: 'Start the list again without `cursor`, with the same filters on every page.',
    example: {
      detail:
        "The cursor doesn't belong to this list with these filters; use next_cursor from the previous page.",
      facts: {
        errors: [{ parameter: 'cursor', message: "doesn't belong to this list with these filters" }],
      },
    },
  },
  cursor_expired: {
    status: 410,
    title: 'Events after the cursor were deleted',
    meaning:
      'The feed keeps events for a limited time, and some of those after this cursor are gone. Nothing was changed.',
    advice:
      'Read the records again, in full or with `updated_since`, then the feed without `cursor`. From then on, read the feed before events are deleted.',
    example: { detail: 'Events after this cursor have been deleted; they are kept for a limited time.' },
  },
  invalid_credentials: {
    status: 401,
    title: 'The credentials are missing or not valid',
    meaning:
      "The request had no valid API key and secret, or a webhook's signature is wrong. " +
      'The response is the same for every reason; the operator can find the reason by request id. Nothing was changed.',
    advice:
      "Check both headers. Don't retry: the same credentials get the same response until someone changes them.",
    example: { detail: 'Send valid credentials in the headers x-api-key and x-api-secret.' },
  },
  permission_denied: {
    status: 403,
    title: 'The credentials lack a permission',
    meaning: 'The credentials are valid, but they may not do this. Nothing was changed.',
    advice:
      'Ask the operator for the permission that `required` names. Without `required`, the request exceeds one of your ' +
      "consumer's limits; `detail` says which.",
    example: {
      detail: 'These credentials lack the permission bookings:write.',
      facts: { required: { resource: 'bookings', action: 'write' } },
    },
  },
  approval_required: {
    status: 403,
    title: "This needs another consumer's approval",
    meaning:
      "Writing this resource with these credentials needs approval, which only hand-offs can get. Or a hand-off wasn't " +
      'approved in time. Nothing was changed.',
    advice:
      'Hand the result off: it waits until another consumer approves it. For other writes use a consumer that needs no approval.',
    example: {
      detail:
        'Writing quotes with these credentials needs approval: hand the result off with POST /api/v1/handoff instead.',
      facts: { required: { resource: 'quotes', action: 'write' } },
    },
  },
  address_not_allowed: {
    status: 403,
    title: "The address isn't allowed",
    meaning:
      'The credentials are valid, but not from the address the request came from. Nothing was changed.',
    advice: 'Send it from an address that the consumer may use, or ask the operator to allow this one.',
    example: { detail: "These credentials can't be used from this address." },
  },
  not_found: {
    status: 404,
    title: 'Not found',
    meaning: "There's no such path, or no record with this id. Nothing was changed.",
    advice: 'Check the path and the id. If the record existed, it has been deleted.',
    example: { detail: "There's no quote with this id." },
  },
  method_not_allowed: {
    status: 405,
    title: "The method isn't allowed here",
    meaning: 'The path exists, but not with this method. Nothing was changed.',
    advice: 'Use one of the methods in the Allow header.',
    example: { detail: "PUT isn't allowed here." },
  },
  idempotency_in_progress: {
    status: 409,
    title: 'The first request with this key is still running',
    meaning: `An earlier request with the same Idempotency-Key, or one that writes the same record, hasn't finished yet. ${unknownOutcome}`,
    advice: 'Wait as long as Retry-After says and send the same request with the same key.',
    example: {
      detail: 'The first request with this key is still running; send the same request again a little later.',
      facts: { retryAfter: 1 },
    },
  },
  conflict: {
    status: 409,
    title: 'The request conflicts with the state of the record',
    meaning: "The record's state doesn't allow this. `detail` says why. This request changed nothing.",
    advice: 'Read the record again, then decide.',
    example: {
      detail:
        'The record was changed by someone else while this change was interrupted. Read it and decide again.',
    },
  },
  precondition_failed: {
    status: 412,
    title: "The record isn't in the state that If-Match asks for",
    meaning: 'The record has changed since you read it. Nothing was changed.',
    advice: 'Read the record again, and send the change with its new ETag and a new key.',
    example: { detail: 'The record has changed since the version in If-Match; read it again.' },
  },
  payload_too_large: {
    status: 413,
    title: 'The body is too large',
    meaning: 'The body has more bytes than the operation accepts. Nothing was changed.',
    advice: 'Send at most 1 MiB (1,048,576 bytes), and 64 KiB (65,536 bytes) as a webhook.',
    example: { detail: 'The body is larger than 1048576 bytes.' },
  },
  unsupported_media_type: {
    status: 415,
    title: "The content type isn't supported",
    meaning: "The body isn't declared as JSON. Nothing was changed.",
    advice: 'Send `Content-Type: application/json`.',
    example: { detail: 'Send the body as JSON, with Content-Type: application/json.' },
  },
  idempotency_key_reused: {
    status: 422,
    title: 'The Idempotency-Key was used for another request',
    meaning:
      "The key was already used with another method, path, If-Match or body. The earlier request isn't affected; this one did nothing.",
    advice: 'Use a new key for a new request. To repeat a request, send it byte for byte as it was.',
    example: {
      detail: 'This Idempotency-Key was used for another request; use a new one.',
      facts: { errors: [{ header: 'Idempotency-Key', message: 'was used for another request' }] },
    },
  },
  member_not_found: {
    status: 422,
    title: "The member doesn't exist",
    meaning: 'The CRM has no member with the External ID in `member_id`. Nothing was changed.',
    advice:
      "Check the member's External ID; the member must exist in the CRM. Then send the request again; if you send keys, with a new one.",
    example: {
      detail: 'The CRM has no member with this id.',
      facts: { errors: [{ pointer: '#/member_id', message: "isn't the id of a member" }] },
    },
  },
  details_too_large: {
    status: 422,
    title: 'The details are too large for the CRM',
    meaning:
      "The text of `details` doesn't fit the fields that the CRM has for it: it's too long, or has too much white space in a row where it would be cut. Nothing was changed.",
    advice:
      'Shorten the details to what `detail` says the CRM holds. If that is 131072, the operator can deploy more fields for details.',
    example: {
      detail:
        'The details have 140312 characters without insignificant white space; the CRM holds at most 131072.',
      facts: {
        errors: [{ pointer: '#/details', message: 'have 140312 characters; the CRM holds at most 131072' }],
      },
    },
  },
  crm_rejected: {
    status: 422,
    title: 'The CRM refused the record',
    meaning: "A rule of the CRM doesn't allow the record as it was sent. Nothing was changed.",
    advice:
      'Fix what `errors` names; if you send keys, use a new one. The rule belongs to the CRM; ask its administrator.',
    example: {
      detail: 'The CRM refused the record: The trip is closed.',
      facts: { errors: [{ pointer: '#/trip_id', message: 'The trip is closed' }] },
    },
  },
  offer_expired: {
    status: 422,
    title: 'The offer has ended',
    meaning: 'The `valid_until` of the hand-off had passed before it reached the CRM. Nothing was created.',
    advice: 'Search again, and hand off an offer that is still valid, with a new key.',
    example: {
      detail: 'The offer ended at 2027-03-02T16:00:00.000Z.',
      facts: { errors: [{ pointer: '#/valid_until', message: 'has passed' }] },
    },
  },
  partner_rejected: {
    status: 422,
    title: 'The partner refused the reservation',
    meaning: 'The dining partner refused this table. Its booking in the CRM was deleted.',
    advice: 'Read `cause`, and offer the guest something else.',
    example: {
      detail: 'The dining partner refused the table: SLOT_UNAVAILABLE.',
      facts: { partnerCause: 'SLOT_UNAVAILABLE' },
    },
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    meaning: 'There were more requests than the limit allows. Nothing was changed.',
    advice: 'Wait as long as Retry-After says, and send fewer requests.',
    example: {
      detail: 'There were too many requests with these credentials.',
      facts: { retryAfter: 12 },
    },
  },
  allowance_exhausted: {
    status: 429,
    title: 'The allowance is used up',
    meaning:
      'The consumer has used up its requests for the day or month, counted in UTC. Nothing was changed.',
    advice:
      "Wait as long as Retry-After says, until the next day or month begins. If that's too long, ask the operator for more.",
    example: {
      detail: 'All 10000 requests for this day are used up. There are more from 2027-03-02T00:00:00.000Z on.',
      facts: { retryAfter: 3600 },
    },
  },
  internal_error: {
    status: 500,
    title: 'Something went wrong in the gateway',
    meaning: 'The gateway has a bug. A write may have been executed.',
    advice:
      'Give the operator the `request_id`. With an Idempotency-Key, you can send the same request again.',
    example: { detail: "Something went wrong in the gateway. It's logged under the request id." },
  },
  crm_error: {
    status: 502,
    title: "The CRM gave a response that the gateway can't use",
    meaning: `The CRM responded, but not as expected: it may lack a permission or a field. ${unknownOutcome}`,
    advice:
      "Give the operator the `request_id`, so that they can check the CRM's setup. If `detail` says that the outcome is unknown, do what it says.",
    example: { detail: "The CRM gave a response that the gateway can't use." },
  },
  partner_error: {
    status: 502,
    title: "The partner gave a response that the gateway can't use",
    meaning: `The dining partner responded, but not as expected. ${unknownOutcome}`,
    advice:
      'Give the operator the `request_id`. With an Idempotency-Key, you can send the same request again.',
    example: { detail: "The partner gave a response that the gateway can't use." },
  },
  crm_unavailable: {
    status: 503,
    title: "The CRM isn't available",
    meaning: `The CRM isn't responding, or too many requests are waiting for it. ${unknownOutcome}`,
    advice:
      'Wait as long as Retry-After says and send the request again. If `detail` says that the outcome is unknown, do what it says first.',
    example: { detail: "The CRM isn't available.", facts: { retryAfter: 5 } },
  },
  crm_quota_exhausted: {
    status: 503,
    title: 'The quota of CRM calls is used up',
    meaning:
      "The CRM's daily calls are used up, or the gateway has its own call budget and the next call would come too late. Nothing was changed.",
    advice:
      'Wait as long as Retry-After says. The operator can raise the quota or the budget, or see who is using it.',
    example: { detail: "The CRM's daily quota of calls is used up.", facts: { retryAfter: 900 } },
  },
  partner_unavailable: {
    status: 503,
    title: "The partner isn't available",
    meaning: `The dining partner isn't responding. ${unknownOutcome}`,
    advice: 'Wait as long as Retry-After says and send the same request with the same key.',
    example: { detail: "The partner isn't available.", facts: { retryAfter: 5 } },
  },
  store_unavailable: {
    status: 503,
    title: "The database isn't available",
    meaning: `The database that remembers Idempotency-Keys isn't responding. ${unknownOutcome}`,
    advice: 'Wait as long as Retry-After says and send the same request with the same key.',
    example: { detail: "The database isn't available.", facts: { retryAfter: 5 } },
  },
  secrets_unavailable: {
    status: 503,
    title: "The secrets manager isn't available",
    meaning:
      "The secrets manager isn't responding, or too many changes to credentials are waiting. Nothing was changed.",
    advice: 'Wait as long as Retry-After says and send the request again.',
    example: { detail: "The secrets manager isn't available.", facts: { retryAfter: 5 } },
  },
  crm_timeout: {
    status: 504,
    title: "The CRM didn't answer in time",
    meaning: `A call to the CRM took too long. ${unknownOutcome}`,
    advice:
      'Send the request again later. If `detail` says that the outcome is unknown, do what it says first.',
    example: { detail: "The CRM didn't answer in time.", facts: { outcomeUnknown: true } },
  },
  partner_timeout: {
    status: 504,
    title: "The partner didn't answer in time",
    meaning: `A call to the dining partner took too long. ${unknownOutcome}`,
    advice: 'Send the same request with the same key.',
    example: { detail: "The partner didn't answer in time.", facts: { outcomeUnknown: true } },
  },
} as const satisfies Record<string, ProblemKind>;

export type ProblemCode = keyof typeof problems;

export const crmProblems: readonly ProblemCode[] = [
  'crm_error',
  'crm_unavailable',
  'crm_quota_exhausted',
  'crm_timeout',
];

/**
 * An error with a code of the table, a sentence for the caller, and facts. The message may leave the service. Inner
 * layers throw it; `api/pipeline/answer.ts` alone turns it into HTTP.
 */
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
    return this.facts.status ?? problems[this.code].status;
  }

  /** For where something may have been carried out: the caller must not take it for not done. */
  asUnknown(facts: Pick<ProblemFacts, 'externalId'> = {}): Problem {
    return new Problem(this.code, this.message, { ...this.facts, outcomeUnknown: true, ...facts });
  }
}

export async function withSecondLook<T>(
  call: Pick<Call, 'consumerId'>,
  work: () => T | Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(await isLookedAtAgain(call, error))) throw error;
    return work();
  }
}

/** True once the org was looked at because of the refusal. Nothing that a test consumer sends leads to a call to the org. */
export async function isLookedAtAgain(call: Pick<Call, 'consumerId'>, error: unknown): Promise<boolean> {
  if (!(error instanceof Problem) || isTestCall(call)) return false;
  return (await error.facts.lookAgain?.()) ?? false;
}
