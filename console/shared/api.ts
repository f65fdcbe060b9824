import { type Fault, HandoffClient, HandoffConnectionError, HandoffProblem } from '@handoff-gateway/client';

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
  errors?: readonly Fault[];
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
  /** Header `Prefer`. */
  prefer?: string;
  /** Entity tag of what is to be changed. */
  ifMatch?: string;
}

/** Longer than the service takes to answer anything. */
const timeoutMs = 40_000;

/** Both ways to the service, with the credentials of one person. */
export interface Caller {
  /** For everything that it has. Nothing is sent again by itself: the person sees what happened, and decides. */
  client: HandoffClient;
  /** Sends one request, for administration and where the text of an answer or its digits count. Throws `Failure`. */
  send(path: string, options?: RequestOptions): Promise<Answer>;
}

/** What the client has to be given; it is not sent. */
const inPlaceOfKeys: Credentials = { apiKey: 'session', apiSecret: 'session' };

/** With the session of a person in place of a key: the browser sends its cookie. */
function withSession(init: RequestInit | undefined, actingAs: ActingAs | undefined): RequestInit {
  const headers = new Headers(init?.headers);
  for (const name of ['x-api-key', 'x-api-secret']) headers.delete(name);
  headers.set('x-handoff-session', '1');
  // Another tab may change the session meanwhile: nothing is done as somebody, or as a consumer, that this one doesn't show.
  if (actingAs !== undefined) headers.set('x-handoff-consumer', actingAs.consumerId);
  if (actingAs?.mark) headers.set('x-handoff-person', actingAs.mark);
  return { ...init, headers, credentials: 'same-origin' };
}

interface ActingAs {
  consumerId: string;
  /** Of the person; null where a key is used. */
  mark: string | null;
}

interface CallerOptions {
  /** Who a person acts as, once it is known. */
  actingAs?: ActingAs;
  /** Called when the credentials are not valid any more; says what to show instead. */
  refused?: (problem: Problem) => Problem;
}

/** `given`: null for the session of a person. */
export function createCaller(given: Credentials | null, { actingAs, refused }: CallerOptions = {}): Caller {
  const credentials = given ?? inPlaceOfKeys;
  const ask: typeof fetch = async (address, init) => {
    // Nothing of the browser's own goes with a key: neither cookies nor a cached answer.
    const response = await fetch(address, {
      ...(given === null ? withSession(init, actingAs) : { ...init, credentials: 'omit' }),
      keepalive: outlivesTab(init),
      cache: 'no-store',
      redirect: 'error',
    });
    if (response.status !== 401 || refused === undefined) return response;
    throw new Failure(refused(problemOf(response, await response.text())));
  };
  const client = new HandoffClient({
    ...credentials,
    baseUrl: location.origin,
    // The page itself was loaded from this address.
    allowInsecureHttp: true,
    timeoutMs,
    maxRetries: 0,
    fetch: ask,
  });
  return { client, send: (path, options) => sendText(ask, credentials, path, options) };
}

/** Lets a decision arrive although the tab is closed, which browsers allow for small requests only. */
function outlivesTab({ method, body }: RequestInit = {}): boolean {
  return method === 'POST' ? !body : method === 'PATCH' && typeof body === 'string' && body.length < 1000;
}

async function sendText(
  ask: typeof fetch,
  credentials: Credentials,
  path: string,
  { method = 'GET', body, idempotencyKey, prefer, ifMatch }: RequestOptions = {},
): Promise<Answer> {
  const headers: Record<string, string> = {
    'x-api-key': credentials.apiKey,
    'x-api-secret': credentials.apiSecret,
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    ...(prefer !== undefined && { prefer }),
    ...(ifMatch !== undefined && { 'if-match': ifMatch }),
  };
  const response = await attempt(ask, path, { method, headers, ...(body !== undefined && { body }) });
  const text = await response.text().catch(() => {
    throw new Failure(noAnswer('The response was cut off.'));
  });
  if (!isFromService(response, text)) throw new Failure(problemOf(response, text));
  return { status: response.status, text, headers: response.headers };
}

/** Something in between can answer, with a success, too. */
function isFromService({ ok, headers }: Response, text: string): boolean {
  return ok && (text === '' || headers.get('content-type')?.startsWith('application/json') === true);
}

async function attempt(ask: typeof fetch, path: string, init: RequestInit): Promise<Response> {
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    return await ask(path, { ...init, signal });
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(noAnswer(signal.aborted ? tooLong : unreachable));
  }
}

const tooLong = 'The gateway took too long to respond.';
const unreachable = "The gateway couldn't be reached.";

function noAnswer(detail: string): Problem {
  return { title: 'No response', detail, status: 0, code: 'no_answer', request_id: null };
}

function problemOf(response: Response, text: string): Problem {
  const standIn: Problem = {
    title: `The gateway answered ${response.status}`,
    detail:
      'The response has no details. It may have come from a proxy between this browser and the gateway.',
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
  if (error instanceof HandoffProblem) return problemOfClient(error);
  if (error instanceof HandoffConnectionError) return problemOfConnection(error.cause);
  const detail = error instanceof Error ? error.message : 'Unknown error.';
  return {
    title: 'Something went wrong in the console',
    detail,
    status: 0,
    code: 'console',
    request_id: null,
  };
}

function problemOfClient({
  title,
  detail,
  status,
  code,
  requestId,
  retryAfter,
  externalId,
  errors,
}: HandoffProblem) {
  return {
    ...{ title, detail, status, code, request_id: requestId ?? null },
    ...(retryAfter !== undefined && { retry_after: retryAfter }),
    ...(externalId !== undefined && { external_id: externalId }),
    errors,
  } satisfies Problem;
}

function problemOfConnection(cause: unknown): Problem {
  if (cause instanceof Failure) return cause.problem;
  return noAnswer(cause instanceof Error && cause.name === 'TimeoutError' ? tooLong : unreachable);
}
