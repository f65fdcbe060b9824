import { Type } from 'typebox';
import type { Claim } from '../../../api/idempotency/ledger.ts';
import { isConditional } from '../../../api/pipeline/conditional.ts';
import type { PermissionResource } from '../../../identity/consumers/consumer.ts';
import type { Call } from '../../../platform/base/call.ts';
import { Problem } from '../../../platform/base/problem.ts';
import type { Records, StoredRecord } from '../../../records/records.ts';
import { createRepresentation, entityTag, type Represent } from '../../../records/representation.ts';
import { type Resource, uuidSchema } from '../../../records/resource.ts';

/** What every operation on records works with. */
export interface RecordsContext {
  resource: Resource & { collection: Exclude<PermissionResource, 'webhooks' | 'consumers'> };
  records: Records;
  represent: Represent;
  /** Throws `conflict` for a record that something else needs as it is. */
  requireFree(id: string, call: Call): Promise<void>;
}

export function recordsContext(
  resource: RecordsContext['resource'],
  records: Records,
  requireFree: RecordsContext['requireFree'] = async () => {},
): RecordsContext {
  return {
    resource,
    records,
    represent: createRepresentation(resource),
    requireFree,
  };
}

/** What reading one record works with; members may come from a cache. */
export interface ReadingContext extends Omit<RecordsContext, 'records'> {
  records: Pick<Records, 'find'>;
}

/** The group of operations in the documentation, by collection. */
export const tags = { members: 'Members', quotes: 'Quotes', bookings: 'Bookings' } as const;

export const ifMatchDescription =
  'Of several requests that carry the same tag in If-Match, exactly one succeeds; the others are answered 412, 409 ' +
  '`idempotency_in_progress` while it runs, or 404 where it was a deletion. A change that somebody makes in the CRM ' +
  'itself between the check and the write is not noticed: the CRM has no compare-and-set for these records.';

export const agedHeader = { Age: 'How old the answer is, where it is from the copy.' };

/** The id in the path; `name` as in the specification. */
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
  { resource, records }: Pick<RecordsContext, 'resource' | 'records'>,
  id: string,
  claim: Pick<Claim, 'before' | 'leaseRecord'>,
  call: Call,
): Promise<void> {
  const isNew = claim.before === undefined;
  const isBound = isNew && call.visible(resource.collection) !== 'all';
  if (isBound && !(await records.find(resource, id, call))) throw recordNotFound(resource);
  await claim.leaseRecord(recordName(resource, id));
}

/** Names the record of an unconditional change, where the caller sees only some records and has just looked it up. */
export async function nameUnconditional(
  { resource }: Pick<RecordsContext, 'resource'>,
  { id, ifMatch }: { id: string; ifMatch: string | undefined },
  claim: Pick<Claim, 'nameRecord'>,
  call: Call,
): Promise<void> {
  if (isConditional(ifMatch) || call.visible(resource.collection) === 'all') return;
  await claim.nameRecord(recordName(resource, id));
}

/** A record as an answer, with its entity tag. Readers may keep it, but must revalidate it before each use. */
export function recordAnswer(
  status: number,
  { represent }: Pick<RecordsContext, 'represent'>,
  record: StoredRecord,
) {
  const body = represent(record.values);
  return { status, body, headers: { etag: entityTag(body), 'cache-control': 'private, no-cache' } };
}

/** The name under which writes to one record exclude each other. */
export function recordName({ name }: Resource, id: string): string {
  return `${name} ${id}`;
}

/** The External ID that a path names. */
export function idOf(params: unknown): string {
  return (params as { id: string }).id.toLowerCase();
}

export function recordNotFound({ name }: Resource): Problem {
  return new Problem('not_found', `There is no ${name} with this id.`);
}

/** Title of an operation: "Read a quote". */
export function titled(verb: string, { name }: Resource): string {
  return `${verb} a ${name}`;
}

/** `getQuote`, `createBooking`, `listQuotes`. */
export function operationId(verb: string, { name }: Pick<Resource, 'name'>): string {
  return `${verb}${name[0]?.toUpperCase()}${name.slice(1)}`;
}
