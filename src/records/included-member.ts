import type { FieldValues } from './records.ts';
import type { Field, Resource } from './resource.ts';

export const shownOfMember = ['id', 'first_name', 'last_name', 'email'];
export const includedPart = 'member';
const part = {
  name: includedPart,
  description: 'The member; null where there is none, or none that can be read now.',
};

/** The fields of the member as those of the record that names it: one query reads both. */
export function withMember(base: Resource, member: Resource): Resource {
  const [relationship = ''] = base.fields['member_id']?.crm.path.split('.') ?? [];
  const fields = shownOfMember.flatMap((name): [string, Field][] => {
    const field = member.fields[name];
    if (field === undefined) return [];
    const { kind, schema, crm, isAbsent } = field;
    const common = { writable: false, required: false, filter: false, indexed: false, within: part };
    const path = { path: `${relationship}.${crm.path}` };
    return [[`member.${name}`, { kind, schema, crm: path, ...common, ...(isAbsent && { isAbsent }) }]];
  });
  return { ...base, fields: { ...base.fields, ...Object.fromEntries(fields) }, included: { base, member } };
}

export function memberValues(values: FieldValues | undefined): FieldValues {
  return Object.fromEntries(shownOfMember.map((name) => [`member.${name}`, values?.[name] ?? null]));
}

export function resourceKey({ name, included }: Resource): string {
  return included === undefined ? name : `${name} with member`;
}

/** Field of a member that answers show in the record's own field; undefined for a field of the record. */
export function includedName(name: string): string | undefined {
  return name.startsWith('member.') ? name.slice('member.'.length) : undefined;
}
