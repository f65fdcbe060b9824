import type { Call } from '../../platform/base/call.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget } from '../budget/call-budget.ts';
import type { Breaker } from './breaker.ts';
import { queueFull } from './failure.ts';
import type { CallQuota } from './quota.ts';
import type { CrmRequest } from './request.ts';

/** Queue limit: requests that may wait for each slot, as many as one call can hold. More would only wait in vain. */
const waitingPerSlot = 200;
/** A call of a single request takes as much of a slot's time as a whole batch, so it weighs more. */
export const singleCallWeight = 4;

interface AdmissionOptions {
  slots: number;
  breaker: Breaker;
  quota: CallQuota;
  budget: CallBudget | undefined;
  metrics: Metrics;
}

/**
 * Admits a request, or refuses it at once rather than after a wait in vain: the breaker is open, the quota is used up, or
 * too many wait, in all or of this consumer (half of the queue limit).
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #queueLimit: number;
  readonly #waitingOf = new Map<string, number>();
  #waiting = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#queueLimit = options.slots * waitingPerSlot;
  }

  /** Whether a write would be admitted now. Throws `CrmFailure` or `Problem`. */
  check({ consumerId = '' }: Call): void {
    this.#options.breaker.check();
    this.#options.quota.check();
    this.#options.budget?.checkForWrite(consumerId);
    this.#checkQueue(consumerId);
  }

  /** Admits a request, which counts as waiting until the returned function is called. Throws as `check`. */
  enter(effect: CrmRequest['effect'], call: Call, weight = 1): () => void {
    const { consumerId = '', isWrite, background } = call;
    if (background === 'probe') return () => {};
    this.#options.breaker.check();
    // A write begins with looking the record up, and is a write all the same.
    this.#options.quota.admit(isWrite === true && effect === 'read' ? 'change' : effect);
    // Its queue is in the database: it does not count in this one.
    if (background !== undefined) return () => {};
    this.#checkQueue(consumerId);
    this.#count(consumerId, weight);
    let isWaiting = true;
    return () => {
      if (isWaiting) this.#count(consumerId, -weight);
      isWaiting = false;
    };
  }

  #checkQueue(consumer: string): void {
    const ofConsumer = this.#waitingOf.get(consumer) ?? 0;
    if (this.#waiting < this.#queueLimit && ofConsumer < this.#queueLimit / 2) return;
    this.#options.metrics.crmTurnedAway.inc({ reason: 'queue' });
    throw queueFull();
  }

  #count(consumer: string, weight: number): void {
    this.#waiting += weight;
    const sum = (this.#waitingOf.get(consumer) ?? 0) + weight;
    if (sum === 0) this.#waitingOf.delete(consumer);
    else this.#waitingOf.set(consumer, sum);
    this.#options.metrics.crmQueueDepth.level = this.#waiting;
  }
}
