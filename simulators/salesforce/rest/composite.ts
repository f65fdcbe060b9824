import { ApiError, jsonParserError } from '../org/api-error.ts';
import { type Body, isPlainObject } from '../org/interpret.ts';
import { type ApiAnswer, type ApiCall, type ApiContext, bodyObject } from './api-call.ts';
import { type Route, runSubrequest, type Subrequest } from './subrequest.ts';

const MAX_SUBREQUESTS = 25;
const MAX_HEAVY = 5;
const FORBIDDEN_HEADERS = new Set(['accept', 'authorization', 'content-type']);

interface NamedRequest extends Subrequest {
  referenceId: string;
}

interface SubAnswer {
  body: unknown;
  httpHeaders: Record<string, string>;
  httpStatusCode: number;
  referenceId: string;
}

function invalid(message: string): ApiError {
  return new ApiError(400, 'INVALID_INPUT', message);
}

function readHeaders(request: Body): Record<string, string> {
  if (!isPlainObject(request.httpHeaders)) return {};
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.httpHeaders)) {
    if (FORBIDDEN_HEADERS.has(name.toLowerCase())) throw invalid(`${name} is not allowed in httpHeaders`);
    headers[name] = String(value);
  }
  return headers;
}

function readRequest(request: unknown): NamedRequest {
  if (!isPlainObject(request)) throw jsonParserError('each of compositeRequest must be an object');
  const { method, url, referenceId, body } = request;
  if (typeof method !== 'string' || typeof url !== 'string' || typeof referenceId !== 'string') {
    throw jsonParserError('each of compositeRequest needs method, url and referenceId');
  }
  if (!/^[A-Za-z0-9_]+$/.test(referenceId))
    throw invalid(`Provided referenceId ('${referenceId}') is not valid`);
  return { method, url, referenceId, body, headers: readHeaders(request) };
}

function isHeavy(request: NamedRequest): boolean {
  return /\/(query|queryAll|composite\/sobjects)(\/|\?|$)/.test(request.url);
}

function readRequests(body: Body): NamedRequest[] {
  if (!Array.isArray(body.compositeRequest) || body.compositeRequest.length === 0) {
    throw jsonParserError('compositeRequest must be an array with at least one request');
  }
  if (body.compositeRequest.length > MAX_SUBREQUESTS) {
    throw new ApiError(400, 'LIMIT_EXCEEDED', `at most ${MAX_SUBREQUESTS} subrequests are allowed`);
  }
  const requests = body.compositeRequest.map(readRequest);
  if (requests.filter(isHeavy).length > MAX_HEAVY) {
    throw new ApiError(
      400,
      'LIMIT_EXCEEDED',
      `at most ${MAX_HEAVY} subrequests may be collections or queries`,
    );
  }
  const names = new Set(requests.map((request) => request.referenceId));
  if (names.size < requests.length) throw invalid('each referenceId may be used once only');
  return requests;
}

function runOne(context: ApiContext, request: NamedRequest, route: Route): SubAnswer {
  const answer = runSubrequest(context, request, route);
  return {
    body: answer.body ?? null,
    httpHeaders: answer.headers ?? {},
    httpStatusCode: answer.status,
    referenceId: request.referenceId,
  };
}

/**
 * Up to 25 calls in one, charged once, 200 even when some fail. References to earlier ones are not simulated. `collateSubrequests` lets an org reorder independent
 * ones; running them in order is one of the orders that it allows.
 */
export function handleComposite(context: ApiContext, call: ApiCall, route: Route): ApiAnswer {
  const body = bodyObject(call);
  const requests = readRequests(body);
  const compositeResponse =
    body.allOrNone === true
      ? runAllOrNone(context, requests, route)
      : requests.map((request) => runOne(context, request, route));
  return { status: 200, body: { compositeResponse } };
}

/** One transaction: the first subrequest that fails ends it, rolls it back, and the others say so (REST API, Composite). */
function runAllOrNone(context: ApiContext, requests: readonly NamedRequest[], route: Route): SubAnswer[] {
  const { store } = context.org;
  return store.transaction(() => {
    const start = store.savepoint();
    const answers: SubAnswer[] = [];
    for (const request of requests) {
      const answer = runOne(context, request, route);
      answers.push(answer);
      if (hasFailed(answer)) break;
    }
    const failed = answers.at(-1);
    if (failed === undefined || !hasFailed(failed)) return answers;
    store.rollback(start);
    return requests.map((request) => (request.referenceId === failed.referenceId ? failed : halted(request)));
  });
}

/** A collection of which a record failed is answered 200 all the same. */
function hasFailed({ httpStatusCode, body }: SubAnswer): boolean {
  if (httpStatusCode >= 400) return true;
  return Array.isArray(body) && body.some((item) => isPlainObject(item) && item.success === false);
}

function halted({ referenceId }: NamedRequest): SubAnswer {
  const message = 'The transaction was rolled back since another operation in the same transaction failed.';
  const body = [{ errorCode: 'PROCESSING_HALTED', message }];
  return { body, httpHeaders: {}, httpStatusCode: 400, referenceId };
}

/** True when a call is or may hold a query, so that the parser must be loaded before it runs. */
export function mayQuery(call: ApiCall): boolean {
  const [first, second] = call.path;
  return first === 'query' || first === 'queryAll' || (first === 'composite' && second !== 'sobjects');
}
