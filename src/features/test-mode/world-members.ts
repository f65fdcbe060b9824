import { hash } from 'node:crypto';
import { uuidOfHash } from '../../platform/base/text.ts';
import type { FieldValues } from '../../records/records.ts';
import { testFaultOf } from '../../records/test-members.ts';

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

function memberId(position: number): string {
  return uuidOfHash(hash('sha256', `simulated member ${position}`, 'buffer'));
}

function memberAt(position: number, id = memberId(position)): FieldValues {
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

const all = Array.from({ length: memberCount }, (_, position) => memberAt(position));
const byId = new Map(all.map((values) => [values['id'], values]));

export const worldMembers: readonly FieldValues[] = all.toReversed();

export function worldMember(id: string): FieldValues | undefined {
  const fault = testFaultOf(id);
  if (fault === 'missing') return undefined;
  return byId.get(id) ?? (fault && { ...memberAt(0, id), last_name: `Test ${fault}` });
}
