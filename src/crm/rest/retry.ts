import { type Call, remainingMs } from '../../platform/base/call.ts';
import { randomFraction } from '../../platform/base/chance.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { Allowance } from '../budget/allowance.ts';
import { CrmFailure, type FailureKind, uncertainKinds } from '../failure.ts';
import type { CrmRequest } from './request.ts';

const tries = 4;
/** In milliseconds; a pause is up to as long. */
const pauses = { first: 200, most: 5000 };

const nothingDone: readonly FailureKind[] = ['locked', 'busy', 'unreachable'];

/** Whether a request may be repeated after a failure: a read, or a write with which nothing was done. */
export function isRepeatable(failure: CrmFailure, { effect, records = 1 }: CrmRequest): boolean {
  const { kind } = failure;
  // One of several records may cause it time after time: it is looked for.
  if (records > 1 && effect !== 'read' && isOfRecords(failure)) return false;
  if (nothingDone.includes(kind)) return true;
  // A write is repeated only after a look at what it has done.
  if (effect !== 'read' || !uncertainKinds.includes(kind)) return false;
  // A batch may be too much for one call: it is sent in halves.
  return kind !== 'timeout' || records === 1;
}

/** Transient, but possibly caused by one record: a lock, or an exception that the CRM names. */
export function isOfRecords({ kind, facts }: CrmFailure): boolean {
  return kind === 'locked' || (kind === 'failed' && facts.error !== undefined);
}

const uncertainOfEarlier: readonly FailureKind[] = [
  ...nothingDone,
  ...uncertainKinds,
  'session',
  'quota',
  'broken',
  'no_token',
  'late',
  'queue_full',
  'budget_exhausted',
  'open',
];

/**
 * A failure that followed a try with an unknown outcome: a final refusal (the record was looked at and is not valid)
 * is certain all the same; anything passing is not.
 */
export function withUnknownOutcome(failure: CrmFailure): CrmFailure {
  if (!uncertainOfEarlier.includes(failure.kind)) return failure;
  return new CrmFailure(failure.kind, failure.message, { ...failure.facts, outcomeUnknown: true });
}

/** One repeat for ten calls: while the CRM fails, repeats must not add much to its load. */
const repeatsPerCall = 0.1;
/** With few calls, this many repeats a second all the same, and this many at once. */
const repeatsPerSecond = 5;
const mostRepeats = 25;

export class RetryBudget {
  readonly #shortestCallMs: number;
  readonly #metrics: Pick<Metrics, 'crmRetries'>;
  readonly #repeats = new Allowance(repeatsPerSecond / 1000, mostRepeats);

  /** `shortestCallMs`: milliseconds that the repeat itself needs at least. */
  constructor(shortestCallMs: number, metrics: Pick<Metrics, 'crmRetries'>) {
    this.#shortestCallMs = shortestCallMs;
    this.#metrics = metrics;
  }

  earn(): void {
    this.#repeats.add(repeatsPerCall);
  }

  /** Milliseconds to wait before the next try; undefined after the last one, and where no time or no repeat is left. */
  pauseBeforeRepeat({ kind, facts }: CrmFailure, call: Call, tried: number): number | undefined {
    if (tried >= tries) return undefined;
    const pauseMs = (facts.retryAfter ?? 0) * 1000 + randomFraction() * pauseAfter(tried, pauses);
    if (pauseMs > remainingMs(call) - this.#shortestCallMs || !this.#repeats.take()) return undefined;
    this.#metrics.crmRetries.inc({ reason: kind });
    return pauseMs;
  }
}
