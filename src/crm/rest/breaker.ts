import type { Log } from '../../observability/log.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { CrmFailure } from './failure.ts';

/*
 * The circuit breaker: while the CRM is dead nobody waits for it. States:
 *
 *   closed    calls go through
 *   open      calls are turned away at once, until `probeAt`
 *   probing   one call is under way to see whether the CRM is back; the others are turned away
 *
 *   closed -> open      so many calls in a row found nobody
 *   open -> probing     `probeAt` is over and a call comes
 *   probing -> closed   the CRM answered, whatever it said
 *   probing -> open     it did not: the pause doubles
 *   open -> closed      a call that was sent before is answered after all
 */
const failuresToOpen = 5;
const firstPauseMs = 1000;
const longestPauseMs = 15_000;

export interface Breaker {
  /** Throws `CrmFailure` (open, with Retry-After) where a call would be turned away now. */
  admit(): void;
  /** Runs one call and notes how it ends. Throws as `admit`. */
  run<T>(work: () => Promise<T>): Promise<T>;
}

export function createBreaker(options: { log: Log; metrics: Metrics }): Breaker {
  return new CircuitBreaker(options);
}

class CircuitBreaker implements Breaker {
  readonly #options: { log: Log; metrics: Metrics };
  #failures = 0;
  #isOpen = false;
  #isProbing = false;
  #pauseMs = firstPauseMs;
  /** By `performance.now()`. */
  #probeAt = 0;

  constructor(options: { log: Log; metrics: Metrics }) {
    this.#options = options;
    options.metrics.crmBreakerOpen.set(0);
  }

  admit(): void {
    const leftMs = this.#probeAt - performance.now();
    if (!this.#isOpen || (leftMs <= 0 && !this.#isProbing)) return;
    this.#options.metrics.crmTurnedAway.inc({ reason: 'breaker' });
    const retryAfter = Math.max(1, Math.ceil(leftMs / 1000));
    throw new CrmFailure('open', 'the CRM failed call after call', { retryAfter });
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    this.admit();
    const isProbe = this.#isOpen;
    if (isProbe) this.#isProbing = true;
    try {
      const answer = await work();
      this.#close();
      return answer;
    } catch (error) {
      if (isDead(error)) this.#fail(isProbe);
      else if (error instanceof CrmFailure && error.facts.status !== undefined) this.#close();
      throw error;
    } finally {
      if (isProbe) this.#isProbing = false;
    }
  }

  #close(): void {
    this.#failures = 0;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#pauseMs = firstPauseMs;
    this.#options.metrics.crmBreakerOpen.set(0);
    this.#options.log.info({}, 'The CRM answers again');
  }

  #fail(isProbe: boolean): void {
    this.#failures += 1;
    if (this.#isOpen ? !isProbe : this.#failures < failuresToOpen) return;
    if (isProbe) this.#pauseMs = Math.min(longestPauseMs, this.#pauseMs * 2);
    this.#probeAt = performance.now() + this.#pauseMs;
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#options.metrics.crmBreakerOpen.set(1);
    this.#options.log.warn(
      { failures: this.#failures },
      'The CRM does not answer; requests that need it are turned away until it does',
    );
  }
}

/** Nobody is there, or nobody who could work. A refusal, a limit or a lock is an answer. */
function isDead(error: unknown): boolean {
  if (!(error instanceof CrmFailure)) return false;
  if (error.kind === 'busy') return (error.facts.status ?? 0) >= 500;
  return error.kind === 'unreachable' || error.kind === 'lost' || error.kind === 'timeout';
}
