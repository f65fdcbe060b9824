import type { TSchema } from 'typebox';
import { type Call, everything, isFieldVisible, isTestCall, withChanges } from '../platform/base/call.ts';
import { now } from '../platform/base/chance.ts';
import { forgetOldest } from '../platform/base/forget-oldest.ts';
import type { Offers } from '../platform/base/offers.ts';
import { crmProblems, Problem } from '../platform/base/problem.ts';
import type { Resources } from './mapping.ts';
import { shownOfMember, member as usualMember, withMember } from './members.ts';
import { type MemberCache, memberCache, type RecordCopy, recordCopy } from './offers.ts';
import { quote } from './quotes-and-bookings.ts';
import type { FieldValues, Records, StoredRecord } from './records.ts';
import { representationSchema } from './representation.ts';
import type { Resource } from './resource.ts';

export interface MemberSource {
  records: Pick<Records, 'find'>;
  member: Resource;
  cache: () => MemberCache | undefined;
  copy: () => RecordCopy | undefined;
  /** Until when, by `now()`, nobody asks again for a member that the CRM doesn't have; pages are read again every few seconds. */
  missing: Map<string, number>;
}

export function memberSourceOf(core: {
  records: Pick<Records, 'find'>;
  resources: Pick<Resources, 'member'>;
  offers: Pick<Offers, 'find'>;
}): MemberSource {
  const { records, resources, offers } = core;
  return {
    records,
    member: resources.member,
    // Features that start later offer them.
    cache: () => offers.find(memberCache),
    copy: () => offers.find(recordCopy),
    missing: new Map(),
  };
}

/** A call for names alone takes no longer than this, in milliseconds: the answer can do without them. */
const patienceMs = 5000;

const missingMs = 60_000;
const mostMissing = 1000;

async function findUnlessMissing(
  { records, member, missing }: MemberSource,
  id: string,
  call: Call,
): Promise<StoredRecord | undefined> {
  if ((missing.get(id) ?? Number.NEGATIVE_INFINITY) > now()) return undefined;
  missing.delete(id);
  const record = await records.find(member, id, call);
  if (record !== undefined) return record;
  missing.set(id, now() + missingMs);
  forgetOldest(missing, mostMissing);
  return undefined;
}

/**
 * Members by their External ID, from the copy or the cache; those that neither has are left out, or asked for with `mayCall`, all of
 * them in one call. Those that the CRM doesn't give now are left out too.
 */
export async function findMembers(
  source: MemberSource,
  ids: readonly (string | undefined)[],
  call: Call,
  mayCall: boolean,
): Promise<ReadonlyMap<string, FieldValues>> {
  const wanted = [...new Set(ids.flatMap((id) => id ?? []))];
  const taken = {
    visible: everything,
    freshness: { maxAgeSeconds: 300 },
    deadline: Math.min(call.deadline, now() + patienceMs),
  };
  // They come one after the other out of the copy and the cache; the last one lets all go that need the call.
  const unsure = new Set(wanted);
  const { promise: areSure, resolve } = Promise.withResolvers<void>();
  const leave = (id: string) => {
    if (unsure.delete(id) && unsure.size === 0) resolve();
  };
  return withChanges(call, taken, async (asking) => {
    const findOne = async (id: string) => {
      const ask = async () => {
        leave(id);
        await areSure;
        return findUnlessMissing(source, id, asking);
      };
      const found = findMember(source, id, asking, mayCall ? ask : async () => undefined);
      return found.catch(undefinedInOutage).finally(() => leave(id));
    };
    const found = await Promise.all(wanted.map(findOne));
    return new Map(wanted.flatMap((id, index) => (found[index] ? [[id, found[index]]] : [])));
  });
}

function undefinedInOutage(error: unknown): undefined {
  if (!(error instanceof Problem) || !crmProblems.includes(error.code)) throw error;
}

async function findMember(
  { records, member, cache, copy }: MemberSource,
  id: string,
  call: Call,
  ask: () => Promise<StoredRecord | undefined>,
): Promise<FieldValues | undefined> {
  // Members of a test world cost no call.
  if (isTestCall(call)) return (await records.find(member, id, call))?.values;
  const copied = await copy()?.find(member, id, call);
  if (copied !== undefined) return copied.record?.values;
  return (await (cache()?.find(id, ask) ?? ask()))?.values;
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
