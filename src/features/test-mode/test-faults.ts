import { Problem } from '../../platform/base/problem.ts';
import { testFaultOf } from '../../records/test-members.ts';

/** How long a transient fault lasts, in seconds after the first write that meets it. */
const transientSeconds = 30;

/**
 * Throws the failure that the member's id stands for. Returns `lost` if the write is to be done and its answer lost, `passed` if
 * a transient fault is over; faults are remembered by External ID. `metSince`: how many seconds ago the write met its fault
 * first, 0 at the first time.
 */
export async function applyTestFault(
  memberId: string,
  metSince: () => Promise<number>,
): Promise<'lost' | 'passed' | undefined> {
  const fault = testFaultOf(memberId);
  if (fault === 'refused')
    throw new Problem('crm_rejected', 'The CRM refused the record: member_id: The member is closed.', {
      errors: [{ pointer: '#/member_id', message: 'The member is closed.' }],
    });
  if (fault === 'unavailable' || fault === 'quota') {
    const left = Math.ceil(transientSeconds - (await metSince()));
    if (left > 0) throw passing(fault, left);
    return 'passed';
  }
  // A repeat finds that it was done, and does not come here.
  return fault === 'lost' ? 'lost' : undefined;
}

function passing(fault: 'unavailable' | 'quota', retryAfter: number): Problem {
  const facts = { retryAfter, isOfRecord: true };
  return fault === 'quota'
    ? new Problem('crm_quota_exhausted', 'The daily quota of CRM calls is used up.', facts)
    : new Problem('crm_unavailable', "The CRM isn't responding right now.", facts);
}

/** The time of a request, or of a lease, is over: nothing was done. */
export function outOfTime(): Problem {
  return new Problem('crm_timeout', 'No time was left to write the record.');
}

export function lostAnswer(externalId: string): Problem {
  const facts = { outcomeUnknown: true, externalId };
  return new Problem('crm_timeout', "The CRM didn't answer in time.", facts);
}
