import type { Call } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import { booking, quote } from '../../records/quotes-and-bookings.ts';
import type { MayExist, RecordRef, Records } from '../../records/records.ts';

/** What a result can become. */
export const targets = { quote, booking };
export type HandoffType = keyof typeof targets;

/** A search result that an advisor chose, and what it was chosen for. */
export interface HandoffRequest {
  type: HandoffType;
  tripId: string;
  memberId: string;
  result: { name: string; source: string /** JSON text of an object. */; details: string };
}

export interface HandoffConfirmation {
  /** The CRM's own identifier: the advisor's console opens the record with it. */
  id: string;
  type: HandoffType;
  status: 'created';
  external_id: string;
}

/**
 * Writes the chosen result to the CRM as a quote or a booking and confirms it. `externalId` was chosen before, so
 * that any number of repeats makes one record; `mayExist`: an earlier try may have made it. Throws `Problem` (member_not_found, crm_rejected, crm_unavailable ...).
 */
export async function handOff(
  records: Records,
  { type, tripId, memberId, result }: HandoffRequest,
  { externalId, mayExist }: { externalId: string } & MayExist,
  call: Call,
): Promise<HandoffConfirmation> {
  const values = { trip_id: tripId, member_id: memberId, ...result, status: 'created' };
  try {
    return confirm(
      type,
      await records.create(targets[type], externalId, values, call, { mayExist }),
      externalId,
    );
  } catch (error) {
    throw explain(error, externalId);
  }
}

/** The confirmation of a record that exists. */
export function confirm(type: HandoffType, { nativeId }: RecordRef, externalId: string): HandoffConfirmation {
  return { id: nativeId, type, status: 'created', external_id: externalId };
}

/**
 * The CRM's refusal in terms of the hand-off: some fields of the record are below `result` in its body. The External ID
 * lets the caller look the record up where the outcome is unknown.
 */
function explain(error: unknown, externalId: string): unknown {
  if (!(error instanceof Problem)) return error;
  const { errors, ...facts } = error.facts;
  const placed = errors?.map((fault) => {
    if (!('pointer' in fault)) return fault;
    return { ...fault, pointer: fault.pointer.replace(/^#\/(name|source|details)\b/, '#/result/$1') };
  });
  return new Problem(error.code, error.message, { ...facts, externalId, ...(placed && { errors: placed }) });
}
