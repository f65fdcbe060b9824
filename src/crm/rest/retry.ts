import { setTimeout as delay } from 'node:timers/promises';
import { remainingMs } from '../../base/call.ts';
import { Problem } from '../../base/problem.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { CrmFailure, type FailureKind, uncertainKinds } from './failure.ts';
import type { CrmRequest, SendDraft } from './request.ts';
import type { RetryBudget } from './retry-budget.ts';

/** The first try included. */
const tries = 4;
/** The longest first pause; doubled for each further one. */
const firstPauseMs = 200;
const longestPauseMs = 5000;

/** After these the CRM has done nothing: whatever it was, it may be sent again. */
const nothingDone: readonly FailureKind[] = ['locked', 'busy', 'unreachable'];

export interface RetryOptions {
  /** Milliseconds that a further call needs. */
  enoughMs: number;
  budget: RetryBudget;
  metrics: Metrics;
}

/**
 * Repeats what is safe to repeat, with exponential pauses and full jitter, while a further call can still end before
 * the request's deadline and the budget of repeats allows it. A failure after a try with an unknown outcome says so,
 * whatever the last try met.
 */
export function withRetries(send: SendDraft, { enoughMs, budget, metrics }: RetryOptions): SendDraft {
  return async (draft, call) => {
    let unknown = false;
    let met: CrmFailure | undefined;
    budget.earn();
    for (let tried = 1; ; tried++) {
      try {
        return await send(draft, call);
      } catch (error) {
        const failure = moreTelling(error, met);
        unknown ||= isUnsure(failure);
        const pauseMs = failure === met ? undefined : pauseBeforeRepeat(failure, draft, tried);
        const isInTime = pauseMs !== undefined && remainingMs(call) >= pauseMs + enoughMs;
        if (!isInTime || !budget.spend()) throw unknown ? unsure(failure) : failure;
        met = failure as CrmFailure;
        metrics.crmRetries.inc({ reason: met.kind });
        await delay(pauseMs);
      }
    }
  };
}

/** Milliseconds to wait before the next try, or undefined where there must be none. */
function pauseBeforeRepeat(error: unknown, draft: () => CrmRequest, tried: number): number | undefined {
  if (!(error instanceof CrmFailure) || !isRepeatable(error, draft)) return undefined;
  return pauseAfter(error, tried);
}

const notSent: readonly FailureKind[] = ['open', 'crowded', 'late'];

/** A repeat that was not even sent has less to tell than the try before it. */
function moreTelling(error: unknown, before: CrmFailure | undefined): unknown {
  const wasNotSent = error instanceof CrmFailure && notSent.includes(error.kind);
  return wasNotSent ? (before ?? error) : error;
}

function isUnsure(error: unknown): boolean {
  return error instanceof CrmFailure && error.outcomeUnknown;
}

/** A request that met one of these kinds was sent, so that its draft is written. */
function isRepeatable(error: CrmFailure, draft: () => CrmRequest): boolean {
  if (nothingDone.includes(error.kind)) return true;
  if (!uncertainKinds.includes(error.kind)) return false;
  const { effect, records = 1 } = draft();
  // Too much for one call, it may be: whoever gathered it sends it in halves.
  if (error.kind === 'timeout' && records > 1) return false;
  return effect !== 'change';
}

/** Milliseconds to wait before the next try, or undefined where there must be none. */
export function pauseAfter({ facts }: CrmFailure, tried: number): number | undefined {
  if (tried >= tries) return undefined;
  const longest = Math.min(longestPauseMs, firstPauseMs * 2 ** (tried - 1));
  return (facts.retryAfter ?? 0) * 1000 + Math.random() * longest;
}

/** Failures that say nothing about what an earlier try did. */
const tellsNothing: readonly FailureKind[] = [
  ...nothingDone,
  ...uncertainKinds,
  'session',
  'quota',
  'broken',
  'no_token',
  'late',
  'crowded',
  'open',
];

/**
 * A failure that followed a try with an unknown outcome: a final refusal (the record was looked at and is not valid)
 * is certain all the same; anything passing is not.
 */
export function unsure<T>(error: T): T | CrmFailure | Problem {
  if (error instanceof CrmFailure) {
    if (!tellsNothing.includes(error.kind)) return error;
    return new CrmFailure(error.kind, error.message, { ...error.facts, outcomeUnknown: true });
  }
  if (error instanceof Problem)
    return new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true });
  return error;
}
