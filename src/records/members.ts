import { Problem, type ProblemFacts } from '../platform/base/problem.ts';
import type { OrgFit } from './org-fit.ts';
import type { FieldValues } from './records.ts';
import { defineResource, type Field, type Resource, text, timestamp, uuid } from './resource.ts';

/** Members are the CRM's contacts, where no mapping names another object; the service reads them and never writes them. */
export const member = defineResource({
  name: 'member' as const,
  collection: 'members' as const,
  crmObject: 'Contact',
  search: [['first_name', 'last_name'], ['email'], ['phone']],
  fields: {
    id: uuid('External_Id__c', {
      description: 'External ID of the member.',
      example: '8673c1d4-1752-87ae-aa59-227b6cc68c14',
    }),
    first_name: text('FirstName', { description: 'Given name.', example: 'Amara' }),
    last_name: text('LastName', { description: 'Family name.', example: 'Okafor' }),
    email: text('Email', {
      description: 'E-mail address.',
      example: 'amara.okafor.1@example.com',
      filter: true,
    }),
    phone: text('Phone', { description: 'Telephone number.', example: '+1 202 555 0100' }),
    created_at: timestamp('CreatedDate', {
      description: 'When the CRM made the record.',
      example: '2027-01-18T09:30:00.000Z',
    }),
    updated_at: timestamp('LastModifiedDate', {
      description: 'When the CRM last changed the record.',
      example: '2027-03-02T16:05:12.000Z',
    }),
  },
});

export function unknownMember(field: string, facts: ProblemFacts = {}): Problem {
  const errors = [{ pointer: `#/${field}`, message: "isn't the id of a member" }];
  return new Problem('member_not_found', 'The CRM has no member with this id.', { ...facts, errors });
}

export const shownOfMember = ['id', 'first_name', 'last_name', 'email'];
export const includedPart = 'member';
const memberPart = {
  name: includedPart,
  description: 'The member; null where there is none, or none that can be read now.',
};

/** The fields of the member as those of the record that names it: one query reads both. */
export function withMember(base: Resource, ofMember: Resource): Resource {
  const [relationship = ''] = base.fields['member_id']?.crm.path.split('.') ?? [];
  const fields = shownOfMember.flatMap((name): [string, Field][] => {
    const field = ofMember.fields[name];
    if (field === undefined) return [];
    const { kind, schema, crm, isAbsent } = field;
    const common = { writable: false, required: false, filter: false, indexed: false, within: memberPart };
    const path = { path: `${relationship}.${crm.path}` };
    return [[`member.${name}`, { kind, schema, crm: path, ...common, ...(isAbsent && { isAbsent }) }]];
  });
  return {
    ...base,
    fields: { ...base.fields, ...Object.fromEntries(fields) },
    included: { base, member: ofMember },
  };
}

/** Has none for a field of the member that the org hides. */
export function memberValues(values: FieldValues | undefined): FieldValues {
  return Object.fromEntries(
    shownOfMember.flatMap((name) => {
      const value = values === undefined ? null : values[name];
      return value === undefined ? [] : [[`member.${name}`, value]];
    }),
  );
}

/** Whose field it is in a query that reads members with their records, and its name there. */
export function ownerOfField({ fit, included }: Resource, name: string): { fit: OrgFit; name: string } {
  const ofMember = includedName(name);
  return included === undefined || ofMember === undefined
    ? { fit, name }
    : { fit: included.member.fit, name: ofMember };
}

export function resourceKey({ name, included }: Resource): string {
  return included === undefined ? name : `${name} with member`;
}

/** Field of a member that answers show in the record's own field; undefined for a field of the record. */
export function includedName(name: string): string | undefined {
  return name.startsWith('member.') ? name.slice('member.'.length) : undefined;
}
