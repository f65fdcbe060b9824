import type { Call } from '../../base/call.ts';
import { Problem } from '../../base/problem.ts';
import type { Http } from '../../http/http.ts';
import type { Log } from '../../observability/log.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { AccessToken } from '../token/access-token.ts';
import type { TokenProvider } from '../token/token-provider.ts';
import { type Breaker, createBreaker } from './breaker.ts';
import { CrmFailure, type FailureKind } from './failure.ts';
import { createLimiter, type Limiter } from './limiter.ts';
import { toProblem } from './problems.ts';
import { type ApiUsage, createQuota, type Quota } from './quota.ts';
import type { CrmRequest, Send, SendDraft, SendWithToken } from './request.ts';
import { withRetries } from './retry.ts';
import { createRetryBudget, type RetryBudget } from './retry-budget.ts';
import { createRoom, loneCallWeight, type Room } from './room.ts';
import { createTransport, shortestCallMs } from './transport.ts';

export interface CrmClient {
  /** Path of the data API on the instance, e.g. `/services/data/v68.0`. */
  readonly dataPath: string;
  /** Sends a request of one caller's through the door and all policies. Throws `Problem`. */
  send: Send;
  /**
   * Sends what was gathered from several requests, each of which came through the door, through all policies. Throws
   * `CrmFailure`.
   */
  sendGathered: SendDraft;
  door: Door;
  /** What repeats may cost, over all calls. */
  readonly retryBudget: RetryBudget;
  /** A call with less time than this, in milliseconds, is not started. */
  readonly shortestCallMs: number;
  /**
   * Sends a request with a token and its one repeat, and nothing else: no slot, no retry, no word to the listener.
   * For health probes, which must get through when calls are queueing. Throws `Problem` or `CrmFailure`.
   */
  probe: Send;
  /** Use of the daily quota, as the CRM last told. */
  readonly usage: ApiUsage | undefined;
}

/** What a call needs of the provider of tokens. */
type TokensForCalls = Pick<TokenProvider, 'getToken' | 'accepted' | 'invalidate'>;

/** Where each request is let in, or turned away at once rather than after a wait in vain. */
export interface Door {
  /** Whether a write would be let in now. Throws `CrmFailure` or `Problem`. */
  check(call: Call): void;
  /** Lets a request in and gives it a place to wait, until the returned function is called. Throws as `check`. */
  enter(effect: CrmRequest['effect'], call: Call, weight?: number): () => void;
}

export interface ClientOptions {
  http: Http;
  tokens: TokensForCalls;
  apiVersion: string;
  timeoutMs: number;
  maxConcurrency: number;
  quotaReserve: number;
  log: Log;
  metrics: Metrics;
  /** Told how each call ended: whether the CRM was reached and took our token. */
  onOutcome: (connected: boolean) => void;
}

/**
 * The client of the CRM's REST API, as policies around a transport. From the outside in:
 *
 *   problems      failures become `Problem`s
 *   door          turned away at once: the breaker is open, the quota is used up, too many wait
 *   (gathering)   requests of many callers become one call; see `../gathering`
 *   outcome       health hears how the call ended in the end
 *   retries       what is safe is repeated, with pauses, until the deadline, within a budget; a pause holds no slot
 *   token         a token for the call, and one repeat with another when it is refused
 *   slots         so many calls in flight, consumers in turn; only a call that has its token takes one
 *   quota         notes when the daily quota is used up
 *   breaker       notes whether the CRM lives, and turns away what waited for a slot while it died
 *   transport     one exchange, measured
 */
export function createCrmClient(options: ClientOptions): CrmClient {
  const { http, tokens, apiVersion, timeoutMs, metrics } = options;
  const quota = createQuota({ reserve: options.quotaReserve, metrics });
  const breaker = createBreaker(options);
  const room = createRoom({ slots: options.maxConcurrency, metrics });
  const retryBudget = createRetryBudget();

  const transport = createTransport({ http, timeoutMs, quota, metrics });
  const guarded = withQuota(withBreaker(transport, breaker), quota);
  const limited = withSlots(guarded, createLimiter(options.maxConcurrency));
  const authorised = withToken(limited, tokens, (token) => tokens.accepted(token));
  const enoughMs = shortestCallMs(timeoutMs);
  const retried = withRetries(authorised, { enoughMs, budget: retryBudget, metrics });
  const sendGathered = withOutcome(retried, options.onOutcome);
  const door = createDoor({ breaker, quota, room });
  // That the identity service takes a token proves nothing for the data API, which may refuse it all the same.
  const probe = withToken(transport, tokens, () => undefined);
  return {
    dataPath: `/services/data/v${apiVersion}`,
    send: withProblems(withDoor(sendGathered, door)),
    sendGathered,
    door,
    retryBudget,
    shortestCallMs: enoughMs,
    probe: (request, call) => probe(() => request, call),
    get usage() {
      return quota.usage;
    },
  };
}

function createDoor({ breaker, quota, room }: { breaker: Breaker; quota: Quota; room: Room }): Door {
  return {
    check(call) {
      breaker.admit();
      quota.check();
      room.admit(call);
    },
    enter(effect, call, weight) {
      breaker.admit();
      // A write begins with looking the record up, and is a write all the same.
      quota.admit(call.isWrite === true && effect === 'read' ? 'change' : effect);
      return room.enter(call, weight);
    },
  };
}

function withProblems(send: Send): Send {
  return async (request, call) => {
    try {
      return await send(request, call);
    } catch (error) {
      throw error instanceof CrmFailure ? toProblem(error, request) : error;
    }
  };
}

/** A call of one caller's leaves its place in the waiting room when it has its slot. */
function withDoor(send: SendDraft, door: Door): Send {
  return async (request, call) => {
    const leave = door.enter(request.effect, call, loneCallWeight);
    const draft = () => {
      leave();
      return request;
    };
    return send(draft, call).finally(leave);
  };
}

function withOutcome(send: SendDraft, tell: (connected: boolean) => void): SendDraft {
  return async (draft, call) => {
    try {
      const answer = await send(draft, call);
      tell(true);
      return answer;
    } catch (error) {
      if (error instanceof CrmFailure && !saysNothing.includes(error.kind)) tell(isConnected(error));
      throw error;
    }
  };
}

/** A call that waited for a slot in vain, or was held back, says nothing about the CRM. */
const saysNothing: readonly FailureKind[] = ['late', 'crowded', 'open'];

/** Whether the CRM was reached and took our token, though it refused the call: a validation error is a good sign. */
export function isConnected({ kind, facts }: CrmFailure): boolean {
  const { status = 0, error } = facts;
  if (kind === 'busy' || kind === 'broken') return status > 0 && status < 500;
  if (kind === 'setup') return status !== 401 && error?.code !== 'API_DISABLED_FOR_ORG';
  return !['session', 'unreachable', 'lost', 'timeout', 'no_token'].includes(kind);
}

/** A refused token is dropped and the call repeated once with another: whatever it was, nothing was done. */
function withToken(
  send: SendWithToken,
  tokens: TokensForCalls,
  accepted: (token: AccessToken) => void,
): SendDraft {
  return async (draft, call) => {
    for (let repeated = false; ; repeated = true) {
      const token = await tokens.getToken(call).catch(noToken);
      try {
        const answer = await send(draft, call, token);
        accepted(token);
        return answer;
      } catch (error) {
        if (!(error instanceof CrmFailure)) throw error;
        if (error.kind !== 'session' && isConnected(error) && !saysNothing.includes(error.kind))
          accepted(token);
        if (error.kind !== 'session') throw error;
        await tokens.invalidate(token);
        if (repeated) throw error;
      }
    }
  };
}

/** As a failure like any other, so that health hears of it and an earlier try's unknown outcome is not lost. */
function noToken(error: unknown): never {
  if (!(error instanceof Problem)) throw error;
  throw new CrmFailure('no_token', error.message, { retryAfter: error.facts.retryAfter });
}

function withSlots(send: SendWithToken, limiter: Limiter): SendWithToken {
  return (draft, call, token) => limiter.run(call, () => send(draft, call, token));
}

function withQuota(send: SendWithToken, quota: Quota): SendWithToken {
  return (draft, call, token) => quota.run(() => send(draft, call, token));
}

function withBreaker(send: SendWithToken, breaker: Breaker): SendWithToken {
  return (draft, call, token) => breaker.run(() => send(draft, call, token));
}
