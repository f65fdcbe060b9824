import { withoutIds } from '../mapping/names.ts';
import { type CrmError, CrmFailure, type FailureKind, uncertainKinds } from './failure.ts';
import { type CrmAnswer, type CrmRequest, header } from './request.ts';

/*
 * Salesforce's error codes and what they mean here; the one place that knows them. REST Developer Guide, Status Codes
 * and Error Responses; SOAP Developer Guide, StatusCode. The code decides; the HTTP status only where the body is not
 * the usual array, since sources disagree about the pairs. The first row that fits holds.
 */
interface Row {
  code: RegExp;
  message?: RegExp;
  /** Only at this status. */
  status?: number;
  kind: FailureKind;
  /** In a call with several records, another one may have caused this error. */
  mayBeOthers?: true;
}

/** Errors of the org's triggers and flows: every record of the call has them. Texts are in any language. */
const thrown = /^(CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY|CANNOT_EXECUTE_FLOW_TRIGGER|DELETE_FAILED)$/;

const table: Row[] = [
  // A valid session of a user that may not use the API: another token would be refused just the same.
  { code: /^INVALID_SESSION_ID$/, message: /not valid for use/i, kind: 'setup' },
  { code: /^(INVALID_SESSION_ID|INVALID_AUTH_HEADER)$/, kind: 'session' },
  { code: /^API_CURRENTLY_DISABLED$/, kind: 'busy' },
  { code: /^API_DISABLED_FOR_ORG$/, kind: 'setup' },
  { code: /^REQUEST_LIMIT_EXCEEDED$/, message: /concurrent/i, kind: 'busy' },
  { code: /^REQUEST_LIMIT_EXCEEDED$/, kind: 'quota' },
  { code: /^(SERVER_UNAVAILABLE|QUERY_TIMEOUT)$/, kind: 'busy' },
  { code: /^UNABLE_TO_LOCK_ROW$/, kind: 'locked', mayBeOthers: true },
  { code: thrown, message: /UNABLE_TO_LOCK_ROW/, kind: 'locked', mayBeOthers: true },
  // The object accepts no records; no trigger refused this one.
  { code: thrown, message: /^entity type cannot be/i, kind: 'setup' },
  { code: thrown, kind: 'rejected', mayBeOthers: true },
  { code: /./, message: /^Too many batch retries/i, kind: 'rejected', mayBeOthers: true },
  { code: /^ENTITY_IS_LOCKED$/, kind: 'conflict' },
  { code: /^ENTITY_IS_DELETED$/, kind: 'gone' },
  { code: /^(NOT_FOUND|INVALID_CROSS_REFERENCE_KEY)$/, status: 404, kind: 'gone' },
  { code: /^INVALID_FIELD$/, message: /foreign key external id/i, kind: 'reference' },
  { code: /^INVALID_CROSS_REFERENCE_KEY$/, kind: 'reference' },
  { code: /^DUPLICATE_VALUE$/, kind: 'duplicate' },
  {
    code: /^(REQUIRED_FIELD_MISSING|STRING_TOO_LONG|INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST|FIELD_INTEGRITY_EXCEPTION)$/,
    kind: 'rejected',
  },
  { code: /^(FIELD_CUSTOM_VALIDATION_EXCEPTION|FIELD_FILTER_VALIDATION_EXCEPTION)$/, kind: 'rejected' },
  {
    code: /^(DUPLICATES_DETECTED|INVALID_EMAIL_ADDRESS|NUMBER_OUTSIDE_VALID_RANGE|INVALID_TYPE_ON_FIELD_IN_RECORD)$/,
    kind: 'rejected',
  },
  // The org lacks an object, a field or a right that the gateway needs.
  { code: /^(INVALID_FIELD|INVALID_TYPE|MALFORMED_QUERY|INVALID_FIELD_FOR_INSERT_UPDATE)$/, kind: 'setup' },
  { code: /^INSUFFICIENT_ACCESS/, kind: 'setup' },
];

/**
 * Answers without the array (from the edge, a proxy, or the identity service, which answers in plain text), and codes
 * that the table does not have: UNKNOWN_EXCEPTION, say.
 */
const byStatus: Record<number, FailureKind> = {
  401: 'session',
  420: 'busy',
  429: 'busy',
  500: 'failed',
  502: 'lost',
  503: 'busy',
  504: 'lost',
};

/** Errors of one record that are kept. */
const mostErrors = 20;

/** The failure of an answer without success. The first error that is the record's own decides its kind. */
export function failureOf(answer: CrmAnswer, request: CrmRequest): CrmFailure {
  const errors = errorsOf(answer.body);
  const error = errors.find((each) => !mayBeOthers(each, answer.status)) ?? errors[0];
  const kind = error === undefined ? kindOfStatus(answer) : kindOf(error, answer.status, request);
  const unsure =
    uncertainKinds.includes(kind) || (kind === 'broken' && (answer.status >= 500 || answer.status < 400));
  return new CrmFailure(kind, describe(kind, error, answer.status), {
    status: answer.status,
    error,
    errors,
    mayBeOthers: error === undefined || mayBeOthers(error, answer.status),
    retryAfter: retryAfter(answer),
    outcomeUnknown: unsure && request.effect !== 'read',
  });
}

/** An error with an unknown code may be caused by any record of the call. */
function mayBeOthers(error: CrmError, status: number): boolean {
  const row = rowOf(error, status);
  return row === undefined || row.mayBeOthers === true;
}

/** Whether a limit of the transaction was exceeded: a call with fewer records may succeed (Apex `System.LimitException`). */
export function isOverLimit({ facts }: CrmFailure): boolean {
  return facts.mayBeOthers === true && facts.error?.message.includes('System.LimitException') === true;
}

/** For the log. An operator must know what is wrong with the org to repair it; other texts may quote what people wrote. */
function describe(kind: FailureKind, error: CrmError | undefined, status: number): string {
  const code = `${error?.code ?? 'no error code'}, status ${status}`;
  const isQuotable = kind === 'setup' && error?.code !== 'MALFORMED_QUERY';
  return isQuotable ? `${code}: ${withoutIds(error?.message ?? '')}` : code;
}

function kindOf(error: CrmError, status: number, request: CrmRequest): FailureKind {
  const row = rowOf(error, status);
  if (row === undefined) return status === 401 ? 'broken' : (byStatus[status] ?? 'broken');
  // Without a record in the path it is the object that does not exist.
  if (row.kind === 'gone' && request.addressesRecord !== true) return 'setup';
  // Without a reference in the body it is the record itself that is not there.
  if (row.kind === 'reference' && request.addressesRecord === true && !hasReference(request)) return 'gone';
  return row.kind;
}

function rowOf(error: CrmError, status: number): Row | undefined {
  return table.find((row) => fits(row, error, status));
}

function fits({ code, message, status: only }: Row, error: CrmError, status: number): boolean {
  const saysSo = message === undefined || message.test(error.message);
  return code.test(error.code) && saysSo && (only === undefined || only === status);
}

function hasReference({ body = {} }: CrmRequest): boolean {
  return Object.values(body).some((value) => typeof value === 'object' && value !== null);
}

function kindOfStatus(answer: CrmAnswer): FailureKind {
  // The identity service refuses a token with 403 and these words instead of an error array.
  if (answer.status === 403 && /bad_oauth_token/i.test(String(answer.body))) return 'session';
  return byStatus[answer.status] ?? 'broken';
}

/** The errors of `[{errorCode, message, fields}]`, or of a Collections item, which says `statusCode`. */
function errorsOf(body: unknown): CrmError[] {
  return Array.isArray(body) ? body.slice(0, mostErrors).flatMap((each) => errorOf(each) ?? []) : [];
}

function errorOf(given: unknown): CrmError | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  const { errorCode, statusCode, message, fields } = given as Record<string, unknown>;
  const code = errorCode ?? statusCode;
  if (typeof code !== 'string') return undefined;
  return {
    code,
    message: typeof message === 'string' ? message : '',
    fields: Array.isArray(fields) ? fields.filter((field) => typeof field === 'string') : [],
  };
}

function retryAfter(answer: CrmAnswer): number | undefined {
  const seconds = Number(header(answer.headers, 'retry-after') ?? Number.NaN);
  return seconds >= 0 && seconds <= 86_400 ? seconds : undefined;
}
