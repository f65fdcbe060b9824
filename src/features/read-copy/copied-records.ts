import { createBatcher } from '../../platform/base/batching.ts';
import type { Call } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import type { Log } from '../../platform/observability/log.ts';
import { isHung, isUnavailable } from '../../platform/store/failures.ts';
import { ownerField } from '../../records/created-by.ts';
import {
  type FieldValues,
  type ListQuery,
  type RecordPage,
  type StoredRecord,
  startPage,
} from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { filterColumns, filterTokens, readContent } from './copied-row.ts';
import type {
  CopyList,
  CopyTable,
  Found,
  FoundList,
  FoundRow,
  LookedUpRow,
  LookupKey,
} from './copy-table.ts';
import type { ReadCopyMetrics } from './metrics.ts';

const statementsAtOnce = 4;
const mostRecords = 200;
/** For this long after a failure of the database the CRM is asked: replicas may have writes to note that they could not. */
const pauseMs = 5000;

interface CopiedReadsOptions {
  table: CopyTable;
  /** Seconds, where a request does not say how old its answer may be. */
  defaultMaxAgeSeconds: number;
  isBehind: () => boolean;
  /** Whether a poll that began this many seconds ago has seen every write that a replica could not note. */
  areUnnotedSeenBy: (pollAge: number) => boolean;
  log: Log;
  metrics: Pick<ReadCopyMetrics, 'copyReads'>;
}

export type Accepted = 'known' | 'last known';

export interface CopiedReads {
  find(
    resource: Resource,
    externalId: string,
    call: Call,
    accepted?: Accepted,
  ): Promise<{ record: StoredRecord | undefined } | undefined>;
  list(
    resource: Resource,
    query: ListQuery,
    call: Call,
    accepted?: Accepted,
  ): Promise<RecordPage | undefined>;
}

export function createCopiedReads(options: CopiedReadsOptions): CopiedReads {
  const { table, defaultMaxAgeSeconds, areUnnotedSeenBy, metrics } = options;
  const lookUp = createBatcher<LookupKey, Found<LookedUpRow> | undefined>({
    execute: (keys) => table.find(keys),
    inFlight: statementsAtOnce,
    batchSize: mostRecords,
    identity: ({ resource, externalId, madeBy = '' }) => `${resource} ${externalId} ${madeBy}`,
    isShared: isUnavailable,
    isHung,
  });
  const ask = createAsk(options);

  /** Undefined where nothing is fresh enough for the request; the age is in seconds. */
  async function serve<F extends { age: number }, Answer>(
    call: Call,
    find: () => Promise<F | undefined>,
    answer: (found: F, ageSeconds: number) => Answer | undefined,
  ): Promise<Answer | undefined> {
    const maxAge = maxAgeOf(call, defaultMaxAgeSeconds);
    if (maxAge <= 0) return undefined;
    const started = monotonicMs();
    const found = await ask(find);
    // Count from before the statement: the rows are at least that old.
    const age = (found?.age ?? Number.POSITIVE_INFINITY) + (monotonicMs() - started) / 1000;
    const answered =
      found && age <= maxAge && areUnnotedSeenBy(age) ? answer(found, Math.ceil(age)) : undefined;
    metrics.copyReads.inc({ source: answered === undefined ? 'crm' : 'copy' });
    return answered;
  }

  return {
    find: (resource, externalId, call, accepted = 'known') => {
      const key = { resource: resource.name, externalId, madeBy: makerSeenBy(call, resource) };
      return serve(
        call,
        async () => {
          const found = await lookUp(key);
          return accepted === 'known' ? found : found && recordAtLast(found);
        },
        ({ rows: [row, another] }, ageSeconds) => {
          if (another !== undefined || row?.is_stale) return undefined;
          return visibleTo(call, resource, row && toRecord(resource, row, ageSeconds), row !== undefined);
        },
      );
    },
    list: (resource, query, call, accepted = 'known') => {
      const list = asCopyList(resource, query, call);
      if (list === undefined) return Promise.resolve(undefined);
      const needsOwner = ownerField in list.filters;
      return serve(
        call,
        async () => {
          const found = await table.list(list);
          return accepted === 'known' ? found : found && listAtLast(found);
        },
        (found, ageSeconds) =>
          // Where no record has one, the org may lack the column: the CRM's answer says so.
          found.hasStale || (needsOwner && !found.hasOwners)
            ? undefined
            : toPage(resource, query, found, ageSeconds),
      );
    },
  };
}

function recordAtLast({ age, rows }: Found<LookedUpRow>): Found<LookedUpRow> {
  return {
    age: Math.max(age, ...rows.map(({ right_ago }) => right_ago ?? Number.POSITIVE_INFINITY)),
    rows: rows.filter(({ content }) => content !== '').map((row) => ({ ...row, is_stale: false })),
  };
}

function listAtLast(found: FoundList): FoundList {
  return { ...found, age: found.rightAgo ?? Number.POSITIVE_INFINITY, hasStale: false };
}

/** The consumer that a record must be made by to be seen; undefined where all are. */
function makerSeenBy(call: Call, { collection }: Resource): string | undefined {
  const visible = call.visible(collection);
  return visible === 'all' ? undefined : visible.consumerId;
}

/** In seconds; 0 for what takes nothing but what the CRM has now. */
function maxAgeOf({ freshness }: Call, otherwise: number): number {
  return freshness === undefined ? 0 : (freshness.maxAgeSeconds ?? otherwise);
}

/** Runs a read of the copy; undefined where it fails, for some seconds after that, and while writes wait to be noted. */
function createAsk({ isBehind, log }: Pick<CopiedReadsOptions, 'isBehind' | 'log'>) {
  let failedAt = Number.NEGATIVE_INFINITY;
  const isPaused = () => monotonicMs() - failedAt < pauseMs;
  return async <F>(find: () => Promise<F | undefined>): Promise<F | undefined> => {
    if (isBehind() || isPaused()) return undefined;
    return find().catch((err: unknown) => {
      if (!isPaused()) log.warn({ err }, "couldn't read the copy; asking Salesforce for some seconds");
      failedAt = monotonicMs();
      return undefined;
    });
  };
}

function toRecord(
  resource: Resource,
  { native_id, content }: FoundRow,
  ageSeconds: number,
): StoredRecord | undefined {
  const values = readContent(resource, content);
  return values && { nativeId: native_id, values, ageSeconds };
}

/**
 * Answer that a caller gets of a row; undefined where the CRM has to be asked: the row is of another version, or the caller sees
 * its own records only and the row does not say that it made this one. A caller must not learn from the source of the
 * answer whether another consumer's record exists.
 */
function visibleTo(call: Call, resource: Resource, record: StoredRecord | undefined, isThere: boolean) {
  if (isThere && record === undefined) return undefined;
  const maker = makerSeenBy(call, resource);
  return maker === undefined || record?.values[ownerField] === maker ? { record } : undefined;
}

function groupFilters(filters: FieldValues): { own: FieldValues; added: FieldValues } {
  const entries = Object.entries(filters);
  const hasColumn = (name: string) => filterColumns.some((column) => column === name);
  return {
    own: Object.fromEntries(entries.filter(([name]) => hasColumn(name))),
    added: Object.fromEntries(entries.filter(([name]) => !hasColumn(name))),
  };
}

/** The list with the filter for the caller's own records; undefined where the copy has not all its filters. */
function asCopyList(resource: Resource, query: ListQuery, call: Call): CopyList | undefined {
  const { own: filters, added } = groupFilters(query.filters);
  const tokens = filterTokens(resource, added);
  const maker = makerSeenBy(call, resource);
  if (tokens === undefined || (maker !== undefined && ownerField in filters)) return undefined;
  const list = { ...query, resource: resource.name, filters, tokens };
  return maker === undefined ? list : { ...list, filters: { ...filters, [ownerField]: maker } };
}

/** The page, as it would be made of the CRM's rows; undefined where a row is of another version. */
function toPage(
  resource: Resource,
  query: ListQuery,
  { rows, isCut }: FoundList,
  ageSeconds: number,
): RecordPage | undefined {
  const { page, add } = startPage(query);
  for (const { content } of rows) {
    const values = readContent(resource, content);
    if (values === undefined) return undefined;
    if (!add(values)) break;
  }
  return { ...page, hasMore: page.hasMore || isCut, ageSeconds };
}
