import type { Call } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { pointerTo, valuesFrom } from '../../records/field-values.ts';
import type { Resources } from '../../records/mapping.ts';
import { booking, quote } from '../../records/quotes-and-bookings.ts';
import type { MayExist, RecordRef, Records } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';

/** What a result can become: names and collections; see `HandoffCrm` for what the org has of it. */
export const targets = { quote, booking };
export type HandoffType = keyof typeof targets;

/** A search result that an advisor chose, and what it was chosen for. */
export interface HandoffRequest {
  type: HandoffType;
  tripId: string;
  memberId: string;
  result: { name: string; source: string /** JSON text of an object. */; details: string };
  /** Milliseconds since 1970: from then on nothing is made. */
  validUntil?: number | undefined;
}

/** For so long after an offer has ended, in milliseconds, a call that was sent before may still make the record. */
const unsettledMs = 20_000;

/** Where hand-offs are written. */
export interface HandoffCrm {
  records: Records;
  resources: Pick<Resources, HandoffType>;
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
 * that any number of repeats makes one record; `mayExist`: an earlier try may have made it. Throws `Problem`
 * (member_not_found, crm_rejected, offer_expired, crm_unavailable ...).
 */
export async function handOff(
  { records, resources }: HandoffCrm,
  request: HandoffRequest,
  { externalId, mayExist }: { externalId: string } & MayExist,
  call: Call,
): Promise<HandoffConfirmation> {
  const { type, tripId, memberId, result, validUntil } = request;
  const given = { trip_id: tripId, member_id: memberId, ...result };
  const resource = resources[type];
  try {
    const values = () => ({ ...given, ...valuesFrom(resource, { type, ...given }), status: 'created' });
    // Types and the mapping may have changed since an earlier try made it.
    const found =
      mayExist && !isValid(values) ? await records.findWithDeleted(resource, externalId, call) : undefined;
    const made =
      found ?? (await records.create(resource, externalId, values(), call, { mayExist, validUntil }));
    return confirm(type, made, externalId);
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'offer_expired'))
      throw explain(error, resource, externalId);
    const isSettled = !mayExist || wallMs() >= (validUntil ?? 0) + unsettledMs;
    throw isSettled ? offerExpired(validUntil) : notYetSettled(externalId);
  }
}

function isValid(values: () => unknown): boolean {
  try {
    values();
    return true;
  } catch {
    return false;
  }
}

/** The refusal of a hand-off whose offer has ended; milliseconds since 1970. */
export function offerExpired(validUntil: number | undefined): Problem {
  const at = validUntil === undefined ? '' : ` at ${new Date(validUntil).toISOString()}`;
  return new Problem('offer_expired', `The offer ended${at}.`, {
    errors: [{ pointer: '#/valid_until', message: 'has passed' }],
  });
}

/** The record was looked for and is not there, but the call that was to make it may still be under way. */
function notYetSettled(externalId: string): Problem {
  const detail = 'The offer has ended, and an earlier call to the CRM may still make the record.';
  return new Problem('crm_timeout', detail, { outcomeUnknown: true, externalId });
}

/** The confirmation of a record that exists. */
export function confirm(type: HandoffType, { nativeId }: RecordRef, externalId: string): HandoffConfirmation {
  return { id: nativeId, type, status: 'created', external_id: externalId };
}

/**
 * The CRM's refusal in terms of the hand-off: some fields of the record are below `result` in its body, or where the mapping
 * takes them from. The External ID lets the caller look the record up where the outcome is unknown.
 */
function explain(error: unknown, { fields }: Resource, externalId: string): unknown {
  if (!(error instanceof Problem)) return error;
  const { errors, ...facts } = error.facts;
  const placed = errors?.map((fault) => {
    if (!('pointer' in fault)) return fault;
    const from = fields[fault.pointer.slice(2)]?.added?.from;
    if (from !== undefined) return { ...fault, pointer: pointerTo(from) };
    return { ...fault, pointer: fault.pointer.replace(/^#\/(name|source|details)\b/, '#/result/$1') };
  });
  return new Problem(error.code, error.message, { ...facts, externalId, ...(placed && { errors: placed }) });
}
