import { type CrmError, CrmFailure, type FailureKind, uncertainKinds } from '../failure.ts';
import { withoutIds } from '../mapping/names.ts';
import { referencesIn, rowOf } from './error-codes.ts';
import { type CrmAnswer, type CrmRequest, header } from './request.ts';

/**
 * Answers without the array (from the edge, a proxy, or the identity service, which answers in plain text), and codes
 * that the table does not have: UNKNOWN_EXCEPTION, say.
 */
const byStatus: Record<number, FailureKind> = {
  401: 'session',
  410: 'setup',
  420: 'busy',
  429: 'busy',
  500: 'failed',
  502: 'lost',
  503: 'busy',
  504: 'lost',
};

const mostErrors = 20;

export type AnsweredRequest = Pick<CrmRequest, 'effect' | 'body' | 'resource' | 'addressesRecord'>;

/** The first error that is the record's own decides the kind. */
export function failureOf(answer: CrmAnswer, request: AnsweredRequest): CrmFailure {
  const errors = errorsOf(answer.body);
  const error = errors.find((each) => !mayBeOthers(each, answer.status, request)) ?? errors[0];
  const kind = error === undefined ? kindOfStatus(answer) : kindOf(error, answer.status, request);
  const unsure =
    uncertainKinds.includes(kind) || (kind === 'broken' && (answer.status >= 500 || answer.status < 400));
  return new CrmFailure(kind, describe(kind, error, answer.status), {
    status: answer.status,
    error,
    errors,
    ofOrg: errors.filter((each) => isOfOrg(each, answer.status, request)),
    mayBeOthers: error === undefined || mayBeOthers(error, answer.status, request),
    retryAfter: retryAfter(answer),
    outcomeUnknown: unsure && request.effect !== 'read',
  });
}

function mayBeOthers(error: CrmError, status: number, request: AnsweredRequest): boolean {
  const row = rowOf({ error, status, request });
  return row === undefined || row.mayBeOthers === true;
}

function isOfOrg(error: CrmError, status: number, request: AnsweredRequest): boolean {
  return rowOf({ error, status, request })?.ofOrg === true && kindOf(error, status, request) !== 'gone';
}

/** Whether a limit of the transaction was exceeded: a call with fewer records may succeed (Apex `System.LimitException`). */
export function isOverLimit({ facts }: CrmFailure): boolean {
  return facts.mayBeOthers === true && facts.error?.message.includes('System.LimitException') === true;
}

/** Names what is wrong with the org, so that an operator can repair it; other texts may quote what people wrote. */
function describe(kind: FailureKind, error: CrmError | undefined, status: number): string {
  const code = `${error?.code ?? 'no error code'}, status ${status}`;
  const isQuotable = kind === 'setup' && error?.code !== 'MALFORMED_QUERY';
  return isQuotable ? `${code}: ${withoutIds(error?.message ?? '')}` : code;
}

function kindOf(error: CrmError, status: number, request: AnsweredRequest): FailureKind {
  const row = rowOf({ error, status, request });
  if (row === undefined) return status === 401 ? 'broken' : (byStatus[status] ?? 'broken');
  // Without a record in the path it is the object that does not exist.
  if (row.kind === 'gone' && request.addressesRecord !== true) return 'setup';
  // Without a reference in the body it is the record itself that is not there, or something that the service sets.
  if (row.kind === 'reference' && referencesIn(request).length === 0)
    return request.addressesRecord ? 'gone' : 'setup';
  return row.kind;
}

function kindOfStatus(answer: CrmAnswer): FailureKind {
  // The identity service refuses a token with 403 and these words instead of an error array.
  if (answer.status === 403 && /bad_oauth_token/i.test(String(answer.body))) return 'session';
  return byStatus[answer.status] ?? 'broken';
}

function errorsOf(body: unknown): CrmError[] {
  return Array.isArray(body) ? body.slice(0, mostErrors).flatMap((each) => errorOf(each) ?? []) : [];
}

function errorOf(given: unknown): CrmError | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  const { errorCode, statusCode, message, fields, duplicateResult } = given as Record<string, unknown>;
  const code = errorCode ?? statusCode;
  if (typeof code !== 'string') return undefined;
  const { duplicateRule } = (duplicateResult ?? {}) as Record<string, unknown>;
  return {
    code,
    message: typeof message === 'string' ? message : '',
    fields: Array.isArray(fields) ? fields.filter((field) => typeof field === 'string') : [],
    ...(typeof duplicateRule === 'string' && { rule: duplicateRule }),
  };
}

function retryAfter(answer: CrmAnswer): number | undefined {
  const seconds = Number(header(answer.headers, 'retry-after') ?? Number.NaN);
  return seconds >= 0 && seconds <= 86_400 ? seconds : undefined;
}
