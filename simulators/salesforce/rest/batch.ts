import { ApiError, jsonParserError } from '../org/api-error.ts';
import { isPlainObject } from '../org/interpret.ts';
import { type ApiAnswer, type ApiCall, type ApiContext, bodyObject } from './api-call.ts';
import { type Route, runSubrequest, type Subrequest } from './subrequest.ts';

const MAX_SUBREQUESTS = 25;

function readRequests(call: ApiCall): Subrequest[] {
  const { batchRequests } = bodyObject(call);
  if (!Array.isArray(batchRequests) || batchRequests.length === 0) {
    throw jsonParserError('batchRequests must be an array with at least one request');
  }
  if (batchRequests.length > MAX_SUBREQUESTS) {
    throw new ApiError(
      400,
      'LIMIT_EXCEEDED',
      `at most ${MAX_SUBREQUESTS} subrequests are allowed in a batch`,
    );
  }
  return batchRequests.map((request: unknown) => {
    if (!isPlainObject(request) || typeof request.method !== 'string' || typeof request.url !== 'string') {
      throw jsonParserError('each of batchRequests needs method and url');
    }
    return { method: request.method, url: request.url, body: request.richInput, headers: {} };
  });
}

/** How many calls a batch is charged as: one for each subrequest, unlike all other resources (Batch). */
export function countBatchCalls(body: unknown): number {
  const requests = isPlainObject(body) ? body.batchRequests : undefined;
  return Array.isArray(requests) && requests.length > 0 ? Math.min(requests.length, MAX_SUBREQUESTS) : 1;
}

/** Independent subrequests, one after the other, each of which commits before the next begins. */
export function handleBatch(context: ApiContext, call: ApiCall, route: Route): ApiAnswer {
  const results = readRequests(call).map((request) => {
    const answer = runSubrequest(context, request, route);
    return { statusCode: answer.status, result: answer.body ?? null };
  });
  return { status: 200, body: { hasErrors: results.some((result) => result.statusCode >= 400), results } };
}
