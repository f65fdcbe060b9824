import { hash } from 'node:crypto';
import { Problem } from '../../platform/base/problem.ts';
import { uuidOfHash } from '../../platform/base/text.ts';
import { type Creator, creatorValues, ownerField } from '../../records/created-by.ts';
import {
  type FieldValues,
  type ListQuery,
  type RecordPage,
  type StoredRecord,
  startPage,
} from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { folded, searchText } from '../../records/search.ts';
import { testFaultOf } from '../../records/test-members.ts';
import type { Row, Written } from './worlds-table.ts';

const nativePattern = /^a0t(\d{15})$/;

/** The number of the row that an identifier stands for; undefined where it is no identifier of a row. */
export function rowIdOf(nativeId: string): string | undefined {
  return nativePattern.exec(nativeId)?.[1];
}

export function toWritten(resource: Resource, values: FieldValues): Written {
  const { fields } = resource;
  const content: Record<string, string | null> = {};
  const filters: Record<string, string | null> = {};
  for (const [name, value] of Object.entries(values)) {
    const field = fields[name];
    if (field === undefined || field.isAbsent || name === 'created_at' || name === 'updated_at') continue;
    content[name] = field.kind === 'uuid' && value !== null ? value.toLowerCase() : value;
    if (field.filter && value !== null) filters[name] = folded(value);
  }
  // No field has the name of a parameter of lists.
  filters['q'] = folded(searchText(resource, values));
  return { content: JSON.stringify(content), filters: JSON.stringify(filters) };
}

/** All fields of the resource, null where there is no value. */
export function allFields({ fields }: Resource, values: FieldValues): FieldValues {
  const all: Record<string, string | null> = {};
  for (const name of Object.keys(fields)) all[name] = values[name] ?? null;
  return all;
}

/** A deleted record has lost its content, but still says whose it was. */
export function toRecord(resource: Resource, row: Row): StoredRecord {
  const values = {
    ...(row.is_deleted && { [ownerField]: row.consumer_id }),
    ...(JSON.parse(row.content) as FieldValues),
    id: row.external_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
  return {
    nativeId: `a0t${row.id.padStart(15, '0')}`,
    values: allFields(resource, values),
    ...(row.is_deleted && { isDeleted: true }),
  };
}

export function newValues(values: FieldValues, call: Creator): FieldValues {
  return { status: 'created', ...values, ...creatorValues(call) };
}

export function toPage(found: readonly FieldValues[], query: ListQuery): RecordPage {
  const { page, add } = startPage(query);
  for (const values of found) if (!add(values)) break;
  return page;
}

export function pickMembers(
  resource: Resource,
  members: readonly FieldValues[],
  query: ListQuery,
): FieldValues[] {
  const { filters, search, updatedSince, after, limit } = query;
  const wanted = Object.entries(filters);
  const positionOf = ({ id, created_at, updated_at }: FieldValues) =>
    `${updatedSince === undefined ? created_at : updated_at} ${id}`;
  const position = after && `${after.at} ${after.id}`;
  const isWanted = (values: FieldValues) =>
    (search === undefined || folded(searchText(resource, values)).includes(folded(search))) &&
    wanted.every(([name, value]) => value !== null && folded(values[name] ?? '') === folded(value)) &&
    (updatedSince === undefined || (values['updated_at'] ?? '') >= updatedSince);
  const isBehind = (values: FieldValues) =>
    position === undefined ||
    (updatedSince === undefined ? positionOf(values) < position : positionOf(values) > position);
  // Newest first, as they are; by their changes the other way round.
  const ordered = updatedSince === undefined ? members : members.toReversed();
  return ordered.filter((values) => isWanted(values) && isBehind(values)).slice(0, limit + 1);
}

const memberCount = 100;

const firstCreated = Date.UTC(2025, 0, 6, 9, 0, 0);
const stepMs = 6_133_000;

const firstNames =
  'Amara Mateo Ingrid Kenji Leila Tomasz Priya Oluwaseun Camille Rafael Aisha Lukas Mei Siobhan Ibrahim Valentina Henrik Noor Elena Tariq'.split(
    ' ',
  );
const lastNames =
  'Okafor Castellanos Lindqvist Takahashi Haddad Kowalski Raman Adeyemi Laurent Moreira Siddiqui Brandt Chen Gallagher Demir Rossi Nygaard'.split(
    ' ',
  );

function idAt(position: number): string {
  return uuidOfHash(hash('sha256', `simulated member ${position}`, 'buffer'));
}

function memberAt(position: number, id = idAt(position)): FieldValues {
  const first_name = firstNames[position % firstNames.length] ?? '';
  const last_name = lastNames[position % lastNames.length] ?? '';
  const created = new Date(firstCreated + position * stepMs).toISOString();
  return {
    id,
    first_name,
    last_name,
    email: `${first_name}.${last_name}.${position + 1}@example.com`.toLowerCase(),
    phone: `+1 202 555 01${String(position % 100).padStart(2, '0')}`,
    created_at: created,
    updated_at: created,
  };
}

const members = Array.from({ length: memberCount }, (_, position) => memberAt(position));
const membersById = new Map(members.map((values) => [values['id'], values]));

export const worldMembers: readonly FieldValues[] = members.toReversed();

export function worldMember(id: string): FieldValues | undefined {
  const fault = testFaultOf(id);
  if (fault === 'missing') return undefined;
  return membersById.get(id) ?? (fault && { ...memberAt(0, id), last_name: `Test ${fault}` });
}

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
