import { type Call, remainingMs } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Http } from '../../platform/http/http.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget, PaidCall } from '../budget/call-budget.ts';
import type { CallKind } from '../budget/waiters.ts';
import type { AccessToken } from '../token/access-token.ts';
import type { TokenProvider } from '../token/token-provider.ts';
import { Admission, singleCallWeight } from './admission.ts';
import { Breaker } from './breaker.ts';
import { CrmTime } from './crm-time.ts';
import {
  CrmFailure,
  type DisconnectedBy,
  disconnectedBy,
  isConnected,
  isUnsent,
  wasSent,
} from './failure.ts';
import { type BatchCall, countByConsumer, Limiter, sharersOf, tenantOf } from './limiter.ts';
import { crmProblem } from './problems.ts';
import { type ApiUsage, CallQuota } from './quota.ts';
import {
  type CrmAnswer,
  type CrmRequest,
  type Exchange,
  isMetered,
  type Permit,
  type Send,
} from './request.ts';
import { RetryBudget, withRetries } from './retry.ts';
import { createTransport, type OnMetered, shortestCallMs } from './transport.ts';

export interface CrmClient {
  /** Path of the data API on the instance, e.g. `/services/data/v68.0`. */
  readonly dataPath: string;
  /** Headers of creations and changes, which a part of a Composite call must name itself. */
  readonly writeHeaders: Readonly<Record<string, string>>;
  /** Sends a single request through admission and all policies. Throws `Problem`. */
  send(request: CrmRequest, call: Call): Promise<CrmAnswer>;
  admission: Admission;
  /** The budget of calls; undefined where there is none. A batch waits for its call of it before it acquires a permit. */
  readonly budget: CallBudget | undefined;
  /** Waits for what else the first exchange of a batch needs. To be used or released. Throws `CrmFailure`. */
  acquire(call: BatchCall, paid: PaidCall | undefined): Promise<Permit>;
  /** Sends a batch, whose requests are admitted, through all other policies. Throws `CrmFailure`. */
  execute: Send;
  /** The same without repeats: a call with requests of several kinds, which are repeated each by itself. */
  exchange: Send;
  /** What repeats may cost, over all calls. */
  readonly retryBudget: RetryBudget;
  /** A call with less time than this, in milliseconds, is not started. */
  readonly shortestCallMs: number;
  /**
   * Sends a request with a token and its one repeat, and nothing else: no slot, no retry, no report to the listener.
   * For health probes, which must get through when calls are queueing. Throws `CrmFailure`.
   */
  probe(request: CrmRequest, call: Call): Promise<CrmAnswer>;
  /** Use of the daily quota, as the CRM last reported. */
  readonly usage: ApiUsage | undefined;
  /** The time by the CRM's clock: see `CrmTime`. */
  readonly time: Pick<CrmTime, 'now'>;
}

/** What a call needs of the provider of tokens. */
type TokensForCalls = Pick<TokenProvider, 'getToken' | 'accepted' | 'invalidate'>;

export interface ClientOptions {
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
  /** Called when a call ends: why the CRM counts as not connected after it; undefined where it is. */
  onOutcome: (disconnected: DisconnectedBy | undefined) => void;
  /** Columns whose numbers are given as text, digit for digit; none if left out. */
  digitsOf?: () => ReadonlySet<string>;
  onMetered: OnMetered;
}

/**
 * The client of the CRM's REST API, as policies around a transport. From the outside in:
 *
 *   problems      failures become `Problem`s
 *   admission     refused at once: the breaker is open, the quota is used up, too many wait
 *   (batching)    requests of many callers become one call; see `../batching`
 *   outcome       health hears how the call ended in the end
 *   retries       what is safe is repeated, with pauses, until the deadline, within a budget; a pause holds no slot
 *   permit        a call of the budget, a token, then a slot: so many calls in flight, alternating between consumers; a refused
 *                 token is replaced once
 *   quota         notes when the daily quota is used up
 *   breaker       notes whether the CRM answers, and refuses calls that waited for a slot while it failed
 *   transport     one exchange, measured
 *
 * A batch acquires its permit before it is drawn, and brings it along; every repeat acquires its own.
 */
export function createCrmClient(options: ClientOptions): CrmClient {
  const { tokens, timeoutMs, maxConcurrency, budget, metrics } = options;
  const quota = new CallQuota({ reserve: options.quotaReserve, metrics });
  const time = new CrmTime();
  const breaker = new Breaker(options);
  const admission = new Admission({ slots: maxConcurrency, breaker, quota, budget, metrics });
  const retryBudget = new RetryBudget();
  const enoughMs = shortestCallMs(timeoutMs);

  const writeHeaders = options.duplicateRules === 'allow' ? allowDuplicates : {};
  const transport = createTransport({ ...options, quota, time, writeHeaders });
  const guarded: Exchange = (request, call, token) =>
    quota.run(() => breaker.run(() => transport(request, call, token), call.background));
  const acquire = createAcquire(tokens, new Limiter(maxConcurrency));
  // Further calls of a request that has begun may wait as long as there is time for them; `maxWaitMs` is for new requests.
  const acquireAgain = async (call: Call) =>
    acquire(call, await pay(budget, call, remainingMs(call) - enoughMs));
  const accepted = (token: AccessToken) => tokens.accepted(token);
  const permitted = withPermit(guarded, { acquire: acquireAgain, tokens, accepted });
  const retried = withRetries(withSharedCalls(permitted), { enoughMs, budget: retryBudget, metrics });
  const outcome = createOutcomeListener(options.onOutcome);
  const execute = withOutcome(retried, outcome);
  const acquireNoted = (call: Call, paid: PaidCall | undefined) => outcome(acquire(call, paid), false);
  const charged: Exchange = (request, call, token) => {
    if (isMetered(request)) budget?.charge();
    return transport(request, call, token);
  };
  const probe = withPermit(charged, {
    acquire: async (call) => ({ token: await getToken(tokens, call), release: () => undefined }),
    tokens,
    // That the identity service takes a token proves nothing for the data API, which may refuse it all the same.
    accepted: () => undefined,
  });
  return {
    dataPath: `/services/data/v${options.apiVersion}`,
    writeHeaders,
    async send(request, call) {
      let leaveQueue = () => {};
      try {
        leaveQueue = admission.enter(request.effect, call, singleCallWeight);
        const permit = await acquireNoted(call, await payForNew(budget, call, enoughMs));
        leaveQueue();
        return await execute(request, call, permit);
      } catch (error) {
        throw error instanceof CrmFailure ? crmProblem(error, request) : error;
      } finally {
        leaveQueue();
      }
    },
    admission,
    budget,
    acquire: acquireNoted,
    execute,
    exchange: permitted,
    retryBudget,
    shortestCallMs: enoughMs,
    probe,
    get usage() {
      return quota.usage;
    },
    time,
  };
}

/** Saves what a duplicate rule only warns of (REST Developer Guide, Duplicate Rule Header). */
const allowDuplicates = { 'Sforce-Duplicate-Rule-Header': 'allowSave=true' };

/** Gets a permit for a call whose part of the budget is paid; that goes back where there is none. */
function createAcquire(tokens: TokensForCalls, limiter: Limiter) {
  return async (call: Call, paid: PaidCall | undefined): Promise<Permit> => {
    try {
      const token = await getToken(tokens, call);
      const leaveSlot = await limiter.acquire(call);
      return { token, release: releaseOnce(leaveSlot, paid) };
    } catch (error) {
      paid?.giveBack();
      throw error;
    }
  };
}

/** What a call of the budget is for. */
function kindOf({ background, isWrite }: Call): CallKind {
  if (background === 'poll') return 'poll';
  return isWrite ? 'write' : 'read';
}

/** A call of the budget where there is one, within so many milliseconds if need be. Throws `CrmFailure` (budget_exhausted). */
async function pay(
  budget: CallBudget | undefined,
  call: Call,
  mostMs: number,
): Promise<PaidCall | undefined> {
  if (budget === undefined) return undefined;
  const kind = kindOf(call);
  const requests = countByConsumer(sharersOf(call));
  const paid = await budget.wait(kind, { tenant: tenantOf(call), requesters: () => requests }, mostMs).paid;
  if (kind !== 'poll') paid?.chargeTo(requests);
  return paid;
}

/** The same for a new request: refused at once if it would wait in vain, and waits for `maxWaitMs` at most. */
function payForNew(budget: CallBudget | undefined, call: Call, enoughMs: number) {
  const mostMs = remainingMs(call) - enoughMs;
  if (call.background !== undefined) return pay(budget, call, mostMs);
  budget?.check(kindOf(call), { tenant: tenantOf(call), consumer: call.consumerId ?? '' });
  return pay(budget, call, Math.min(budget?.maxWaitMs ?? 0, mostMs));
}

function releaseOnce(leaveSlot: () => void, paid: PaidCall | undefined): Permit['release'] {
  let isHeld = true;
  return (isSpent = false) => {
    if (!isHeld) return;
    isHeld = false;
    leaveSlot();
    if (!isSpent) paid?.giveBack();
  };
}

/** Reports whether work on a call showed that the CRM is connected; `isCall`: its success shows that too. */
function createOutcomeListener(report: ClientOptions['onOutcome']) {
  return async <T>(work: Promise<T>, isCall: boolean): Promise<T> => {
    try {
      const result = await work;
      if (isCall) report(undefined);
      return result;
    } catch (error) {
      if (error instanceof CrmFailure && !isUnsent(error)) report(disconnectedBy(error));
      throw error;
    }
  };
}

/** A call for work that failed before (`alone`) does not count as an outcome of the CRM. */
function withOutcome(send: Send, outcome: ReturnType<typeof createOutcomeListener>): Send {
  return (request, call, permit) => {
    const answer = send(request, call, permit);
    return call.background === 'alone' ? answer : outcome(answer, true);
  };
}

/** A request whose permit is for a call that several batches share goes with that. */
function withSharedCalls(send: Send): Send {
  return (request, call, permit) =>
    permit?.join && 'batcher' in call ? permit.join(request, call as BatchCall) : send(request, call, permit);
}

interface PermitOptions {
  acquire: (call: Call) => Promise<Permit>;
  tokens: TokensForCalls;
  accepted: (token: AccessToken) => void;
}

/** A refused token is dropped and the request repeated once with another: nothing was done. */
function withPermit(exchange: Exchange, { acquire, tokens, accepted }: PermitOptions): Send {
  return async (request, call, permit) => {
    let given = permit;
    for (let repeated = false; ; repeated = true) {
      const { token, release } = given ?? (await acquire(call));
      given = undefined;
      try {
        const answer = await exchange(request, call, token);
        release(true);
        accepted(token);
        return answer;
      } catch (error) {
        release(!(error instanceof CrmFailure) || wasSent(error));
        if (!(error instanceof CrmFailure)) throw error;
        if (error.kind !== 'session') {
          if (isConnected(error) && !isUnsent(error)) accepted(token);
          throw error;
        }
        await tokens.invalidate(token);
        if (repeated) throw error;
      }
    }
  };
}

/** Its failure is one like any other, so that health hears of it and an earlier try's unknown outcome is not lost. */
async function getToken(tokens: TokensForCalls, call: Call): Promise<AccessToken> {
  try {
    return await tokens.getToken(call);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new CrmFailure('no_token', error.message, { retryAfter: error.facts.retryAfter });
  }
}
