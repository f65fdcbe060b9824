import type { TSchema } from 'typebox';
import { type Call, isFieldVisible, modeOf } from '../platform/base/call.ts';
import { shownOfMember, withMember } from './included-member.ts';
import { member as usualMember } from './members.ts';
import type { MemberCache, RecordCopy } from './offers.ts';
import { quote } from './quotes-and-bookings.ts';
import type { FieldValues, Records } from './records.ts';
import { representationSchema } from './representation.ts';
import type { Resource } from './resource.ts';

export interface MemberSource {
  records: Pick<Records, 'find'>;
  member: Resource;
  cache: () => MemberCache | undefined;
  copy: () => RecordCopy | undefined;
}

/**
 * Members by their External ID, from the copy or the cache; those that neither has are left out, or asked for with `mayCall`, all of
 * them in one call. Throws what the call does.
 */
export async function findMembers(
  source: MemberSource,
  ids: readonly (string | undefined)[],
  call: Call,
  mayCall: boolean,
): Promise<ReadonlyMap<string, FieldValues>> {
  const taken = { ...call, visible: () => 'all' as const, freshness: { maxAgeSeconds: 300 } };
  const wanted = [...new Set(ids.flatMap((id) => id ?? []))];
  const found = await Promise.all(wanted.map((id) => findMember(source, id, taken, mayCall)));
  return new Map(wanted.flatMap((id, index) => (found[index] ? [[id, found[index]]] : [])));
}

async function findMember(
  { records, member, cache, copy }: MemberSource,
  id: string,
  call: Call,
  mayCall: boolean,
): Promise<FieldValues | undefined> {
  const ask = async () => (await records.find(member, id, call))?.values;
  // Members of a test world cost no call.
  if (modeOf(call.consumerId) === 'test') return ask();
  const copied = await copy()?.find(member, id, call);
  if (copied !== undefined) return copied.record?.values;
  const fetch = async () => (mayCall ? records.find(member, id, call) : undefined);
  const kept = await (cache()?.find(id, fetch) ?? fetch());
  return kept?.values;
}

/** The member as answers show it to who sees these fields of members; null for one that is not known. */
export function viewOfMember(
  values: FieldValues | undefined,
  isVisible: (field: string) => boolean,
): Record<string, string | null> | null {
  if (values === undefined) return null;
  const names = shownOfMember.filter((name) => name === 'id' || isVisible(name));
  return Object.fromEntries(names.map((name) => [name, values[name] ?? null]));
}

export const memberBeside = (
  representationSchema(withMember(quote, usualMember)) as unknown as { properties: { member: TSchema } }
).properties.member;

interface Included {
  /** Undefined: nothing is shown, as the caller may not see the members. */
  include: 'member' | undefined;
  source: MemberSource;
  call: Call;
  mayCall: boolean;
}

/** Throws what the call to the CRM does. */
export async function membersBeside<Row>(
  rows: readonly Row[],
  idOf: (row: Row) => string | undefined,
  { include, source, call, mayCall }: Included,
): Promise<(row: Row) => { member?: object | null }> {
  if (include === undefined) return () => ({});
  const found = await findMembers(source, rows.map(idOf), call, mayCall);
  const visible = call.visibleFields?.('members');
  const show = (id: string | undefined) =>
    viewOfMember(id === undefined ? undefined : found.get(id), (field) => isFieldVisible(visible, field));
  return (row) => ({ member: show(idOf(row)) });
}
