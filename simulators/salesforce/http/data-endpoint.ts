import { type HttpAnswer, type HttpCall, jsonAnswer } from '../../shared/exchange.ts';
import { tokenOf } from '../oauth/endpoints.ts';
import type { Sessions } from '../oauth/sessions.ts';
import { ApiError, jsonParserError } from '../org/api-error.ts';
import type { ApiAnswer, ApiCall, ApiContext } from '../rest/api-call.ts';
import { mayQuery } from '../rest/composite.ts';
import { checkVersion } from '../rest/discovery.ts';
import { routeCall } from '../rest/router.ts';
import { splitPath } from '../rest/subrequest.ts';
import { loadSoqlParser } from '../soql/parse.ts';

const DATA_ROOT = '/services/data';

/** Path segments after `/services/data`, decoded. @throws ApiError 404 for a path that is not encoded properly. */
export function dataPath(pathname: string): string[] {
  return splitPath(pathname.slice(DATA_ROOT.length));
}

export function isDataPath(pathname: string): boolean {
  return pathname === DATA_ROOT || pathname.startsWith(`${DATA_ROOT}/`);
}

export function limitInfo(context: ApiContext): Record<string, string> {
  const { used, limit } = context.usage();
  return { 'Sforce-Limit-Info': `api-usage=${used}/${limit}` };
}

/** @throws ApiError 401 INVALID_SESSION_ID for a token that is missing, unknown or expired. */
export function checkSession(sessions: Sessions, call: HttpCall): void {
  const token = tokenOf(call);
  if (token !== undefined && sessions.use(token)) return;
  throw new ApiError(401, 'INVALID_SESSION_ID', 'Session expired or invalid', undefined, {
    'WWW-Authenticate': 'Token',
  });
}

/** @throws ApiError 403 once the day's calls are used up. */
export function checkDailyLimit(context: ApiContext): void {
  const { used, limit } = context.usage();
  if (used >= limit) throw dailyLimitError();
}

export function dailyLimitError(): ApiError {
  return new ApiError(403, 'REQUEST_LIMIT_EXCEEDED', 'TotalRequests Limit exceeded.');
}

export function concurrentLimitError(): ApiError {
  return new ApiError(
    403,
    'REQUEST_LIMIT_EXCEEDED',
    'ConcurrentRequests (Concurrent API Requests) Limit exceeded.',
  );
}

function parseBody(call: HttpCall): unknown {
  if (call.body.length === 0) return undefined;
  const type = call.headers['content-type'] ?? '';
  if (!/^application\/json\b/i.test(type)) {
    throw new ApiError(415, 'UNSUPPORTED_MEDIA_TYPE', `Content type '${type}' not supported.`);
  }
  try {
    return JSON.parse(call.body.toString('utf8')) as unknown;
  } catch (error) {
    throw jsonParserError(error instanceof Error ? error.message : 'The body is not valid JSON');
  }
}

/** @throws ApiError 404 for an unknown version, 410 for a retired one, 415 and 400 for a body that can't be read. */
export function toApiCall(context: ApiContext, call: HttpCall): ApiCall {
  const [version = '', ...path] = dataPath(call.pathname);
  checkVersion(context, version);
  return {
    method: call.method,
    version,
    path,
    query: call.query,
    body: parseBody(call),
    header: (name) => {
      const value = call.headers[name];
      return Array.isArray(value) ? value.join(',') : value;
    },
  };
}

/**
 * Runs a data API call to its end: when this resolves, everything that it wrote is kept.
 * @param wrap is given the work itself, which is synchronous.
 */
export async function runDataCall(
  context: ApiContext,
  call: ApiCall,
  wrap: (work: () => ApiAnswer) => ApiAnswer,
): Promise<HttpAnswer> {
  if (mayQuery(call)) await loadSoqlParser();
  const answer = wrap(() => routeCall(context, call));
  const headers = { ...limitInfo(context), ...answer.headers };
  if (answer.body === undefined) return { status: answer.status, headers };
  return isLarge(answer.body)
    ? { ...jsonAnswer(answer.status, undefined, headers), body: partsOf(answer.body) }
    : jsonAnswer(answer.status, answer.body, headers);
}

/** Characters of long fields above which a page of records is sent in parts. */
const LARGE = 1024 * 1024;

interface RecordsBody {
  records: Record<string, unknown>[];
}

function isLarge(body: unknown): body is RecordsBody {
  const { records } = body as Partial<RecordsBody>;
  if (!Array.isArray(records)) return false;
  let length = 0;
  for (const record of records)
    for (const value of Object.values(record)) if (typeof value === 'string') length += value.length;
  return length > LARGE;
}

function* partsOf({ records, ...rest }: RecordsBody): Generator<string> {
  yield `${JSON.stringify(rest).slice(0, -1)},"records":[`;
  for (const [index, record] of records.entries()) yield (index === 0 ? '' : ',') + JSON.stringify(record);
  yield ']}';
}
