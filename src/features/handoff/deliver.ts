import { type Call, withChanges } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { ProblemCode } from '../../platform/base/problems.ts';
import type { HandoffOutcome, Refusal, TakenHandoff } from './accepted.ts';
import { type HandoffCrm, handOff } from './handoff.ts';

/** How one try went. */
export type Try =
  | Exclude<HandoffOutcome, { status: 'accepted' }>
  /** It failed in a way that may pass. */
  | { status: 'open'; error: unknown };

/** Codes of failures that the CRM is to blame for: a hand-off that met one can be delivered later. */
const crmFailures: readonly ProblemCode[] = [
  'crm_error',
  'crm_unavailable',
  'crm_quota_exhausted',
  'crm_timeout',
];

/** Whether a hand-off that failed so can be delivered later. */
export function mayPass(error: unknown): error is Problem {
  return error instanceof Problem && crmFailures.includes(error.code);
}

/**
 * Whether a failure may be caused by this hand-off: the CRM answered with an error, took too long, or could not
 * finish it. Not if there was no time left for a call.
 */
export function mayBeOwn(error: unknown): boolean {
  if (!(error instanceof Problem) || error.code === 'crm_error') return true;
  return isOfRecord(error) || (error.code === 'crm_timeout' && isUnknown(error));
}

/** Whether it is of the moment, like a lock, though it may be the hand-off's own. */
export function isOfRecord(error: unknown): boolean {
  return error instanceof Problem && error.facts.isOfRecord === true;
}

/** Whether an administrator has to repair the CRM first: others of the type may not need what is broken. */
export function isOfOrg(error: unknown): boolean {
  return error instanceof Problem && error.facts.isOfOrg === true;
}

/** Whether the failed try may have created the record. */
export function isUnknown(error: unknown): boolean {
  return !(error instanceof Problem) || error.facts.outcomeUnknown === true;
}

/** Tries to deliver a hand-off, once, within its lease. Never throws. */
export async function deliver(crm: HandoffCrm, handoff: TakenHandoff, call: Call): Promise<Try> {
  const deadline = Math.min(call.deadline, handoff.deadline);
  try {
    const { id: nativeId } = await withChanges(call, { deadline }, (own) =>
      handOff(crm, handoff, handoff, own),
    );
    return { status: 'created', nativeId };
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) return { status: 'open', error };
    return { status: 'failed', refusal, mayExist: false };
  }
}

/** What was thrown as a refusal for good, which nothing was done with; undefined for all else. */
function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof Problem) || error.status >= 500 || error.facts.outcomeUnknown) return undefined;
  const { errors } = error.facts;
  return { code: error.code, detail: error.message, ...(errors && { errors }) };
}
