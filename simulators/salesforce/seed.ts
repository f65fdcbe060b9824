import { createHash } from 'node:crypto';
import type { MembersDescription } from './org/description.ts';
import { insertRow } from './org/dml.ts';
import type { Org } from './org/org.ts';
import { findField } from './org/schema.ts';
import { toTimestamp } from './org/values.ts';

const FIRST_CREATED = Date.UTC(2025, 0, 6, 9, 0, 0);
/** A prime step, so that dates do not repeat a pattern within a page. */
const STEP_MS = 6_133_000;

const FIRST_NAMES =
  'Amara Mateo Ingrid Kenji Leila Tomasz Priya Oluwaseun Camille Rafael Aisha Lukas Mei Siobhan Ibrahim Valentina Henrik Noor Elena Tariq'.split(
    ' ',
  );
const LAST_NAMES =
  'Okafor Castellanos Lindqvist Takahashi Haddad Kowalski Raman Adeyemi Laurent Moreira Siddiqui Brandt Chen Gallagher Demir Rossi Nygaard'.split(
    ' ',
  );

/** The same id for the same position, today and in every other process (version 8 UUID, RFC 9562). */
export function memberId(position: number): string {
  const hex = createHash('sha256').update(`simulated member ${position}`).digest('hex');
  const variant = '89ab'.charAt(Number.parseInt(hex.charAt(16), 16) % 4);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function memberBody(described: MembersDescription, position: number): Record<string, unknown> {
  const first = FIRST_NAMES[position % FIRST_NAMES.length] ?? '';
  const last = LAST_NAMES[position % LAST_NAMES.length] ?? '';
  const created = toTimestamp(new Date(FIRST_CREATED + position * STEP_MS));
  return {
    [described.key]: memberId(position),
    [described.firstName]: first,
    [described.lastName]: last,
    [described.email]: `${first}.${last}.${position + 1}@example.com`.toLowerCase(),
    [described.phone]: `+1 202 555 01${String(position % 100).padStart(2, '0')}`,
    ...described.values,
    CreatedDate: created,
    LastModifiedDate: created,
  };
}

/**
 * Makes sure that the first `members` seeded records exist, in the object that the org's description names; those that
 * are there already stay as they are.
 * @throws Error when the org has no such object.
 */
export function seedMembers(org: Org, members: number): void {
  const described = org.description.members;
  const type = described && org.schema.find(described.object);
  const key = described && type && findField(type, described.key);
  if (described === undefined || type === undefined || key === undefined) {
    if (members === 0) return;
    throw new Error("members can't be seeded: the description of the org names no object for them");
  }
  org.store.transaction(() => {
    for (let position = 0; position < members; position += 1) {
      if (org.store.find(type, key, memberId(position)).length > 0) continue;
      insertRow(org, type, memberBody(described, position), { raw: true });
    }
  });
}
