import { type Claim, recordInUse } from '../../api/idempotency/ledger.ts';
import type { Call } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { Problem, withSecondLook } from '../../platform/base/problem.ts';
import { hasValues, pointerTo, valuesFrom } from '../../records/field-values.ts';
import type { Resources } from '../../records/mapping.ts';
import { booking, quote } from '../../records/quotes-and-bookings.ts';
import {
  type FieldValues,
  type Found,
  isFromBefore,
  type MayExist,
  type RecordRef,
  type Records,
  type StoredRecord,
} from '../../records/records.ts';
import { createRepresentation, entityTag } from '../../records/representation.ts';
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
  /** The offer's own reference at its source: then the hand-off is of an item, which is known again. */
  reference?: string | undefined;
  /** What is done where the item has a record already; undefined without a reference. */
  onRepeat?: 'return' | 'update' | undefined;
}

/** One try to write a hand-off. */
export interface Attempt extends MayExist {
  externalId: string;
  /** Milliseconds since 1970 by the database's clock: no earlier try was made before. */
  since?: number | undefined;
  /** Its consumer may not change records without approval. */
  needsApproval?: boolean;
  /** Guards a change of the item's record where the request has a key. */
  claim?: Pick<Claim, 'before' | 'nameRecord' | 'rememberBefore' | 'confirmOwnership'> | undefined;
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
  /** `existing`, `updated`: the item had a record. */
  status: 'created' | 'existing' | 'updated';
  external_id: string;
}

/**
 * Writes the chosen result to the CRM as a quote or a booking and confirms it. The External ID was chosen before, so
 * that any number of repeats makes one record; `mayExist`: an earlier try may have made it. Throws `Problem`
 * (member_not_found, crm_rejected, offer_expired, conflict, crm_unavailable ...).
 */
export async function handOff(
  crm: HandoffCrm,
  request: HandoffRequest,
  attempt: Attempt,
  call: Call,
): Promise<HandoffConfirmation> {
  const { type, validUntil, onRepeat } = request;
  const { externalId, mayExist, since } = attempt;
  try {
    const made = await make(crm, request, attempt, call);
    if (onRepeat === undefined || isOwnMaking(made, since)) return confirm(type, made, externalId);
    return await meetRecord(crm, request, attempt, made as StoredRecord, call);
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'offer_expired'))
      throw explain(error, crm.resources[type], externalId);
    const isSettled = !mayExist || wallMs() >= (validUntil ?? 0) + unsettledMs;
    throw isSettled ? offerExpired(validUntil) : notYetSettled(externalId);
  }
}

/** The record with the External ID: one that the call makes, or one that is there. */
async function make(
  { records, resources }: HandoffCrm,
  request: HandoffRequest,
  { externalId, mayExist, since }: Attempt,
  call: Call,
): Promise<(RecordRef | StoredRecord) & Found> {
  const { type, validUntil, onRepeat } = request;
  const resource = resources[type];
  const madeSince = onRepeat && since;
  const values = () => ({ ...valuesOf(resource, request), status: 'created' });
  // Types and the mapping may have changed since an earlier try made it.
  const isLookedUp = mayExist && !isValid(values);
  const found = isLookedUp ? await records.findWithDeleted(resource, externalId, call) : undefined;
  if (found && !isFromBefore(found, madeSince)) return { ...found, found: 'after loss' };
  const given = await withSecondLook(values);
  return records.create(resource, externalId, given, call, { mayExist, validUntil, madeSince });
}

/** What a hand-off writes into its record. Throws `invalid_request`. */
export function valuesOf(
  resource: Resource,
  { type, tripId, memberId, result }: HandoffRequest,
): FieldValues {
  const given = { trip_id: tripId, member_id: memberId, ...result };
  return { ...given, ...valuesFrom(resource, { type, ...given }) };
}

/** The CRM's date of a record may be earlier than that of the try that made it by this much: it has a grain of a second. */
const grainMs = 5000;

/** Whether a try of this hand-off has made the record, not an earlier hand-off of the item. */
export function isOwnMaking(made: (RecordRef | StoredRecord) & Found, since = 0): boolean {
  if (made.found === undefined) return true;
  if (made.found === 'there' || !('values' in made)) return false;
  return made.isDeleted === true || Date.parse(made.values['created_at'] ?? '') >= since - grainMs;
}

/** The item has a record: it is returned, or gets what this hand-off says. Throws `conflict`, `approval_required`. */
async function meetRecord(
  { records, resources }: HandoffCrm,
  request: HandoffRequest,
  { externalId, needsApproval, claim }: Attempt,
  record: StoredRecord,
  call: Call,
): Promise<HandoffConfirmation> {
  const { type } = request;
  const resource = resources[type];
  const values = await withSecondLook(() => updateOf(resource, request, { record, needsApproval }));
  if (values === undefined) return confirm(type, record, externalId, 'existing');
  if (!hasValues(resource, record.values, values)) {
    const state = entityTag(createRepresentation(resource)(record.values));
    if (claim?.before !== undefined && claim.before !== state) throw changedMeanwhile();
    await claim?.nameRecord(`${type} ${externalId}`);
    if (claim && !(await claim.rememberBefore(state))) throw recordInUse();
    await claim?.confirmOwnership();
    await records.update(resource, record, values, call);
  }
  return confirm(type, record, externalId, 'updated');
}

/**
 * The values that the record of the item gets; undefined where it stays as it is. Throws `conflict` where it is another
 * member's, `approval_required`, `invalid_request`.
 */
export function updateOf(
  resource: Resource,
  request: HandoffRequest,
  { record, needsApproval = false }: { record: StoredRecord; needsApproval?: boolean | undefined },
): FieldValues | undefined {
  requireSameMember(record.values['member_id'], request.memberId);
  if (request.onRepeat !== 'update') return undefined;
  if (needsApproval) throw needsApprovalToUpdate(resource);
  const { trip_id: _trip, member_id: _member, source: _source, ...values } = valuesOf(resource, request);
  return values;
}

/** Throws `conflict` where the item was handed off for another member. */
export function requireSameMember(known: string | null | undefined, memberId: string): void {
  if (!known || known === memberId) return;
  const message = 'is another member than that of the record';
  throw new Problem(
    'conflict',
    'This item was handed off for another member. Change the member of its record, or send another reference.',
    { errors: [{ pointer: '#/member_id', message }] },
  );
}

/** The refusal of a change of a record that the item has. */
export function needsApprovalToUpdate({ name, collection }: Resource): Problem {
  const detail = `The item has a ${name} already, and these credentials can't change ${collection} without approval. Leave on_repeat out to get the ${name} as it is.`;
  const errors = [{ pointer: '#/on_repeat', message: 'must be return, or left out' }];
  return new Problem('approval_required', detail, {
    errors,
    required: { resource: collection, action: 'write' },
  });
}

function changedMeanwhile(): Problem {
  const detail = 'The record was changed while this hand-off was interrupted. Read it and decide again.';
  return new Problem('conflict', detail);
}

function isValid(values: () => unknown): boolean {
  try {
    values();
    return true;
  } catch {
    return false;
  }
}

/** Throws `Problem` offer_expired. What was begun has to be looked for first. */
export function requireValid({ validUntil }: Pick<HandoffRequest, 'validUntil'>): void {
  if (validUntil !== undefined && wallMs() >= validUntil) throw offerExpired(validUntil);
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
export function confirm(
  type: HandoffType,
  { nativeId }: RecordRef,
  externalId: string,
  status: HandoffConfirmation['status'] = 'created',
): HandoffConfirmation {
  return { id: nativeId, type, status, external_id: externalId };
}

/**
 * The CRM's refusal in terms of the hand-off: some fields of the record are below `result` in its body, or where the mapping
 * takes them from. The External ID lets the caller look the record up where the outcome is unknown.
 */
export function explain(error: unknown, { fields }: Resource, externalId: string): unknown {
  if (!(error instanceof Problem)) return error;
  const { errors, ...facts } = error.facts;
  const placed = errors?.map((fault) => {
    if (!('pointer' in fault)) return fault;
    const from = fields[fault.pointer.slice(2)]?.added?.from;
    if (from !== undefined) return { ...fault, pointer: pointerTo(from) };
    // Nothing in the body of a hand-off goes there.
    if (fields[fault.pointer.slice(2)]?.added !== undefined) return { ...fault, pointer: '' };
    return { ...fault, pointer: fault.pointer.replace(/^#\/(name|source|details)\b/, '#/result/$1') };
  });
  return new Problem(error.code, error.message, { ...facts, externalId, ...(placed && { errors: placed }) });
}
