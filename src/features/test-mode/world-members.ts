import { hash } from 'node:crypto';
import { Problem } from '../../platform/base/problem.ts';
import { uuidOfHash } from '../../platform/base/text.ts';
import { quote } from '../../records/quotes-and-bookings.ts';
import type { FieldValues } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
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

const all = Array.from({ length: memberCount }, (_, position) => memberAt(position));
const byId = new Map(all.map((values) => [values['id'], values]));

export const worldMembers: readonly FieldValues[] = all.toReversed();

export function worldMember(id: string): FieldValues | undefined {
  const fault = testFaultOf(id);
  if (fault === 'missing') return undefined;
  return byId.get(id) ?? (fault && { ...memberAt(0, id), last_name: `Test ${fault}` });
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

export const sampleId = exampleOf(quote.fields.id) as string;

export function sampleValues({ fields }: Resource): FieldValues {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const example = exampleOf(field) ?? null;
      return [name, field.kind === 'json' ? JSON.stringify(example) : (example as string | null)];
    }),
  );
}

function exampleOf({ schema }: Resource['fields'][string]): unknown {
  return (schema as { examples?: unknown[] }).examples?.[0];
}
