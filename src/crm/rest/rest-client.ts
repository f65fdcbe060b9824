import { Problem } from '../../base/problem.ts';
import type { Http } from '../../http/http.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { AccessToken } from '../token/access-token.ts';
import type { TokenProvider } from '../token/token-provider.ts';
import { CrmFailure } from './failure.ts';
import { createLimiter, type Limiter } from './limiter.ts';
import { toProblem } from './problems.ts';
import { type ApiUsage, createQuota, type Quota } from './quota.ts';
import type { CrmAnswer, Send, SendWithToken } from './request.ts';
import { withRetries } from './retry.ts';
import { createTransport, shortestCallMs } from './transport.ts';

export interface CrmClient {
  /** Path of the data API on the instance, e.g. `/services/data/v68.0`. */
  readonly dataPath: string;
  /** Sends a request through all policies. Throws `Problem`. */
  send: Send;
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

export interface ClientOptions {
  http: Http;
  tokens: TokensForCalls;
  apiVersion: string;
  timeoutMs: number;
  maxConcurrency: number;
  quotaReserve: number;
  metrics: Metrics;
  /** Told how each call ended: whether the CRM was reached and took our token. */
  onOutcome: (connected: boolean) => void;
}

/**
 * The client of the CRM's REST API, as policies around a transport. From the outside in:
 *
 *   problems      failures become `Problem`s
 *   outcome       health hears how the call ended in the end
 *   retries       what is safe is repeated, with pauses, until the deadline; a pause holds no slot
 *   quota         the reserve for writes
 *   token         a token for the call, and one repeat with another when it is refused
 *   slots         so many calls in flight; only a call that has its token takes one
 *   transport     one exchange, measured
 *
 * A circuit breaker would stand between outcome and retries; gathering of requests stands before the client.
 */
export function createCrmClient(options: ClientOptions): CrmClient {
  const { http, tokens, apiVersion, timeoutMs, metrics } = options;
  const quota = createQuota({ reserve: options.quotaReserve, metrics });
  const transport = createTransport({ http, timeoutMs, quota, metrics });
  const limited = withSlots(transport, createLimiter(options.maxConcurrency));
  const authorised = withToken(limited, tokens, (token) => tokens.accepted(token));
  const retried = withRetries(withQuota(authorised, quota), shortestCallMs(timeoutMs));
  return {
    dataPath: `/services/data/v${apiVersion}`,
    send: withProblems(withOutcome(retried, options.onOutcome)),
    // That the identity service takes a token proves nothing for the data API, which may refuse it all the same.
    probe: withToken(transport, tokens, () => undefined),
    get usage() {
      return quota.usage;
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

function withOutcome(send: Send, tell: (connected: boolean) => void): Send {
  return async (request, call) => {
    try {
      const answer = await send(request, call);
      tell(true);
      return answer;
    } catch (error) {
      // A call that waited for a slot in vain, or was held back, says nothing about the CRM.
      if (error instanceof CrmFailure && error.kind !== 'late') tell(isConnected(error));
      throw error;
    }
  };
}

/** Whether the CRM was reached and took our token, though it refused the call: a validation error is a good sign. */
export function isConnected({ kind, facts }: CrmFailure): boolean {
  const { status = 0, error } = facts;
  if (kind === 'busy' || kind === 'broken') return status > 0 && status < 500;
  if (kind === 'setup') return status !== 401 && error?.code !== 'API_DISABLED_FOR_ORG';
  return !['session', 'unreachable', 'lost', 'timeout', 'no_token'].includes(kind);
}

function withQuota(send: Send, quota: Quota): Send {
  return async (request, call) => {
    quota.admit(request);
    return send(request, call);
  };
}

/** A refused token is dropped and the call repeated once with another: whatever it was, nothing was done. */
function withToken(
  send: SendWithToken,
  tokens: TokensForCalls,
  accepted: (token: AccessToken) => void,
): Send {
  return async (request, call) => {
    for (let repeated = false; ; repeated = true) {
      const token = await tokens.getToken(call).catch(noToken);
      try {
        const answer = await send(request, call, token);
        accepted(token);
        return answer;
      } catch (error) {
        if (!(error instanceof CrmFailure)) throw error;
        if (error.kind !== 'session' && isConnected(error)) accepted(token);
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
  return (request, call, token): Promise<CrmAnswer> => limiter.run(call, () => send(request, call, token));
}
