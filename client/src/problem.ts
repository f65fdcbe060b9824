import type { Fault, Problem } from './types.ts';

/** An answer that reports a problem: an RFC 9457 document, or whatever something in between answered. */
export class HandoffProblem extends Error {
  override readonly name = 'HandoffProblem';
  readonly status: number;
  /** Stable, for programs: `member_not_found`. `http_<status>` where the answer is not the service's. */
  readonly code: Problem['code'];
  readonly title: string;
  readonly detail: string;
  /** What to give to the people who run the service. */
  readonly requestId: string | undefined;
  /** What is wrong with the request, part by part. */
  readonly errors: readonly Fault[];
  /** Of a write whose outcome is unknown: the record to look for. */
  readonly externalId: string | undefined;
  /** With `permission_denied`: what is missing. */
  readonly required: Problem['required'];
  /** Seconds after which a repeat makes sense. */
  readonly retryAfter: number | undefined;
  /** The key of the write: a repeat under it is safe. */
  readonly idempotencyKey: string | undefined;

  constructor(response: Response, text: string, idempotencyKey: string | undefined) {
    const problem = readDocument(response, text);
    const { status, headers } = response;
    const title = problem.title ?? (response.statusText || `HTTP status ${status}`);
    super(problem.detail ? `${title}: ${problem.detail}` : title);
    this.status = status;
    this.code = problem.code ?? `http_${status}`;
    this.title = title;
    this.detail = problem.detail ?? '';
    this.requestId = problem.request_id ?? headers.get('x-request-id') ?? undefined;
    this.errors = problem.errors ?? [];
    this.externalId = problem.external_id;
    this.required = problem.required;
    this.retryAfter = secondsOf(headers.get('retry-after')) ?? problem.retry_after;
    this.idempotencyKey = idempotencyKey;
  }
}

/** No answer came, after all tries: a connection that failed, or a try that took too long. `cause` is the last failure. */
export class HandoffConnectionError extends Error {
  override readonly name = 'HandoffConnectionError';
  /** The key of the write, whose outcome is unknown: a repeat under it is safe. */
  readonly idempotencyKey: string | undefined;

  constructor(cause: unknown, idempotencyKey: string | undefined) {
    super(`no answer: ${reasonOf(cause)}`, { cause });
    this.idempotencyKey = idempotencyKey;
  }
}

/** Node's fetch says only "fetch failed", and has the reason in its cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error && cause.message !== '' ? cause.message : error.message;
}

function readDocument({ headers }: Response, text: string): Partial<Problem> {
  const type = headers.get('content-type') ?? '';
  if (!/^application\/(?:problem\+)?json/.test(type)) return {};
  try {
    const found = JSON.parse(text) as Partial<Problem> & { error?: string; error_description?: string };
    if (type.startsWith('application/problem+json')) return found;
    // OAuth has errors of another form.
    const { error: code, error_description: detail } = found;
    return { ...(code !== undefined && { code }), ...(detail !== undefined && { detail }) };
  } catch {
    return {};
  }
}

/** Retry-After: seconds, or a date. */
function secondsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d+$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - Date.now()) / 1000));
}
