import { type Call, withChanges } from '../../platform/base/call.ts';
import { now } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { isFromBefore, type StoredRecord } from '../../records/records.ts';
import type { NewHandoff } from './accepted.ts';
import { mayPass } from './deliver.ts';
import { confirm, type HandoffConfirmation, type HandoffCrm, meetingOf, requireValid } from './handoff.ts';

/** So long, in milliseconds, a hand-off that could be stored waits for the CRM to say whether its item has a record. */
const lookMs = 2000;

/**
 * The record of an item that is only to be returned, where the offer has ended by now; undefined where something is to be made, or
 * looked for first. Throws `offer_expired`.
 */
export async function knownInstead(
  crm: HandoffCrm,
  handoff: NewHandoff,
  call: Call,
): Promise<HandoffConfirmation | undefined> {
  if (handoff.mayExist) return undefined;
  try {
    requireValid(handoff);
    return undefined;
  } catch (error) {
    const known = handoff.onRepeat === 'return' ? await knownRecord(crm, handoff, call) : undefined;
    if (known === undefined) throw error;
    return known;
  }
}

/**
 * The record that is there already, for which nothing is stored: one that an earlier request has made needs nobody's approval
 * any more, an item that has one is not changed without, and one that is only returned waits for nothing. Throws
 * `approval_required`, `conflict`.
 */
export async function knownRecord(
  crm: HandoffCrm,
  handoff: NewHandoff,
  call: Call,
): Promise<HandoffConfirmation | undefined> {
  if (!mayBeKnown(handoff)) return undefined;
  const record = await findMade(crm, handoff, call);
  if (record === undefined) return undefined;
  const { type, externalId, mayExist, onRepeat } = handoff;
  if (onRepeat === undefined) return confirm(type, record, externalId);
  const found = mayExist ? ('after loss' as const) : ('there' as const);
  const { status, values } = meetingOf(crm.resources[type], handoff, handoff, { ...record, found });
  return values === undefined ? confirm(type, record, externalId, status) : undefined;
}

function mayBeKnown({ mayExist, needsApproval, onRepeat }: NewHandoff): boolean {
  return mayExist || onRepeat === 'return' || (needsApproval && onRepeat !== undefined);
}

/**
 * The record; a deleted one only where an earlier attempt may have made it. While the CRM can't be asked, a hand-off is stored and its delivery
 * looks first; but one that needs approval now may have been made without. Throws `Problem`.
 */
async function findMade(
  { records, resources }: HandoffCrm,
  handoff: NewHandoff,
  call: Call,
): Promise<StoredRecord | undefined> {
  const { type, externalId, needsApproval, mayExist } = handoff;
  const deadline = mayExist ? call.deadline : Math.min(call.deadline, now() + lookMs);
  try {
    const found = await withChanges(call, { deadline }, (own) =>
      records.findWithDeleted(resources[type], externalId, own),
    );
    return found?.isDeleted && !isOwnDeleted(found, handoff) ? undefined : found;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (!(needsApproval && mayExist) && mayPass(error)) return undefined;
    throw new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true, externalId });
  }
}

function isOwnDeleted(record: StoredRecord, { mayExist, onRepeat, since }: NewHandoff): boolean {
  return mayExist && !isFromBefore(record, onRepeat && since);
}
