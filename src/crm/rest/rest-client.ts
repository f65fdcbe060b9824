import { type Call, isAlone, remainingMs } from '../../platform/base/call.ts';
import { monotonicMs, sleep, wallMs } from '../../platform/base/chance.ts';
import { type Span, traceHeaders } from '../../platform/base/span.ts';
import { type Http, HttpFailure, type HttpRequest } from '../../platform/http/http.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget } from '../budget/call-budget.ts';
import { CrmFailure, isConnected, isUnsent, wasSent } from '../failure.ts';
import type { AccessToken } from '../token/access-token.ts';
import { VersionCheck } from './api-versions.ts';
import { failureOf } from './errors.ts';
import { type ApiUsage, CallGate, Permits, type TokensForCalls } from './permits.ts';
import { crmProblem } from './problems.ts';
import {
  type BatchCall,
  type CrmAnswer,
  type CrmRequest,
  header,
  isMetered,
  isSuccess,
  type Permit,
  sharersOf,
} from './request.ts';
import { isRepeatable, RetryBudget } from './retry.ts';
import { readRowStream, type TakeRow } from './row-stream.ts';

/**
 * Bytes of an answer at most, as it is parsed as a whole. A read of several records is asked for again in halves; the
 * answer to a write of several must not be lost for its size, and has the bound of the HTTP client.
 */
const maxAnswerBytes = 8 * 1024 * 1024;
/** Bytes of an answer in which reads share a call with writes, which are looked up where it is too large. */
const maxMixedBytes = 3 * maxAnswerBytes;
/** Characters of an error that is streamed. */
const longestError = 64 * 1024;

/** Called after a call that the CRM meters, with the consumer of each request that shared it. Never throws. */
export type OnMetered = (operation: string, sharers: readonly (string | undefined)[]) => void;

interface ClientOptions {
  http: Http;
  tokens: TokensForCalls;
  apiVersion: string;
  duplicateRules: 'obey' | 'allow';
  timeoutMs: number;
  maxConcurrency: number;
  quotaReserve: number;
  budget?: CallBudget | undefined;
  log: Log;
  metrics: Metrics;
  onOutcome: (failure?: CrmFailure) => void;
  digitsOf?: () => ReadonlySet<string>;
  onMetered: OnMetered;
}

/** Names us in the org's logs (REST Developer Guide, Call Options Header). */
const clientHeader = { 'sforce-call-options': 'client=handoff-gateway' };

/** Saves what a duplicate rule only warns of (REST Developer Guide, Duplicate Rule Header). */
const allowDuplicates = { 'Sforce-Duplicate-Rule-Header': 'allowSave=true' };

/**
 * The client of the CRM's REST API. A request goes through these methods, from the outside in:
 *
 *   send        a single request: admitted, with a permit of its own; failures become `Problem`s
 *   execute     what is safe is repeated, with pauses, until the deadline, within a budget; a pause holds no slot. Health hears
 *               how the call ended. Batches begin here, with the permit of the call that they share
 *   exchange    one call: a refused token is replaced once
 *   #transfer   the gate lets it pass, and takes note of how it ended
 *   #measure    one exchange over HTTP
 *
 * Every repeat gets a permit of its own.
 */
export class CrmClient {
  readonly dataPath: string;
  readonly writeHeaders: Readonly<Record<string, string>>;
  readonly permits: Permits;
  readonly budget: CallBudget | undefined;
  readonly retryBudget: RetryBudget;
  readonly shortestCallMs: number;
  readonly time = new CrmTime();
  readonly #options: ClientOptions;
  readonly #gate: CallGate;
  readonly #versions: VersionCheck;
  readonly #noteToken: (token: AccessToken) => void;
  readonly #parse: ParseJson;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.budget = options.budget;
    this.dataPath = `/services/data/v${options.apiVersion}`;
    this.writeHeaders = options.duplicateRules === 'allow' ? allowDuplicates : {};
    this.shortestCallMs = shortestCallMs(options.timeoutMs);
    this.retryBudget = new RetryBudget(this.shortestCallMs, options.metrics);
    this.#gate = new CallGate(options);
    this.#versions = new VersionCheck(options);
    this.#noteToken = createTokenGauges(options.metrics);
    this.#parse = createParser(options.digitsOf);
    this.permits = new Permits({ ...options, gate: this.#gate, shortestCallMs: this.shortestCallMs });
  }

  get usage(): ApiUsage | undefined {
    return this.#gate.usage;
  }

  get isQuotaUsedUp(): boolean {
    return this.#gate.isQuotaUsedUp;
  }

  /** Throws `Problem`. */
  async send(request: CrmRequest, call: Call): Promise<CrmAnswer> {
    try {
      const permit = await this.permits.permitFor(request.effect, call);
      return await this.execute(request, call, permit);
    } catch (error) {
      throw error instanceof CrmFailure ? crmProblem(error, request) : error;
    }
  }

  /** Its first call uses the permit, where one is given. Throws `CrmFailure`. */
  async execute(request: CrmRequest, call: Call | BatchCall, permit?: Permit): Promise<CrmAnswer> {
    // The outcome of work that failed before shows nothing of the CRM.
    if (call.background === 'alone') return this.#executeWithRepeats(request, call, permit);
    const { onOutcome } = this.#options;
    try {
      const answer = await this.#executeWithRepeats(request, call, permit);
      onOutcome();
      return answer;
    } catch (error) {
      if (error instanceof CrmFailure) onOutcome(error);
      throw error;
    }
  }

  async #executeWithRepeats(
    request: CrmRequest,
    call: Call | BatchCall,
    permit: Permit | undefined,
  ): Promise<CrmAnswer> {
    let failure: CrmFailure | undefined;
    this.retryBudget.earn();
    let given = permit;
    for (let tried = request.isAfterLoss ? 2 : 1; ; tried++) {
      try {
        return await this.#callOnce(request, call, given);
      } catch (error) {
        if (!(error instanceof CrmFailure)) throw error;
        // A repeat that was not sent shows nothing: the failure before it is the answer.
        if (failure !== undefined && isUnsent(error)) throw failure;
        failure = error;
        given = undefined;
      }
      // Requests that are tried alone, or as a probe, are not repeated.
      if (isAlone(call) || !isRepeatable(failure, request)) throw failure;
      const pauseMs = this.retryBudget.pauseBeforeRepeat(failure, call, tried);
      if (pauseMs === undefined) throw failure;
      await sleep(pauseMs);
    }
  }

  #callOnce(request: CrmRequest, call: Call | BatchCall, permit: Permit | undefined): Promise<CrmAnswer> {
    if (permit?.shared !== undefined && 'kind' in call) return permit.shared.join(request, call);
    return this.exchange(request, call, permit);
  }

  /** Throws `CrmFailure`. */
  async exchange(request: CrmRequest, call: Call | BatchCall, permit?: Permit): Promise<CrmAnswer> {
    const { tokens } = this.#options;
    let given = permit;
    for (let repeated = false; ; repeated = true) {
      const { token, release } = given ?? (await this.permits.furtherPermit(call));
      given = undefined;
      try {
        const answer = await this.#transfer(request, call, token);
        release(true);
        tokens.accepted(token);
        return answer;
      } catch (error) {
        release(!(error instanceof CrmFailure) || wasSent(error));
        if (!(error instanceof CrmFailure)) throw error;
        if (error.kind !== 'session') {
          if (isConnected(error) && !isUnsent(error)) tokens.accepted(token);
          throw error;
        }
        // Nothing was done.
        await tokens.invalidate(token);
        if (repeated) throw error;
      }
    }
  }

  async #transfer(request: CrmRequest, call: Call, token: AccessToken): Promise<CrmAnswer> {
    const isProbe = this.#gate.begin(call.background);
    try {
      const answer = await this.#measure(request, call, token);
      this.#gate.endAnswered(isProbe);
      return answer;
    } catch (error) {
      this.#gate.endFailed(error, { isProbe, background: call.background });
      throw error;
    }
  }

  async #measure(request: CrmRequest, call: Call, token: AccessToken): Promise<CrmAnswer> {
    const { metrics, timeoutMs: longestMs } = this.#options;
    const timeoutMs = timeFor(request, call, longestMs);
    this.#noteToken(token);
    const started = monotonicMs();
    const span = call.span.child('client', `crm ${request.operation}`, {
      'http.request.method': request.method,
      'server.address': new URL(token.instanceUrl).hostname,
      'handoff.crm.records': request.records ?? 1,
    });
    let outcome = 'ok';
    let isCounted = true;
    try {
      const answer = await this.#sendHttp(request, token, { timeoutMs, span });
      isCounted = !isOfFront(answer);
      span.set({ 'http.response.status_code': answer.status });
      this.#gate.noteUsage(answer);
      this.time.note(answer);
      if (!isSuccess(answer))
        throw await this.#versions.explain(failureOf(answer, request), request, token.instanceUrl);
      return request.unwrap?.(answer) ?? answer;
    } catch (error) {
      outcome = error instanceof CrmFailure ? error.kind : 'error';
      throw error;
    } finally {
      if (isCounted && outcome !== 'unreachable') noteMetered(this.#options, request, call);
      const ms = monotonicMs() - started;
      call.crmMs += ms;
      metrics.crmCallDuration.observe({ operation: request.operation, outcome }, ms / 1000);
      span.end(outcome === 'ok' ? undefined : outcome);
    }
  }

  async #sendHttp(
    request: CrmRequest,
    token: AccessToken,
    { timeoutMs, span }: { timeoutMs: number; span: Span },
  ): Promise<CrmAnswer> {
    const { http } = this.#options;
    const parse = this.#parse;
    const { method, path, body, takeRows } = request;
    const options: HttpRequest = {
      url: token.instanceUrl + path,
      method,
      headers: {
        authorization: `Bearer ${token.accessToken}`,
        accept: 'application/json',
        ...clientHeader,
        ...(request.effect !== 'read' && request.operation !== 'delete' && this.writeHeaders),
        ...traceHeaders(span),
        ...(body === undefined ? {} : { 'content-type': 'application/json; charset=UTF-8' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      timeoutMs,
      maxBytes: maxBytesOf(request),
    };
    try {
      if (takeRows !== undefined)
        return await streamRows(http, options, { request, take: takeRows(), parse });
      const answer = await http.exchange(options);
      return { ...answer, body: parseBody(answer.body, { status: answer.status, request, parse }) };
    } catch (error) {
      throw asCrmFailure(error, request);
    }
  }

  /**
   * Sends a request with a token and its one repeat, and nothing else: no slot, no retry, no report to the listener.
   * For health probes, which must get through when calls are queueing. Throws `CrmFailure`.
   */
  async probe(request: CrmRequest, call: Call): Promise<CrmAnswer> {
    const { tokens } = this.#options;
    for (let repeated = false; ; repeated = true) {
      const token = await this.permits.getToken(call);
      try {
        if (isMetered(request)) this.budget?.charge();
        // That the identity service takes a token proves nothing for the data API, which may refuse it all the same.
        return await this.#measure(request, call, token);
      } catch (error) {
        if (!(error instanceof CrmFailure) || error.kind !== 'session') throw error;
        await tokens.invalidate(token);
        if (repeated) throw error;
      }
    }
  }
}

/** A call with less time than this before its deadline is not worth starting. */
function shortestCallMs(timeoutMs: number): number {
  return Math.min(timeoutMs, 1000);
}

/** Milliseconds that the call may take. Throws `CrmFailure` (late) where it is not to be sent any more. */
function timeFor({ notAfter }: CrmRequest, call: Call, longestMs: number): number {
  const timeoutMs = Math.min(longestMs, remainingMs(call));
  const isTooLate = notAfter !== undefined && wallMs() >= notAfter;
  if (!isTooLate && timeoutMs >= shortestCallMs(longestMs)) return timeoutMs;
  throw new CrmFailure('late', 'no time was left for the call');
}

/** A page in place of JSON: what stands before the org has answered, and the org has counted no call. */
function isOfFront({ status, body }: CrmAnswer): boolean {
  return status >= 500 && typeof body === 'string';
}

function noteMetered({ metrics, onMetered }: ClientOptions, request: CrmRequest, call: Call): void {
  if (!isMetered(request)) return;
  metrics.crmCalls.inc({ operation: request.operation });
  onMetered(request.operation, sharersOf(call));
}

/** A batch of changes that is read back may be answered with as many whole records; undefined: the client's own bound. */
function maxBytesOf({ operation, effect, records = 1 }: CrmRequest): number | undefined {
  if (operation === 'mixed' && effect !== 'read') return maxMixedBytes;
  return effect === 'read' || records === 1 ? maxAnswerBytes : undefined;
}

function streamRows(
  http: Http,
  options: HttpRequest,
  { request, take, parse }: { request: CrmRequest; take: TakeRow; parse: ParseJson },
): Promise<CrmAnswer> {
  return http.stream(options, async ({ status, headers }, chunks) => {
    if (!isSuccess({ status }))
      return { status, headers, body: parseBody(await readStart(chunks), { status, request, parse }) };
    try {
      return { status, headers, body: await readRowStream(chunks, take, { ...request, parse }) };
    } catch (error) {
      const isUnreadable = error instanceof SyntaxError || error instanceof RangeError;
      throw isUnreadable ? notJson(status, request) : error;
    }
  });
}

async function readStart(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  let text = '';
  for await (const chunk of chunks) {
    text += Buffer.from(chunk).toString('utf8');
    if (text.length > longestError) break;
  }
  return text;
}

function asCrmFailure(error: unknown, request: CrmRequest): unknown {
  if (!(error instanceof HttpFailure)) return error;
  const outcomeUnknown = error.kind !== 'unreachable' && request.effect !== 'read';
  return new CrmFailure(error.kind === 'unreadable' ? 'broken' : error.kind, error.message, {
    outcomeUnknown,
  });
}

type ParseJson = (text: string) => unknown;
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

function createParser(digitsOf: (() => ReadonlySet<string>) | undefined): ParseJson {
  return (text) => {
    const columns = digitsOf?.();
    if (columns === undefined || columns.size === 0) return JSON.parse(text) as unknown;
    const revive: Reviver = (key, value, context) =>
      typeof value === 'number' && columns.has(key) ? context?.source : value;
    return JSON.parse(text, revive as Parameters<typeof JSON.parse>[1]) as unknown;
  };
}

function parseBody(
  text: string,
  { status, request, parse }: { status: number; request: CrmRequest; parse: ParseJson },
): unknown {
  if (text === '') return undefined;
  try {
    return parse(text);
  } catch {
    if (!isSuccess({ status })) return text.slice(0, 1000);
    throw notJson(status, request);
  }
}

function notJson(status: number, { effect }: CrmRequest): CrmFailure {
  const outcomeUnknown = effect !== 'read';
  return new CrmFailure('broken', `an answer with status ${status} is no JSON`, { status, outcomeUnknown });
}

/**
 * The time by the CRM's clock, from the Date of its latest answer: never ahead of it, and at most a second and an
 * answer's way behind. Before the first answer, and where answers have no Date, this process's own clock counts.
 */
export class CrmTime {
  #aheadMs = wallMs() - monotonicMs();

  note({ headers }: Pick<CrmAnswer, 'headers'>): void {
    const date = Date.parse(header(headers, 'date') ?? '');
    if (!Number.isNaN(date)) this.#aheadMs = date - monotonicMs();
  }

  /** Milliseconds since 1970. */
  now(): number {
    return monotonicMs() + this.#aheadMs;
  }
}

function createTokenGauges(metrics: Metrics): (token: AccessToken) => void {
  let latest: string | undefined;
  return ({ accessToken, expiresAt }) => {
    if (accessToken === latest) return;
    latest = accessToken;
    metrics.crmTokenAge.restart();
    metrics.crmTokenExpiresAt.set(expiresAt / 1000);
  };
}
