import { type Call, isAlone } from '../../platform/base/call.ts';
import { sleep } from '../../platform/base/chance.ts';
import type { Http } from '../../platform/http/http.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget } from '../budget/call-budget.ts';
import { CrmFailure, isConnected, isUnsent, wasSent } from '../failure.ts';
import type { AccessToken } from '../token/access-token.ts';
import { Breaker } from './breaker.ts';
import { Permits, type TokensForCalls } from './permits.ts';
import { crmProblem } from './problems.ts';
import { type ApiUsage, CallQuota } from './quota.ts';
import { type BatchCall, type CrmAnswer, type CrmRequest, isMetered, type Permit } from './request.ts';
import { isRepeatable, RetryBudget } from './retry.ts';
import { CrmTime, type OnMetered, shortestCallMs, Transport } from './transport.ts';

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

/** Saves what a duplicate rule only warns of (REST Developer Guide, Duplicate Rule Header). */
const allowDuplicates = { 'Sforce-Duplicate-Rule-Header': 'allowSave=true' };

/**
 * The client of the CRM's REST API. A request goes through these methods, from the outside in:
 *
 *   send        a single request: admitted, with a permit of its own; failures become `Problem`s
 *   execute     what is safe is repeated, with pauses, until the deadline, within a budget; a pause holds no slot. Health hears
 *               how the call ended. Batches begin here, with the permit of the call that they share
 *   exchange    one call: a refused token is replaced once
 *   transport   one exchange, measured; the quota and the breaker take note of it
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
  readonly #quota: CallQuota;
  readonly #breaker: Breaker;
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.budget = options.budget;
    this.dataPath = `/services/data/v${options.apiVersion}`;
    this.writeHeaders = options.duplicateRules === 'allow' ? allowDuplicates : {};
    this.shortestCallMs = shortestCallMs(options.timeoutMs);
    this.retryBudget = new RetryBudget(this.shortestCallMs, options.metrics);
    const quota = new CallQuota({ reserve: options.quotaReserve, metrics: options.metrics });
    const breaker = new Breaker(options);
    const { time, writeHeaders } = this;
    this.#quota = quota;
    this.#breaker = breaker;
    this.#transport = new Transport({ ...options, quota, time, writeHeaders });
    this.permits = new Permits({ ...options, quota, breaker, shortestCallMs: this.shortestCallMs });
  }

  get usage(): ApiUsage | undefined {
    return this.#quota.usage;
  }

  get isQuotaUsedUp(): boolean {
    return this.#quota.isUsedUp;
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
    // What became of work that failed before shows nothing of the CRM.
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
      // What is tried alone, or as a probe, is not repeated.
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
    const isProbe = this.#breaker.begin(call.background);
    try {
      const answer = await this.#transport.exchange(request, call, token);
      this.#breaker.noteAnswer();
      this.#quota.noteAnswer();
      return answer;
    } catch (error) {
      this.#breaker.noteFailure(error, { isProbe, background: call.background });
      this.#quota.noteFailure(error);
      throw error;
    } finally {
      this.#breaker.end(isProbe);
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
        return await this.#transport.exchange(request, call, token);
      } catch (error) {
        if (!(error instanceof CrmFailure) || error.kind !== 'session') throw error;
        await tokens.invalidate(token);
        if (repeated) throw error;
      }
    }
  }
}
