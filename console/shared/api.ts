/** What somebody signs in with. Kept in this tab's memory and nowhere else. */
export interface Credentials {
  apiKey: string;
  apiSecret: string;
}

/** A problem document, or what stands for one where no answer came. */
export interface Problem {
  title: string;
  detail: string;
  /** 0: there was no answer. */
  status: number;
  code: string;
  request_id: string | null;
  retry_after?: number;
  external_id?: string;
  errors?: { pointer?: string; parameter?: string; header?: string; message: string }[];
}

/** A request that was refused, failed, or got no answer. */
export class Failure extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.title);
    this.problem = problem;
  }
}

export interface Answer {
  status: number;
  /** The body as it came: its numbers keep their digits. */
  text: string;
  headers: Headers;
}

export interface RequestOptions {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** JSON as text. */
  body?: string;
  idempotencyKey?: string;
}

/** Longer than the service takes to answer anything. */
const timeoutMs = 40_000;

/** Sends one request to the service. Throws `Failure`. */
export async function send(
  credentials: Credentials,
  path: string,
  { method = 'GET', body, idempotencyKey }: RequestOptions = {},
): Promise<Answer> {
  const headers: Record<string, string> = {
    'x-api-key': credentials.apiKey,
    'x-api-secret': credentials.apiSecret,
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
  };
  const response = await attempt(path, { method, headers, ...(body !== undefined && { body }) });
  const text = await response.text().catch(() => {
    throw new Failure(noAnswer('The answer broke off.'));
  });
  const type = response.headers.get('content-type') ?? '';
  if (!response.ok && !type.startsWith('application/json')) throw new Failure(problemOf(response, text));
  return { status: response.status, text, headers: response.headers };
}

async function attempt(path: string, init: RequestInit): Promise<Response> {
  const signal = AbortSignal.timeout(timeoutMs);
  // Nothing of the browser's own goes with it: neither cookies nor a cached answer.
  const options: RequestInit = { ...init, signal, credentials: 'omit', cache: 'no-store', redirect: 'error' };
  try {
    return await fetch(path, options);
  } catch {
    throw new Failure(
      noAnswer(signal.aborted ? 'The service took too long.' : 'The service could not be reached.'),
    );
  }
}

function noAnswer(detail: string): Problem {
  return { title: 'No answer', detail, status: 0, code: 'no_answer', request_id: null };
}

function problemOf(response: Response, text: string): Problem {
  const standIn: Problem = {
    title: `The service answered ${response.status}`,
    detail: 'It said nothing more. Something between this browser and the service may have answered.',
    status: response.status,
    code: 'unknown',
    request_id: response.headers.get('x-request-id'),
  };
  try {
    return { ...standIn, ...(JSON.parse(text) as Partial<Problem>) };
  } catch {
    return standIn;
  }
}

/** The problem that an error is; one of our own making is shown as what it is. */
export function problemFrom(error: unknown): Problem {
  if (error instanceof Failure) return error.problem;
  const detail = error instanceof Error ? error.message : 'Unknown.';
  return { title: 'The console failed', detail, status: 0, code: 'console', request_id: null };
}
