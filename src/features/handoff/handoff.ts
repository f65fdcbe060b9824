import { type Claim, recordInUse } from '../../api/idempotency/ledger.ts';
import { type Call, withChanges } from '../../platform/base/call.ts';
import { now, wallMs } from '../../platform/base/chance.ts';
import { Problem, type ProblemCode, withSecondLook } from '../../platform/base/problem.ts';
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

export const targets = { quote, booking };
export type HandoffType = keyof typeof targets;

export interface HandoffRequest {
  type: HandoffType;
  tripId: string;
  memberId: string;
  result: {
    name: string;
    source: string;
    /** JSON text of an object. */
    details: string;
  };
  /** Milliseconds since 1970: from then on nothing is made. */
  validUntil?: number | undefined;
  /** The offer's own reference at its source: then the hand-off is of an item, which is known again. */
  reference?: string | undefined;
  /** Undefined without a reference. */
  onRepeat?: 'return' | 'update' | undefined;
}

export interface EarlierAttempts {
  /** Milliseconds since 1970 by the database's clock: none came before. */
  since?: number | undefined;
  /** Whether the item had a record before the first of them; undefined where nobody has looked. */
  hadRecord?: boolean | undefined;
}

export interface Attempt extends MayExist, EarlierAttempts {
  externalId: string;
  isReplaced?: boolean;
  known?: StoredRecord | undefined;
  needsApproval?: boolean;
  guard?: UpdateGuard | undefined;
}

/** Keeps the update of an item's record apart from other writes. */
export type UpdateGuard = Pick<Claim, 'before' | 'nameRecord' | 'rememberBefore' | 'confirmOwnership'>;
export type RequestGuard = UpdateGuard & Pick<Claim, 'remembered'>;

/** For this long after an offer has ended, in milliseconds, a call that was sent before may still make the record. */
const unsettledMs = 20_000;

export interface HandoffCrm {
  records: Records;
  resources: Pick<Resources, HandoffType>;
}

export interface HandoffConfirmation {
  /** The CRM's own identifier: the advisor's console opens the record with it. */
  id: string;
  type: HandoffType;
  status: 'created' | 'existing' | 'updated';
  external_id: string;
}

/**
 * Writes the chosen result to the CRM as a quote or a booking and confirms it. The External ID was chosen before, so
 * that any number of repeats makes one record; `mayExist`: an earlier attempt may have made it. Throws `Problem`
 * (member_not_found, crm_rejected, offer_expired, conflict, crm_unavailable ...).
 */
export async function handOff(
  crm: HandoffCrm,
  request: HandoffRequest,
  attempt: Attempt,
  call: Call,
): Promise<HandoffConfirmation> {
  const { type, validUntil, onRepeat } = request;
  const { externalId, mayExist, known, guard } = attempt;
  try {
    await leaseInterrupted(guard, type, externalId);
    const made = known
      ? { ...known, found: 'there' as const }
      : await make(crm, request, attempt, call).catch(async (error: unknown) => {
          const record = await findInstead(crm, request, attempt, { error, call });
          if (record === undefined) throw error;
          return { ...record, found: 'there' as const };
        });
    if (onRepeat === undefined || made.found === undefined) return confirm(type, made, externalId);
    return await meetRecord(crm, request, attempt, made as StoredRecord & Found, call);
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'offer_expired'))
      throw explain(error, crm.resources[type], externalId);
    const isSettled = !mayExist || wallMs() >= (validUntil ?? 0) + unsettledMs;
    throw isSettled ? offerExpired(validUntil) : notYetSettled(externalId);
  }
}

/** Where an update was interrupted, nobody changes the record between the look and the call. Throws `Problem`. */
export async function leaseInterrupted(
  guard: UpdateGuard | undefined,
  type: HandoffType,
  externalId: string,
): Promise<void> {
  if (guard?.before !== undefined) await guard.nameRecord(`${type} ${externalId}`);
}

async function make(
  { records, resources }: HandoffCrm,
  request: HandoffRequest,
  { externalId, mayExist, since, isReplaced }: Attempt,
  call: Call,
): Promise<(RecordRef | StoredRecord) & Found> {
  const { type, validUntil, onRepeat } = request;
  const resource = resources[type];
  // Where others' content was deleted, this one is made all the same.
  const madeSince = onRepeat && (isReplaced ? Number.POSITIVE_INFINITY : since);
  const values = () => ({ ...valuesOf(resource, request), status: 'created' });
  // Types and the mapping may have changed since an earlier attempt made it.
  const isLookedUp = mayExist && !isValid(values);
  const found = isLookedUp ? await records.findWithDeleted(resource, externalId, call) : undefined;
  if (found && !isFromBefore(found, madeSince)) return { ...found, found: 'after loss' };
  const given = await withSecondLook(call, values);
  return records.create(resource, externalId, given, call, { mayExist, validUntil, madeSince });
}

/**
 * The record of an item that could not be made: what is wrong with another one says nothing where nothing is to be made. Undefined where
 * there is none, and where the failure may pass.
 */
async function findInstead(
  { records, resources }: HandoffCrm,
  { type, onRepeat }: HandoffRequest,
  { externalId, hadRecord }: Attempt,
  { error, call }: { error: unknown; call: Call },
): Promise<StoredRecord | undefined> {
  if (!(error instanceof Problem) || error.status >= 500 || error.facts.outcomeUnknown) return undefined;
  const mayBeThere = onRepeat !== undefined && hadRecord === undefined;
  const isOver = onRepeat === 'update' && error.code === 'offer_expired';
  if (!mayBeThere || isOver) return undefined;
  const record = await records.findWithDeleted(resources[type], externalId, call);
  return record?.isDeleted ? undefined : record;
}

/** Throws `invalid_request`. */
export function valuesOf(
  resource: Resource,
  { type, tripId, memberId, result }: HandoffRequest,
): FieldValues {
  const given = { trip_id: tripId, member_id: memberId, ...result };
  return { ...given, ...valuesFrom(resource, { type, ...given }) };
}

/** The CRM's date of a record may be earlier than that of the attempt that made it by this much: it has a grain of a second. */
const grainMs = 5000;

export function isOfEarlierAttempts(
  record: Pick<StoredRecord, 'values' | 'isDeleted'>,
  { since = 0, hadRecord }: EarlierAttempts,
): boolean {
  if (hadRecord !== undefined) return !hadRecord;
  return record.isDeleted === true || Date.parse(record.values['created_at'] ?? '') >= since - grainMs;
}

export interface Meeting {
  status: HandoffConfirmation['status'];
  /** Undefined where nothing is to be written. */
  values: FieldValues | undefined;
}

/**
 * The item has a record: it is returned, or gets what this hand-off says. Content that was acknowledged is written, unless somebody may
 * have changed the record since this hand-off made it. Throws `conflict`, `approval_required`, `invalid_request`.
 */
export function meetingOf(
  resource: Resource,
  request: HandoffRequest,
  attempt: AttemptState,
  record: StoredRecord & Found,
): Meeting {
  const isOwn = isOfItsAttempts(record, attempt) && isAsItsAttempts(resource, request, attempt, record);
  if (isOwn && (attempt.isReplaced || isCertain(request, attempt, record)))
    return { status: 'created', values: ownValues(resource, request, attempt, record) };
  const update = updateOf(resource, request, attempt, record);
  if (update === undefined) return { status: 'existing', values: undefined };
  if (hasValues(resource, record.values, update))
    return { status: isOwn ? 'created' : 'updated', values: undefined };
  // A record that this hand-off has made had its content at first.
  if (isOwn && isChanged(record)) throw changedMeanwhile();
  return { status: 'updated', values: update };
}

type AttemptState = Omit<Attempt, 'externalId'>;

function isOfItsAttempts(record: StoredRecord & Found, earlier: AttemptState): boolean {
  return (earlier.isReplaced || record.found === 'after loss') && isOfEarlierAttempts(record, earlier);
}

/** Whether nothing speaks against it: another request may have made the record just before, with other content. */
function isAsItsAttempts(
  resource: Resource,
  request: HandoffRequest,
  { hadRecord, isReplaced }: AttemptState,
  { isDeleted, values }: StoredRecord,
): boolean {
  const isKnown = hadRecord === false || isReplaced === true || isDeleted === true;
  if (isKnown || request.onRepeat === 'update') return true;
  const own = () => valuesOf(resource, request);
  return !isValid(own) || hasValues(resource, values, own());
}

function isCertain(
  { onRepeat }: HandoffRequest,
  { hadRecord }: AttemptState,
  { isDeleted }: StoredRecord,
): boolean {
  return hadRecord === false || isDeleted === true || onRepeat !== 'update';
}

/** The values for a record that attempts with other content have made; undefined where it has them. */
function ownValues(
  resource: Resource,
  request: HandoffRequest,
  { isReplaced }: AttemptState,
  record: StoredRecord,
): FieldValues | undefined {
  if (!isReplaced) return undefined;
  const { trip_id: _trip, source: _source, ...values } = valuesOf(resource, request);
  return hasValues(resource, record.values, values) ? undefined : values;
}

/** The CRM's dates have a grain of a second, and what runs after its writes takes time. */
function isChanged({ values: { created_at: made, updated_at: changed } }: StoredRecord): boolean {
  return Date.parse(changed ?? '') - Date.parse(made ?? '') > 1000;
}

/** The item has a record: it is returned, or gets what this hand-off says. Throws as `meetingOf` does. */
async function meetRecord(
  { records, resources }: HandoffCrm,
  request: HandoffRequest,
  attempt: Attempt,
  record: StoredRecord & Found,
  call: Call,
): Promise<HandoffConfirmation> {
  const { type } = request;
  const { externalId, guard } = attempt;
  const resource = resources[type];
  const { status, values } = await withSecondLook(call, () => meetingOf(resource, request, attempt, record));
  if (values !== undefined) {
    const state = entityTag(createRepresentation(resource)(record.values));
    if (guard?.before !== undefined && guard.before !== state) throw changedMeanwhile();
    await guard?.nameRecord(`${type} ${externalId}`);
    if (guard && !(await guard.rememberBefore(state))) throw recordInUse();
    await guard?.confirmOwnership();
    if (status === 'updated') requireValid(request);
    await records.update(resource, record, values, call);
  }
  return confirm(type, record, externalId, status);
}

/**
 * The values that the record of the item gets; undefined where it stays as it is. Throws `conflict` where it is another
 * member's, `approval_required`, `invalid_request`.
 */
function updateOf(
  resource: Resource,
  request: HandoffRequest,
  { needsApproval = false }: AttemptState,
  record: StoredRecord & Found,
): FieldValues | undefined {
  requireSameMember(record.values['member_id'], request.memberId);
  if (request.onRepeat !== 'update') return undefined;
  const update = () => {
    const { trip_id: _trip, member_id: _member, source: _source, ...values } = valuesOf(resource, request);
    return values;
  };
  // An earlier attempt may have written it before approval was needed.
  const isWritten = () =>
    record.found === 'after loss' && isValid(update) && hasValues(resource, record.values, update());
  if (needsApproval && !isWritten()) throw needsApprovalToUpdate(resource);
  return update();
}

/** Throws `conflict` where the item was handed off for another member. */
export function requireSameMember(known: string | null | undefined, memberId: string): void {
  if (!known || known === memberId) return;
  const message = "isn't the record's member";
  throw new Problem(
    'conflict',
    "This item was handed off for another member. Change its record's member, or send another reference.",
    { errors: [{ pointer: '#/member_id', message }] },
  );
}

export function needsApprovalToUpdate({ name, collection }: Resource): Problem {
  const detail = `The item already has a ${name}, and these credentials can't change ${collection} without approval. Leave on_repeat out to get the ${name} as it is.`;
  const errors = [{ pointer: '#/on_repeat', message: 'must be return, or left out' }];
  return new Problem('approval_required', detail, {
    errors,
    required: { resource: collection, action: 'write' },
  });
}

export function changedMeanwhile(): Problem {
  const detail = 'The item was changed while this hand-off was interrupted. Read it and decide again.';
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

interface WantedRecord extends HandoffRequest, EarlierAttempts {
  externalId: string;
  mayExist: boolean;
  needsApproval: boolean;
}

/** This long, in milliseconds, a hand-off that could be stored waits for the CRM to say whether its item has a record. */
const lookMs = 2000;

/**
 * The record of an item that is only to be returned, where the offer has ended by now; undefined where something is to be made, or
 * looked for first. Throws `offer_expired`.
 */
export async function knownInstead(
  crm: HandoffCrm,
  handoff: WantedRecord,
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
  handoff: WantedRecord,
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

function mayBeKnown({ mayExist, needsApproval, onRepeat }: WantedRecord): boolean {
  return mayExist || onRepeat === 'return' || (needsApproval && onRepeat !== undefined);
}

/**
 * The record; a deleted one only where an earlier attempt may have made it. While the CRM can't be asked, a hand-off is stored and its delivery
 * looks first; but one that needs approval now may have been made without. Throws `Problem`.
 */
async function findMade(
  { records, resources }: HandoffCrm,
  handoff: WantedRecord,
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
    throw error.asUnknown({ externalId });
  }
}

function isOwnDeleted(record: StoredRecord, { mayExist, onRepeat, since }: WantedRecord): boolean {
  return mayExist && !isFromBefore(record, onRepeat && since);
}

/** Codes of failures that the CRM is to blame for: a hand-off that met one can be delivered later. */
const crmFailures: readonly ProblemCode[] = [
  'crm_error',
  'crm_unavailable',
  'crm_quota_exhausted',
  'crm_timeout',
];

export function mayPass(error: unknown): error is Problem {
  return error instanceof Problem && crmFailures.includes(error.code);
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
  const detail = 'The offer has ended, and an earlier call to the CRM may still create the record.';
  return new Problem('crm_timeout', detail, { outcomeUnknown: true, externalId });
}

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
