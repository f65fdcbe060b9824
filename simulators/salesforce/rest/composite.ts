import { ApiError, jsonParserError } from '../org/api-error.ts';
import { type Body, isPlainObject } from '../org/interpret.ts';
import { type ApiAnswer, type ApiCall, type ApiContext, bodyObject } from './api-call.ts';
import { fillReferences, halted } from './references.ts';
import { type Route, runSubrequest, type Subrequest } from './subrequest.ts';

const MAX_SUBREQUESTS = 25;
const MAX_HEAVY = 5;
const FORBIDDEN_HEADERS = new Set(['accept', 'authorization', 'content-type']);
const ROLLED_BACK = 'The transaction was rolled back since another operation in the same transaction failed.';

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

function fill(request: NamedRequest, results: Map<string, unknown>): Subrequest {
  return {
    method: request.method,
    url: fillReferences(request.url, results),
    body: fillReferences(request.body, results),
    headers: fillReferences(request.headers, results),
  };
}

function haltedAnswer(referenceId: string, error: ApiError): SubAnswer {
  return { body: error.toBody(), httpHeaders: {}, httpStatusCode: error.status, referenceId };
}

function runOne(
  context: ApiContext,
  request: NamedRequest,
  results: Map<string, unknown>,
  route: Route,
): SubAnswer {
  const { referenceId } = request;
  let filled: Subrequest;
  try {
    filled = fill(request, results);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return haltedAnswer(referenceId, error);
  }
  const answer = runSubrequest(context, filled, route);
  if (answer.status < 300) results.set(referenceId, answer.body);
  return {
    body: answer.body ?? null,
    httpHeaders: answer.headers ?? {},
    httpStatusCode: answer.status,
    referenceId,
  };
}

function isFailure(answer: SubAnswer): boolean {
  if (answer.httpStatusCode >= 300) return true;
  const items = Array.isArray(answer.body) ? answer.body : [];
  return items.some((item) => isPlainObject(item) && item.success === false);
}

/** The first failure keeps its own answer; all others are shown as rolled back (Composite, allOrNone). */
function haltOthers(answers: SubAnswer[], requests: NamedRequest[]): SubAnswer[] {
  const failed = answers.findIndex(isFailure);
  return requests.map((request, index) => {
    const answer = answers[index];
    return index === failed && answer !== undefined
      ? answer
      : haltedAnswer(request.referenceId, halted(ROLLED_BACK));
  });
}

function runTogether(context: ApiContext, requests: NamedRequest[], route: Route): SubAnswer[] {
  const { store } = context.org;
  return store.transaction(() => {
    const start = store.savepoint();
    const results = new Map<string, unknown>();
    const answers: SubAnswer[] = [];
    for (const request of requests) {
      const answer = runOne(context, request, results, route);
      answers.push(answer);
      if (!isFailure(answer)) continue;
      store.rollback(start);
      return haltOthers(answers, requests);
    }
    return answers;
  });
}

/**
 * Up to 25 calls in one, charged once, 200 even when some fail. `collateSubrequests` lets an org reorder independent
 * ones; running them in order is one of the orders that it allows.
 */
export function handleComposite(context: ApiContext, call: ApiCall, route: Route): ApiAnswer {
  const body = bodyObject(call);
  const requests = readRequests(body);
  if (body.allOrNone === true) {
    return { status: 200, body: { compositeResponse: runTogether(context, requests, route) } };
  }
  const results = new Map<string, unknown>();
  const compositeResponse = requests.map((request) => runOne(context, request, results, route));
  return { status: 200, body: { compositeResponse } };
}

/** True when a call is or may hold a query, so that the parser must be loaded before it runs. */
export function mayQuery(call: ApiCall): boolean {
  const [first, second] = call.path;
  return first === 'query' || first === 'queryAll' || (first === 'composite' && second !== 'sobjects');
}
