import { hash } from 'node:crypto';
import type { ChangedRecord } from '../../records/changes.ts';
import { comparedBy } from '../../records/org-types.ts';
import type { FieldValues, RecordRef, StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { folded, searchText } from '../../records/search.ts';

export const filterColumns = ['trip_id', 'member_id', 'consumer_id', 'status', 'email'] as const;

export interface CopiedRow {
  resource: string;
  nativeId: string;
  /** Empty where the API does not know it. */
  externalId: string;
  values: FieldValues;
  searchText: string;
  filters: string;
  /** The CRM's own id of the member that it names; null leaves the last one, which may be deleted. */
  memberNativeId: string | null;
  isDeleted: boolean;
  /** The CRM is to be asked: nobody knows what it has. */
  isStale: boolean;
  /** Acknowledged writes may have left something else behind than what is known of the stale record. */
  lacksWrite: boolean;
  /** Before the record was asked for: by `monotonicMs()`, or by the database's clock. What was noted since may be newer. */
  since: number | string;
}

/** No statement may write two rows with the same key. */
export function keyOf({ resource, nativeId }: CopiedRow): string {
  return `${resource} ${nativeId}`;
}

/** Rows that have one External ID were read at different times: which of them has it now is not known. */
export function staleWhereShared(rows: readonly CopiedRow[]): CopiedRow[] {
  const idOf = ({ resource, externalId }: CopiedRow) => `${resource} ${externalId}`;
  const shared = new Set<string>();
  const seen = new Set<string>();
  for (const row of rows) {
    if (row.isDeleted || row.externalId === '') continue;
    if (seen.has(idOf(row))) shared.add(idOf(row));
    seen.add(idOf(row));
  }
  return rows.map((row) => (!row.isDeleted && shared.has(idOf(row)) ? { ...row, isStale: true } : row));
}

function filteredFields({ fields }: Pick<Resource, 'fields'>): string[] {
  const own: readonly string[] = filterColumns;
  return Object.keys(fields).filter((name) => fields[name]?.filter && !own.includes(name));
}

/**
 * A token for each of these fields, and each of several values, of the same length whatever the value: an index takes no long
 * texts. Undefined where a field is not one that lists are filtered by, or its type is not known.
 */
export function filterTokens(resource: Resource, values: FieldValues): string[] | undefined {
  const names = filteredFields(resource);
  const tokens: string[] = [];
  for (const [name, value] of Object.entries(values)) {
    const kind = resource.fields[name]?.kind;
    if (!names.includes(name) || kind === undefined || kind === 'unknown') return undefined;
    for (const compared of comparedBy(kind, value)) {
      const text = JSON.stringify([name, compared === null ? null : folded(compared)]);
      tokens.push(hash('sha256', text, 'base64url').slice(0, 22));
    }
  }
  return tokens;
}

export function contentOf({ values, isDeleted, isStale }: CopiedRow): string {
  return isDeleted || isStale ? '' : JSON.stringify(values);
}

/** The fields of a record; undefined where they are not all there, as an earlier version may have stored them. */
export function readContent({ fields }: Resource, content: string): FieldValues | undefined {
  if (content === '') return undefined;
  const values = JSON.parse(content) as FieldValues;
  return Object.keys(fields).every((name) => name in values) ? values : undefined;
}

/** Changes with the org and the fields: a copy that was made of others is made again. */
export function originHash(org: string, resources: readonly Resource[]): string {
  const all = resources.map(({ name, crmObject, fields, search }) => [
    ...[name, crmObject, filterColumns, search],
    ...filteredFields({ fields }),
    Object.entries(fields).map(([field, { kind, crm }]) => [field, kind, crm]),
  ]);
  return hash('sha256', JSON.stringify([org, all]), 'base64url');
}

export function rowOf(
  resource: Resource,
  known: { nativeId?: string; externalId?: string },
  {
    written,
    since,
    isAcknowledged = true,
  }: Pick<CopiedRow, 'since'> & {
    written: RecordRef | StoredRecord | 'gone' | undefined;
    isAcknowledged?: boolean;
  },
): CopiedRow {
  const isDeleted = isGone(written);
  const found = written === 'gone' ? undefined : written;
  if (found !== undefined && 'values' in found && !isDeleted)
    return knownRow(resource, found as StoredRecord, since);
  const { externalId = '' } = known;
  return {
    resource: resource.name,
    // Only the External ID is known of a record that may have been made.
    nativeId: found?.nativeId ?? known.nativeId ?? namelessId(externalId),
    externalId,
    ...withoutValues,
    isDeleted,
    isStale: !isDeleted,
    lacksWrite: isAcknowledged,
    since,
  };
}

const withoutValues = { values: {}, searchText: '', filters: '', memberNativeId: null };

function namelessId(externalId: string): string {
  return `?${externalId}`;
}

export function isNameless({ nativeId }: CopiedRow): boolean {
  return nativeId.startsWith('?');
}

export function staleRow(row: CopiedRow): CopiedRow {
  return { ...row, ...withoutValues, isStale: true, isDeleted: false };
}

export function staleIdRow(row: CopiedRow): CopiedRow {
  return { ...staleRow(row), nativeId: namelessId(row.externalId) };
}

function isGone(written: RecordRef | StoredRecord | 'gone' | undefined): boolean {
  if (written === undefined || written === 'gone') return written === 'gone';
  // Without an External ID the API does not know it.
  if ('values' in written && !written.values['id']) return true;
  return 'isDeleted' in written && written.isDeleted;
}

function knownRow(
  resource: Resource,
  { nativeId, values, links }: Pick<StoredRecord, 'nativeId' | 'values' | 'links'>,
  since: CopiedRow['since'],
): CopiedRow {
  return {
    resource: resource.name,
    nativeId,
    externalId: values['id'] ?? '',
    values,
    searchText: searchText(resource, values),
    filters: tokensOf(resource, values),
    memberNativeId: links?.['member_id'] ?? null,
    isDeleted: false,
    isStale: false,
    // If the content is found to be stale, a write may be missing.
    lacksWrite: true,
    since,
  };
}

function tokensOf(resource: Resource, values: FieldValues): string {
  const tokens = filteredFields(resource).flatMap(
    (name) => filterTokens(resource, { [name]: values[name] ?? null }) ?? [],
  );
  return tokens.join(' ');
}

export function changedRow(record: ChangedRecord): CopiedRow {
  const { resource, externalId = '', isDeleted } = record;
  return { ...knownRow(resource, record, 0), externalId, isDeleted: isDeleted || externalId === '' };
}
