import type { Call } from '../../platform/base/call.ts';
import { memberValues } from '../../records/included-member.ts';
import { startPage } from '../../records/record-page.ts';
import type { FieldValues, ListQuery, RecordPage, StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import type { Accepted, CopiedReads } from './copied-records.ts';

/*
 * Records of the copy with the member beside them: members are rows of their own there. Undefined where the copy cannot answer
 * for a member as it can for its record.
 */

type Reads = Pick<CopiedReads, 'find' | 'list'>;

interface Asked {
  call: Call;
  accepted?: Accepted | undefined;
}

export async function findCopied(
  reads: Reads,
  resource: Resource,
  { externalId, call, accepted }: Asked & { externalId: string },
): Promise<{ record: StoredRecord | undefined } | undefined> {
  const { included } = resource;
  if (included === undefined) return reads.find(resource, externalId, call, accepted);
  const found = await reads.find(included.base, externalId, call, accepted);
  if (found?.record === undefined) return found;
  const all = await withMembers(reads, included.member, [found.record.values], { call, accepted });
  return all?.[0] && { record: { ...found.record, values: all[0] } };
}

export async function listCopied(
  reads: Reads,
  resource: Resource,
  { query, call, accepted }: Asked & { query: ListQuery },
): Promise<RecordPage | undefined> {
  const { included } = resource;
  if (included === undefined) return reads.list(resource, query, call, accepted);
  const listed: FieldValues[] = [];
  const represent = (values: FieldValues) => {
    listed.push(values);
    return query.represent(values);
  };
  const found = await reads.list(included.base, { ...query, represent }, call, accepted);
  if (found === undefined) return undefined;
  const records = listed.slice(0, found.records.length);
  const all = await withMembers(reads, included.member, records, { call, accepted });
  if (all === undefined) return undefined;
  const { page, add } = startPage(query);
  const isWhole = all.every((values) => add(values));
  return { ...found, records: page.records, hasMore: found.hasMore || !isWhole };
}

async function withMembers(
  reads: Reads,
  member: Resource,
  records: readonly FieldValues[],
  { call, accepted }: Asked,
): Promise<FieldValues[] | undefined> {
  const ids = [...new Set(records.flatMap((values) => values['member_id'] ?? []))];
  // A caller that sees only its own records sees every member: the permission was checked before.
  const taken = { ...call, visible: () => 'all' as const };
  const found = await Promise.all(ids.map((id) => reads.find(member, id, taken, accepted)));
  if (found.includes(undefined)) return undefined;
  const members = new Map(ids.map((id, index) => [id, found[index]?.record?.values]));
  return records.map((values) => ({
    ...values,
    ...memberValues(members.get(values['member_id'] ?? '')),
  }));
}
