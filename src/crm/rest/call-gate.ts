import type { Call } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { CrmFailure } from '../failure.ts';
import { type CrmAnswer, type CrmRequest, header } from './request.ts';

const failuresToOpen = 5;
/** Of the breaker, in milliseconds. */
const breakerPauses = { first: 1000, most: 15_000 };
/** While calls are refused for the quota, one is let through this often: only an answer shows that usage has fallen. */
const quotaProbeMs = 60_000;
/** After refusals by the CRM for the quota, in milliseconds. */
const quotaPauses = { first: 1000, most: quotaProbeMs };

export interface ApiUsage {
  used: number;
  limit: number;
  usedByApp?: number;
  /** When the CRM said so, by `monotonicMs()`. */
  at: number;
}

interface CallGateOptions {
  /** Calls of the daily quota that are kept for writes. */
  quotaReserve: number;
  log: Log;
  metrics: Metrics;
}

/**
 * Refuses calls at once that would wait in vain: while the CRM fails (the circuit breaker), and once the daily quota is used up.
 * States of the breaker:
 *
 *   closed    calls pass
 *   open      calls are refused at once, until `probeAt`
 *   probing   one call is in flight to see whether the CRM is back; the others are refused
 *
 *   closed -> open      so many calls in a row were not answered
 *   open -> probing     `probeAt` is over and a call comes
 *   probing -> closed   the CRM answered, whatever it said
 *   probing -> open     it did not: the pause doubles
 *   open -> closed      a call that was sent before is answered after all
 */
export class CallGate {
  readonly #options: CallGateOptions;
  #failures = 0;
  #isOpen = false;
  #isProbing = false;
  #pauses = 0;
  #probeAt = 0;
  #usage: ApiUsage | undefined;
  /** By `monotonicMs()`. */
  #usageProbeAt = 0;
  /** By `monotonicMs()`; undefined while the quota is not used up. */
  #heldUntil: number | undefined;
  #refusals = 0;

  constructor(options: CallGateOptions) {
    this.#options = options;
    options.metrics.crmBreakerOpen.set(0);
  }

  get usage(): ApiUsage | undefined {
    return this.#usage;
  }

  get isQuotaUsedUp(): boolean {
    return this.#heldUntil !== undefined;
  }

  /**
   * Throws `CrmFailure` (open, with Retry-After) where the breaker would refuse a call now, `Problem` (crm_quota_exhausted)
   * where the quota is used up.
   */
  check(): void {
    this.#checkBreaker();
    this.#checkQuota();
  }

  /**
   * Throws as `check`, and for a read where fewer calls than the reserve are left. Now and then a call is admitted all
   * the same, to see whether that still holds.
   */
  admit(effect: CrmRequest['effect']): void {
    this.check();
    const now = monotonicMs();
    if (this.#heldUntil !== undefined) this.#heldUntil = now + pauseAfter(this.#refusals + 1, quotaPauses);
    const { quotaReserve } = this.#options;
    if (quotaReserve === 0 || effect !== 'read' || this.#usage === undefined) return;
    if (this.#usage.limit - this.#usage.used >= quotaReserve) return;
    if (now < this.#usageProbeAt)
      this.#refuseForQuota('The rest of the daily quota of CRM calls is kept for writes.');
    this.#usageProbeAt = now + quotaProbeMs;
  }

  /**
   * Begins a call; true where it is the one that shows whether the CRM is back. Throws as `check` does for the breaker, unless it is a
   * probe of background work.
   */
  begin(background: Call['background']): boolean {
    if (background !== 'probe') this.#checkBreaker();
    if (this.#isOpen) this.#isProbing = true;
    return this.#isOpen;
  }

  /** Of any answer, also one that refuses. */
  noteUsage(answer: CrmAnswer): void {
    const found = parseLimitInfo(header(answer.headers, 'sforce-limit-info'));
    if (found === undefined) return;
    this.#usage = found;
    this.#usageProbeAt = monotonicMs() + quotaProbeMs;
    this.#options.metrics.crmApiUsage.set(found.used);
    this.#options.metrics.crmApiLimit.set(found.limit);
  }

  endAnswered(isProbe: boolean): void {
    this.#close();
    this.#release();
    if (isProbe) this.#isProbing = false;
  }

  endFailed(
    error: unknown,
    { isProbe, background }: { isProbe: boolean; background: Call['background'] },
  ): void {
    if (isUnanswered(error)) {
      if (background !== 'alone') this.#fail(isProbe);
    } else if (error instanceof CrmFailure && error.facts.status !== undefined) this.#close();
    if (error instanceof CrmFailure && error.kind === 'quota') {
      this.#refusals += 1;
      this.#heldUntil = monotonicMs() + pauseAfter(this.#refusals, quotaPauses);
    } else if (isOtherRefusal(error)) this.#release();
    if (isProbe) this.#isProbing = false;
  }

  #checkBreaker(): void {
    const leftMs = this.#probeAt - monotonicMs();
    if (!this.#isOpen || (leftMs <= 0 && !this.#isProbing)) return;
    this.#options.metrics.crmTurnedAway.inc({ reason: 'breaker' });
    const retryAfter = Math.max(1, Math.ceil(leftMs / 1000));
    throw new CrmFailure('open', 'the CRM failed call after call', { retryAfter });
  }

  #checkQuota(): void {
    if (this.#heldUntil !== undefined && monotonicMs() < this.#heldUntil)
      this.#refuseForQuota('The daily quota of CRM calls is used up.');
  }

  #refuseForQuota(detail: string): never {
    this.#options.metrics.crmTurnedAway.inc({ reason: 'quota' });
    throw new Problem('crm_quota_exhausted', detail, { retryAfter: quotaProbeMs / 1000 });
  }

  #close(): void {
    this.#failures = 0;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#pauses = 0;
    this.#options.metrics.crmBreakerOpen.set(0);
    this.#options.log.info({}, 'Salesforce answers again');
  }

  #fail(isProbe: boolean): void {
    this.#failures += 1;
    if (this.#isOpen ? !isProbe : this.#failures < failuresToOpen) return;
    this.#pauses += 1;
    this.#probeAt = monotonicMs() + pauseAfter(this.#pauses, breakerPauses);
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#options.metrics.crmBreakerOpen.set(1);
    this.#options.log.warn(
      { failures: this.#failures },
      "Salesforce doesn't answer; requests that need it are refused until it does",
    );
  }

  #release(): void {
    this.#heldUntil = undefined;
    this.#refusals = 0;
  }
}

/**
 * The CRM can't be reached or can't work. A refusal, a limit or a lock is an answer; so is an exception that the CRM names:
 * one record may bring it on time after time, and the others are served.
 */
function isUnanswered(error: unknown): boolean {
  if (!(error instanceof CrmFailure)) return false;
  if (error.kind === 'failed') return error.facts.error === undefined;
  if (error.kind === 'busy') return (error.facts.status ?? 0) >= 500;
  return error.kind === 'unreachable' || error.kind === 'lost' || error.kind === 'timeout';
}

function isOtherRefusal(error: unknown): boolean {
  if (!(error instanceof CrmFailure) || error.kind === 'session') return false;
  const { status = 0 } = error.facts;
  return status >= 400 && status < 500;
}

/** `api-usage=10018/100000`, with more after a semicolon, as `per-app-api-usage=17/250(appName=x)` (REST Developer Guide, Limit Info Header). */
function parseLimitInfo(value: string | undefined): ApiUsage | undefined {
  const parts = /(?:^|[;\s])api-usage=(\d{1,15})\/(\d{1,15})/.exec(value ?? '');
  if (parts === null) return undefined;
  const ofApp = /(?:^|[;\s])per-app-api-usage=(\d{1,15})\//.exec(value ?? '')?.[1];
  return {
    used: Number(parts[1]),
    limit: Number(parts[2]),
    at: monotonicMs(),
    ...(ofApp !== undefined && { usedByApp: Number(ofApp) }),
  };
}
