import { Problem } from '../../platform/base/problem.ts';
import { testFaultOf } from '../../records/test-members.ts';

/** For so many seconds a fault that passes is met, from its first time on. */
const passesAfter = 30;

/** Since when a write has met its fault: seconds, 0 at the first time. */
export type MetSince = () => Promise<number>;

/**
 * Throws what a write for this member meets, as the CRM's failures are. `lost`: the write is to be done, and its answer is lost
 * then. `passed`: the fault that it has met is over. The same write meets the same fault until that passes: it is known by the
 * External ID of its record.
 */
export async function meetFault(
  memberId: string,
  metSince: MetSince,
): Promise<'lost' | 'passed' | undefined> {
  const fault = testFaultOf(memberId);
  if (fault === 'refused')
    throw new Problem('crm_rejected', 'The CRM refused the record: member_id: The member is closed.', {
      errors: [{ pointer: '#/member_id', message: 'The member is closed.' }],
    });
  if (fault === 'unavailable' || fault === 'quota') {
    const left = Math.ceil(passesAfter - (await metSince()));
    if (left > 0) throw passing(fault, left);
    return 'passed';
  }
  // A repeat finds that it was done, and does not come here.
  return fault === 'lost' ? 'lost' : undefined;
}

/** Of this record: the hand-offs of others are delivered meanwhile. */
function passing(fault: 'unavailable' | 'quota', retryAfter: number): Problem {
  const facts = { retryAfter, isOfRecord: true };
  return fault === 'quota'
    ? new Problem('crm_quota_exhausted', 'The daily quota of CRM calls is used up.', facts)
    : new Problem('crm_unavailable', 'The CRM does not answer at the moment.', facts);
}

/** The answer of a write was lost. */
export function lostAnswer(externalId: string): Problem {
  const facts = { outcomeUnknown: true, externalId };
  return new Problem('crm_timeout', 'The CRM did not answer in time.', facts);
}

export function memberNotFound(): Problem {
  const errors = [{ pointer: '#/member_id', message: 'The CRM knows no such member.' }];
  return new Problem('member_not_found', 'The CRM knows no member with this id.', { errors });
}
