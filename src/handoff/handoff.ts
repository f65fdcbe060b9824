import type { Call } from '../base/call.ts';
import type { RecordRef, Records } from '../resources/records.ts';
import type { Resource } from '../resources/resource.ts';

/** A search result that an advisor chose, and what it was chosen for. */
export interface HandoffRequest {
  resource: Resource;
  tripId: string;
  memberId: string;
  result: { name: string; source: string /** JSON text of an object. */; details: string };
}

export interface HandoffConfirmation {
  /** The CRM's own identifier: the advisor's console opens the record with it. */
  id: string;
  type: string;
  status: 'created';
  external_id: string;
}

/**
 * Writes the chosen result to the CRM as a quote or a booking and confirms it. `externalId` was chosen before, so
 * that any number of repeats makes one record. Throws `Problem` (member_not_found, crm_rejected, crm_unavailable ...).
 */
export async function handOff(
  records: Records,
  { resource, tripId, memberId, result }: HandoffRequest,
  externalId: string,
  call: Call,
): Promise<HandoffConfirmation> {
  const values = { trip_id: tripId, member_id: memberId, ...result, status: 'created' };
  return confirm(resource, await records.create(resource, externalId, values, call), externalId);
}

/** The confirmation of a record that exists. */
export function confirm(
  resource: Resource,
  { nativeId }: RecordRef,
  externalId: string,
): HandoffConfirmation {
  return { id: nativeId, type: resource.name, status: 'created', external_id: externalId };
}
