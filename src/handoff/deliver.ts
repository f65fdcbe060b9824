import type { Call } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import type { ProblemCode } from '../base/problems.ts';
import type { Records } from '../resources/records.ts';
import type { Outcome, Refusal, TakenHandoff } from './accepted.ts';
import { handOff, targets } from './handoff.ts';

/** How one try went. */
export type Try =
  | Exclude<Outcome, { status: 'accepted' }>
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

/** Whether a failure may be the hand-off's own, rather than met by all: the CRM failed over it, or took too long. */
export function mayBeOwn(error: unknown): boolean {
  return !(error instanceof Problem) || error.code === 'crm_error' || error.code === 'crm_timeout';
}

/** Whether the failed try may have created the record. */
export function isUnknown(error: unknown): boolean {
  return !(error instanceof Problem) || error.facts.outcomeUnknown === true;
}

/** Tries to deliver a hand-off, once. Never throws. */
export async function deliver(records: Records, handoff: TakenHandoff, call: Call): Promise<Try> {
  const { externalId } = handoff;
  try {
    const { id: nativeId } = await handOff(records, handoff, externalId, call);
    return { status: 'created', nativeId };
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) return { status: 'open', error };
    // An earlier try may have created it, before the CRM's rules were changed, say.
    return handoff.mayExist ? findInstead(records, handoff, call, refusal) : { status: 'failed', refusal };
  }
}

async function findInstead(
  records: Records,
  { type, externalId }: TakenHandoff,
  call: Call,
  refusal: Refusal,
): Promise<Try> {
  try {
    const record = await records.find(targets[type], externalId, call);
    return record ? { status: 'created', nativeId: record.nativeId } : { status: 'failed', refusal };
  } catch (error) {
    return { status: 'open', error };
  }
}

/** What was thrown as a refusal for good, which nothing was done with; undefined for all else. */
function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof Problem) || error.status >= 500 || error.facts.outcomeUnknown) return undefined;
  const { errors } = error.facts;
  return { code: error.code, detail: error.message, ...(errors && { errors }) };
}
