import { ApiError, notFound } from '../org/api-error.ts';
import type { ApiAnswer, ApiCall, ApiContext } from './api-call.ts';
import { checkVersion } from './discovery.ts';

export type Route = (context: ApiContext, call: ApiCall) => ApiAnswer;

/** How one call of a Composite body is described. */
export interface Subrequest {
  method: string;
  url: string;
  body: unknown;
  headers: Record<string, string>;
}

/** The decoded segments of a path. @throws ApiError 404 where one is not encoded properly. */
export function splitPath(pathname: string): string[] {
  try {
    const segments = pathname.split('/').filter((segment) => segment !== '');
    return segments.map(decodeURIComponent);
  } catch {
    throw notFound();
  }
}

/** @throws ApiError when the URL is none of the data API, or is a Composite call itself. */
function toCall(context: ApiContext, request: Subrequest): ApiCall {
  const url = URL.parse(request.url.replace(/^\/?(services\/data\/)?/, '/'), 'http://subrequest');
  const [version = '', ...path] = splitPath(url?.pathname ?? '');
  const nested = path[0] === 'composite' && path[1] !== 'sobjects';
  if (url === null || nested) {
    throw new ApiError(400, 'INVALID_INPUT', `${request.url} can't be used as a subrequest`);
  }
  checkVersion(context, version);
  const headers = new Map(
    Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return {
    method: request.method.toUpperCase(),
    version,
    path,
    query: url.searchParams,
    body: request.body,
    header: (name) => headers.get(name),
  };
}

/** Runs a subrequest; a refusal becomes its answer. */
export function runSubrequest(context: ApiContext, request: Subrequest, route: Route): ApiAnswer {
  try {
    const part = toCall(context, request);
    const refusal = context.refusePart(part);
    if (refusal !== undefined) throw refusal;
    return route(context, part);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { status: error.status, body: error.toBody(context.org.language) };
  }
}
