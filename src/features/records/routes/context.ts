import { Type } from 'typebox';
import type { HistorySubject } from '../../../api/history.ts';
import type { StoredAnswer } from '../../../api/idempotency/keyed-request.ts';
import type { Claim } from '../../../api/idempotency/ledger.ts';
import { tagBeside } from '../../../api/pipeline/request-head.ts';
import type { Route } from '../../../api/route.ts';
import { includeParameter, requireMembers } from '../../../api/routes/page.ts';
import type { PermissionResource } from '../../../identity/consumers/consumer.ts';
import type { Caller } from '../../../identity/consumers/scopes.ts';
import {
  type Call,
  everything,
  isFieldVisible,
  isTestCall,
  withChanges,
} from '../../../platform/base/call.ts';
import { pickFields } from '../../../platform/base/json-text.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { ownerField } from '../../../records/created-by.ts';
import { includedName, withMember } from '../../../records/members.ts';
import type { RequireFreeBooking } from '../../../records/offers.ts';
import type { Records, StoredRecord } from '../../../records/records.ts';
import { createRepresentation, entityTag, type Represent } from '../../../records/representation.ts';
import { type Resource, uuidSchema } from '../../../records/resource.ts';
import {
  createRepresentations,
  type RepresentFor,
  shownName,
  shownNames,
} from '../../../records/shown-fields.ts';

export interface ReadingContext {
  resource: Resource & { collection: Exclude<PermissionResource, 'webhooks' | 'consumers'> };
  records: Pick<Records, 'find'>;
  representFor: RepresentFor;
  /** The resource with the member beside its records; undefined where it has none. */
  withMember?: Resource | undefined;
}

export interface RecordsContext extends ReadingContext {
  records: Records;
  representState: Represent;
  requireFree: RequireFreeBooking;
}

export function recordsContext(
  resource: RecordsContext['resource'],
  records: Records,
  {
    requireFree = async () => {},
    member,
  }: { requireFree?: RecordsContext['requireFree'] | undefined; member?: Resource } = {},
): RecordsContext {
  return {
    withMember: member && withMember(resource, member),
    resource,
    records,
    representFor: createRepresentations(resource),
    representState: createRepresentation({ fields: resource.fields }),
    requireFree,
  };
}

export function includeOf({ withMember: included }: ReadingContext) {
  return included === undefined ? {} : includeParameter;
}

/**
 * The resource that a read asks for, and its writer: with the member where the caller may see it. Throws `permission_denied`
 * for one that may not.
 */
export function readAs(
  context: ReadingContext,
  { include }: { include?: unknown },
  { consumer, call }: { consumer: Caller | undefined; call: Call },
): { resource: Resource; represent: Represent } {
  const { resource, withMember: included } = context;
  if (include === undefined || included === undefined)
    return { resource, represent: representTo(context, call) };
  requireMembers(consumer, [resource.collection]);
  const [own, ofMember] = [call.visibleFields?.(resource.collection), call.visibleFields?.('members')];
  const fields = Object.entries(included.fields).filter(([name, field]) => {
    const member = includedName(name);
    return member === undefined
      ? isFieldVisible(own, shownName(name, field))
      : isFieldVisible(ofMember, member);
  });
  const represent = createRepresentation({ ...included, fields: Object.fromEntries(fields) });
  return { resource: included, represent };
}

export const tags = { members: 'Members', quotes: 'Quotes', bookings: 'Bookings' } as const;

export const ifMatchDescription =
  'If several requests send the same tag in If-Match, exactly one succeeds. The others get 412, 409 ' +
  '`idempotency_in_progress` while the first is running, or 404 if it deleted the record. A change made ' +
  "in the CRM itself between the check and the write goes unnoticed, because the CRM can't check and " +
  'write in one step.';

export const agedHeader = { Age: 'How old the response is, where it comes from the copy or a cache.' };

export function idParams(name: string, { name: resource, fields }: Resource) {
  const { examples = [] } = (fields['id']?.schema ?? {}) as { examples?: unknown[] };
  return Type.Object(
    { [name]: uuidSchema(`External ID of the ${resource}.`, examples[0]) },
    { additionalProperties: false },
  );
}

/**
 * Leases a record for a conditional write. A caller that sees only some records must not learn from a lease what others do with
 * the rest, nor hold them up with one: the record is looked up first. Throws `not_found`, and what the lease does.
 */
export async function leaseVisible(
  { resource, records }: ReadingContext,
  id: string,
  claim: Pick<Claim, 'before' | 'leaseRecord'>,
  call: Call,
): Promise<void> {
  const isNew = claim.before === undefined;
  const isBound = isNew && call.visible(resource.collection) !== 'all';
  if (isBound && !(await records.find(resource, id, call))) throw recordNotFound(resource);
  await claim.leaseRecord(recordName(resource, id));
}

export async function nameUnconditional(
  { resource }: ReadingContext,
  id: string,
  claim: Pick<Claim, 'nameRecord'>,
  call: Call,
): Promise<void> {
  if (call.visible(resource.collection) !== 'all') await claim.nameRecord(recordName(resource, id));
}

function representTo({ resource, representFor }: ReadingContext, call: Call): Represent {
  return representFor(call.visibleFields?.(resource.collection));
}

export function recordAnswer(
  status: number,
  context: ReadingContext,
  record: Pick<StoredRecord, 'values'>,
  call: Call,
  included?: Represent,
) {
  const own = representTo(context, call)(record.values);
  const body = included?.(record.values) ?? own;
  const etag = included === undefined ? entityTag(own) : tagBeside(entityTag(own), entityTag(body));
  return { status, body, headers: { etag, 'cache-control': 'private, no-cache' } };
}

/**
 * `shown`: the tag of what the caller sees, for preconditions; it stays where only hidden fields change. `state`: that of the
 * whole record, to find out what became of a write: no tag of a whole record ever returns.
 */
export function tagsOf(context: RecordsContext, { values }: StoredRecord, call: Call) {
  return {
    state: entityTag(context.representState(values)),
    shown: entityTag(representTo(context, call)(values)),
  };
}

/**
 * A stored answer as the caller may see it now: its permission may name fewer fields than when it was stored, and what the
 * housekeeping stores has all.
 */
function showStored({ resource }: ReadingContext, answer: StoredAnswer, call: Call): StoredAnswer {
  const visible = call.visibleFields?.(resource.collection);
  if (visible === undefined || answer.status >= 300) return answer;
  const body = pickFields(answer.body, (name) => isFieldVisible(visible, name));
  return { ...answer, body, headers: { ...answer.headers, etag: entityTag(body) } };
}

function fieldsIn({ resource }: ReadingContext, body: unknown): string[] {
  if (typeof body !== 'object' || body === null) return [];
  return shownNames(resource).filter((name) => Object.hasOwn(body, name));
}

export function byFields(
  context: ReadingContext,
  always: readonly string[] = [],
): Required<Pick<Route, 'usedFields' | 'showStored'>> {
  return {
    usedFields: ({ body }) => [...always, ...fieldsIn(context, body)],
    showStored: (answer, call) => showStored(context, answer, call),
  };
}

export function requiredFields({ resource: { fields } }: ReadingContext): string[] {
  return Object.entries(fields).flatMap(([name, field]) => (field.required ? [shownName(name, field)] : []));
}

export function recordName({ name }: Resource, id: string): string {
  return `${name} ${id}`;
}

/** Whether the caller may see a record, also a deleted one; undefined where nothing is left of it. */
export async function isSeen(
  { resource, records }: Pick<RecordsContext, 'resource' | 'records'>,
  id: string,
  call: Call,
): Promise<boolean | undefined> {
  if (call.visible(resource.collection) === 'all') return true;
  const found = await withChanges(call, { visible: everything }, (own) =>
    records.findWithDeleted(resource, id, own),
  );
  return found && found.values[ownerField] === call.consumerId;
}

export function checkSeen(context: RecordsContext) {
  return async ({ params, call }: { params: unknown; call: Call }): Promise<void> => {
    if (!(await isSeen(context, idOf(params), call))) throw recordNotFound(context.resource);
  };
}

/** Before a write whose answer shows the record. Throws `crm_error` for a field that the org does not show. */
export function admitShown({ records, resource }: RecordsContext, call: Call) {
  records.admit(call);
  // A test consumer's world has all fields.
  if (isTestCall(call)) return;
  const { fields, fit, collection } = resource;
  const visible = call.visibleFields?.(collection);
  const shown = Object.entries(fields).filter(([name, field]) =>
    isFieldVisible(visible, shownName(name, field)),
  );
  fit.require(
    'read',
    shown.map(([name]) => name),
  );
}

export function idOf(params: unknown): string {
  return (params as { id: string }).id.toLowerCase();
}

export function recordNotFound({ name }: Resource): Problem {
  return new Problem('not_found', `There's no ${name} with this id.`);
}

export function subjects({ name }: Resource): HistorySubject['type'][] {
  return name === 'quote' || name === 'booking' ? [name] : [];
}

export function titled(verb: string, { name }: Resource): string {
  return `${verb} a ${name}`;
}

/** `getQuote`, `createBooking`, `listQuotes`. */
export function operationId(verb: string, { name }: Pick<Resource, 'name'>): string {
  return `${verb}${name[0]?.toUpperCase()}${name.slice(1)}`;
}
