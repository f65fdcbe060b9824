import type { Call } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { CrmFailure } from '../failure.ts';

const failuresToOpen = 5;
/** In milliseconds. */
const pauses = { first: 1000, most: 15_000 };

/**
 * The circuit breaker: while the CRM fails, no request waits for it. States:
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
export class Breaker {
  readonly #log: Log;
  readonly #metrics: Metrics;
  #failures = 0;
  #isOpen = false;
  #isProbing = false;
  #pauses = 0;
  #probeAt = 0;

  constructor({ log, metrics }: { log: Log; metrics: Metrics }) {
    this.#log = log;
    this.#metrics = metrics;
    metrics.crmBreakerOpen.set(0);
  }

  /** Throws `CrmFailure` (open, with Retry-After) where a call would be refused now. */
  check(): void {
    const leftMs = this.#probeAt - monotonicMs();
    if (!this.#isOpen || (leftMs <= 0 && !this.#isProbing)) return;
    this.#metrics.crmTurnedAway.inc({ reason: 'breaker' });
    const retryAfter = Math.max(1, Math.ceil(leftMs / 1000));
    throw new CrmFailure('open', 'the CRM failed call after call', { retryAfter });
  }

  /** Begins a call; true where it is the one that shows whether the CRM is back. Throws as `check`, unless it is a probe of background work. */
  begin(background?: Call['background']): boolean {
    if (background !== 'probe') this.check();
    if (this.#isOpen) this.#isProbing = true;
    return this.#isOpen;
  }

  noteAnswer(): void {
    this.#close();
  }

  noteFailure(
    error: unknown,
    { isProbe, background }: { isProbe: boolean; background: Call['background'] },
  ): void {
    if (isUnanswered(error)) {
      if (background !== 'alone') this.#fail(isProbe);
    } else if (error instanceof CrmFailure && error.facts.status !== undefined) this.#close();
  }

  end(isProbe: boolean): void {
    if (isProbe) this.#isProbing = false;
  }

  #close(): void {
    this.#failures = 0;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#pauses = 0;
    this.#metrics.crmBreakerOpen.set(0);
    this.#log.info({}, 'Salesforce answers again');
  }

  #fail(isProbe: boolean): void {
    this.#failures += 1;
    if (this.#isOpen ? !isProbe : this.#failures < failuresToOpen) return;
    this.#pauses += 1;
    this.#probeAt = monotonicMs() + pauseAfter(this.#pauses, pauses);
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#metrics.crmBreakerOpen.set(1);
    this.#log.warn(
      { failures: this.#failures },
      "Salesforce doesn't answer; requests that need it are refused until it does",
    );
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
