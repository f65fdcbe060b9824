import { setTimeout as delay } from 'node:timers/promises';
import { remainingMs } from '../../base/call.ts';
import { Problem } from '../../base/problem.ts';
import { CrmFailure, type FailureKind, uncertainKinds } from './failure.ts';
import type { CrmRequest, Send } from './request.ts';

/** The first try included. */
const tries = 4;
/** The longest first pause; doubled for each further one. */
const firstPauseMs = 200;
const longestPauseMs = 5000;

/** After these the CRM has done nothing: whatever it was, it may be sent again. */
const nothingDone: readonly FailureKind[] = ['locked', 'busy', 'unreachable'];

/**
 * Repeats what is safe to repeat, with exponential pauses and full jitter, while a further call can still end before
 * the request's deadline. A failure after a try with an unknown outcome says so, whatever the last try met.
 */
export function withRetries(send: Send, enoughMs: number): Send {
  return async (request, call) => {
    let unknown = false;
    for (let tried = 1; ; tried++) {
      try {
        return await send(request, call);
      } catch (error) {
        unknown ||= error instanceof CrmFailure && error.outcomeUnknown;
        const pauseMs = pauseAfter(error, request, tried);
        if (pauseMs === undefined || remainingMs(call) < pauseMs + enoughMs)
          throw unknown ? unsure(error) : error;
        await delay(pauseMs);
      }
    }
  };
}

/** Milliseconds to wait before the next try, or undefined where there must be none. */
function pauseAfter(error: unknown, request: CrmRequest, tried: number): number | undefined {
  if (!(error instanceof CrmFailure) || tried >= tries) return undefined;
  const repeatable =
    nothingDone.includes(error.kind) || (uncertainKinds.includes(error.kind) && request.effect !== 'change');
  if (!repeatable) return undefined;
  const longest = Math.min(longestPauseMs, firstPauseMs * 2 ** (tried - 1));
  return (error.facts.retryAfter ?? 0) * 1000 + Math.random() * longest;
}

/** Failures that say nothing about what an earlier try did. */
const tellsNothing: readonly FailureKind[] = [
  ...nothingDone,
  'session',
  'quota',
  'broken',
  'no_token',
  'late',
];

/** A final refusal (the record was looked at and is not valid) is certain all the same; anything passing is not. */
function unsure(error: unknown): unknown {
  if (error instanceof CrmFailure) {
    if (!tellsNothing.includes(error.kind)) return error;
    return new CrmFailure(error.kind, error.message, { ...error.facts, outcomeUnknown: true });
  }
  if (error instanceof Problem)
    return new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true });
  return error;
}
