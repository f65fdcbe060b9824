import { AdaptiveSize } from '../platform/base/batching.ts';
import type { Call } from '../platform/base/call.ts';
import { monotonicMs } from '../platform/base/chance.ts';
import { isUuid } from '../platform/base/text.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import type { ChangedRecord, ChangePosition, ChangeSource, IdRange, ReadIds } from '../records/changes.ts';
import { ownerField } from '../records/created-by.ts';
import type { FieldValues } from '../records/records.ts';
import type { Field, Resource } from '../records/resource.ts';
import {
  frameDepth,
  nativeIdOf,
  readComposite,
  readTogether,
  requireSuccess,
  toComposite,
  unusable,
} from './batching/composite.ts';
import { queryPath } from './batching/find.ts';
import { pollShare } from './budget/call-queue.ts';
import { CrmFailure } from './failure.ts';
import {
  type CrmRow,
  createLinkReader,
  createRowReader,
  readKey,
  readTimestamp,
  withoutHidden,
} from './mapping/records.ts';
import type { CrmAnswer, CrmRequest } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { byIdsQuery, changesQuery, columnsOfChangesQuery, idsQuery, toSoql } from './soql/query.ts';
import {
  sendUsable,
  type UsableColumns,
  type UsedOfAll,
  usedOf,
  withFirstColumns,
} from './usable-columns.ts';

/** Rows of one query at most: more do not fit a page of the CRM. */
const mostRows = 2000;
const fewestRows = 50;
/** Characters of all records of a page; a first record may have more. */
const mostCharacters = 8 * 1024 * 1024;
/** Records with a text in several columns that are asked for at once: each may have a megabyte. */
const wholeAtOnce = 8;

interface ChangeSourceOptions {
  client: Pick<CrmClient, 'send' | 'dataPath' | 'time' | 'usage'>;
  metrics: Metrics;
  dailyCallBudget?: number | undefined;
  columnsOf: (resource: Resource) => UsableColumns;
}

type ReadRow = (
  resource: Resource,
  used: Resource,
  row: CrmRow,
) => Required<Pick<ChangedRecord, 'values' | 'links'>>;

/**
 * Changes as the CRM shows them: one Composite call with a query for each object, or several where much has changed, which
 * is metered as one. `queryAll` finds deleted records with their fields. It is one single call at a time, and alternates
 * with all others for a slot.
 */
export function createChangeSource(options: ChangeSourceOptions): ChangeSource {
  const { client, metrics, columnsOf, dailyCallBudget } = options;
  const readers = new Map<Resource, ReturnType<typeof createReaders>>();
  const createReaders = (resource: Resource) => ({
    readValues: createRowReader(resource, metrics),
    readLinks: createLinkReader(resource),
  });
  const readRow: ReadRow = (resource, used, row) => {
    const found = readers.get(resource) ?? createReaders(resource);
    readers.set(resource, found);
    const values = withoutUnknownOwner(resource, row, found.readValues(row));
    return { ...withoutHidden(resource, used)({ values }), links: found.readLinks(row) };
  };
  const windows = new ChangeWindows();
  const rows = new AdaptiveSize(fewestRows, mostRows);
  type Positions = ReadonlyMap<Resource, ChangePosition>;
  const readPage = async (positions: Positions, used: UsedOfAll, call: Call) => {
    const queriesOf = (resource: Resource) =>
      nextColumns(usedOf(used, resource).resource).length > 0 ? 2 : 1;
    const limit = rows.value;
    const reading = new PageReading(
      windows.split(positions, limit, client.time.now(), queriesOf),
      used,
      readRow,
    );
    const request = reading.request(client.dataPath, limit);
    const started = monotonicMs();
    const answer = await client.send(request, call).catch((error: unknown) => {
      if (isLate(error)) rows.halve();
      throw error;
    });
    const sentAt = client.time.now() - (monotonicMs() - started);
    rows.double();
    const { records, complete } = windows.join(reading.windows(answer, request, limit));
    const unfinished = records.filter((record) => reading.unfinished.has(record));
    const whole = await readWhole({ client, used }, unfinished, call);
    const finished = records.map((record) =>
      reading.unfinished.has(record)
        ? finish(record, usedOf(used, record.resource).resource, whole, readRow)
        : record,
    );
    return { records: finished, complete, sentAt };
  };
  return {
    get usage() {
      return client.usage;
    },
    ...(dailyCallBudget !== undefined && { leastSeconds: 86_400 / dailyCallBudget / pollShare }),
    readChanges(positions, call) {
      const named = [...positions.keys()].map((resource) => ({ columns: columnsOf(resource) }));
      return sendUsable(named, async (used) => {
        const page = await readPage(positions, used, call);
        // Nothing lay in the first windows, and too much behind them: without windows it comes first.
        const isInVain = page.records.length === 0 && page.complete.size === 0;
        return isInVain ? readPage(positions, used, call) : page;
      });
    },
    readIds: (ranges, most, call) => readIds(client, ranges, most, call),
  };
}

/**
 * Rows of records whose long text continues in further columns, by native id, with all columns. The CRM ends pages at 200
 * rows if a query selects two or more long text columns (SOQL Reference, batch size). So a page takes two queries with one
 * such column each: the first column with all other fields, and the next column. Records with text in the next column are
 * then read by id.
 */
async function readWhole(
  { client, used }: { client: ChangeSourceOptions['client']; used: UsedOfAll },
  unfinished: readonly ChangedRecord[],
  call: Call,
): Promise<Map<string, CrmRow>> {
  const rows = new Map<string, CrmRow>();
  for (const resource of new Set(unfinished.map((record) => record.resource))) {
    const ids = unfinished.filter((record) => record.resource === resource).map(({ nativeId }) => nativeId);
    for (let start = 0; start < ids.length; start += wholeAtOnce) {
      const some = ids.slice(start, start + wholeAtOnce);
      const path = queryPath(client.dataPath, toSoql(byIdsQuery(usedOf(used, resource).resource, some)));
      const take = (row: CrmRow) => rows.set(String(row['Id']), row).size > 0;
      const request = { operation: 'changes', effect: 'read', method: 'GET', path } as const;
      await client.send({ ...request, takeRows: () => take }, call);
    }
  }
  return rows;
}

function finish(
  record: ChangedRecord,
  used: Resource,
  whole: ReadonlyMap<string, CrmRow>,
  readRow: ReadRow,
): ChangedRecord {
  const row = whole.get(record.nativeId);
  if (row === undefined) return { ...record, isDeleted: true };
  const { values } = readRow(record.resource, used, row);
  return { ...record, externalId: externalIdOf(record.resource, row), values };
}

function nextColumns({ fields }: Resource): string[] {
  return Object.values(fields).flatMap(({ crm }) => crm.continuations?.slice(0, 1) ?? []);
}

async function readIds(
  client: ChangeSourceOptions['client'],
  ranges: readonly IdRange[],
  most: number,
  call: Call,
): Promise<ReadIds[]> {
  const parts = ranges.map(({ resource, ...range }) => ({
    method: 'GET' as const,
    path: queryPath(client.dataPath, idsQuery(resource, range, most)),
  }));
  const answers = await readTogether(client, parts, { operation: 'changes', records: most }, call);
  return answers.map((answer) => {
    const { isWhole } = countRows(requireSuccess(answer, { effect: 'read' }).body, most);
    const { records } = answer.body as { records: CrmRow[] };
    return { ids: records.map((row) => nativeIdOf(row['Id'], { effect: 'read' })), isWhole };
  });
}

function openFields({ fields }: Resource, row: CrmRow): Field[] {
  return Object.values(fields).filter(({ crm }) => {
    const text = row[crm.path];
    return crm.continuations !== undefined && text !== null && text !== undefined && text !== '';
  });
}

function withoutUnknownOwner({ fields }: Resource, row: CrmRow, values: FieldValues): FieldValues {
  const column = fields[ownerField]?.crm.path;
  if (column === undefined || column in row) return values;
  const { [ownerField]: _, ...known } = values;
  return known;
}

function isLate(error: unknown): boolean {
  const failure = error instanceof Error ? error.cause : undefined;
  return failure instanceof CrmFailure && failure.kind === 'timeout';
}

class PageReading {
  readonly #windows: readonly ChangeWindow[];
  readonly #used: UsedOfAll;
  readonly #readRow: ReadRow;
  readonly #withNext: readonly ChangeWindow[];
  #records: ChangedRecord[] = [];
  #ended = new Map<string, unknown>();
  readonly unfinished = new Set<ChangedRecord>();
  #characters = 0;

  constructor(windows: readonly ChangeWindow[], used: UsedOfAll, readRow: ReadRow) {
    this.#windows = windows;
    this.#used = used;
    this.#readRow = readRow;
    this.#withNext = windows.filter(
      ({ resource }) => nextColumns(usedOf(used, resource).resource).length > 0,
    );
  }

  request(dataPath: string, limit: number): CrmRequest {
    const queries = [
      ...this.#withNext.map(({ resource, ...window }) =>
        columnsOfChangesQuery(resource, nextColumns(usedOf(this.#used, resource).resource), {
          ...window,
          limit,
        }),
      ),
      ...this.#windows.map(({ resource, ...window }) =>
        changesQuery(withFirstColumns(usedOf(this.#used, resource).resource), { ...window, limit }),
      ),
    ];
    const parts = queries.map((query) => ({
      method: 'GET' as const,
      path: `${dataPath}/queryAll?q=${encodeURIComponent(query)}`,
    }));
    const request: CrmRequest = {
      operation: 'changes',
      effect: 'read',
      ...toComposite(dataPath, parts),
      // So that one that takes too long is asked for again in smaller pages, and not as it is.
      records: limit,
      frameDepth,
      takeRows: () => {
        this.#records = [];
        this.#ended.clear();
        this.unfinished.clear();
        this.#characters = 0;
        return (row) => this.#take(row);
      },
      unwrap: (answer) => {
        if (answer.body !== undefined)
          for (const part of readComposite(answer, parts.length, request)) requireSuccess(part, request);
        return answer;
      },
    };
    return request;
  }

  #takeNext(resource: Resource, row: CrmRow): boolean {
    const next = nextColumns(usedOf(this.#used, resource).resource);
    const isEnd = next.every((column) => (row[column] ?? '') === '');
    if (isEnd) this.#ended.set(String(row['Id']), row['SystemModstamp']);
    return true;
  }

  #take(row: CrmRow): boolean {
    const { type } = (row['attributes'] ?? {}) as { type?: unknown };
    const resource = this.#windows.find((window) => window.resource.crmObject === type)?.resource;
    if (resource === undefined) throw unusable({ effect: 'read' });
    if (!('IsDeleted' in row)) return this.#takeNext(resource, row);
    // If the record changed between the two queries, the first one says nothing about this text.
    const isEnd = this.#ended.get(String(row['Id'])) === row['SystemModstamp'];
    const open = isEnd ? [] : openFields(usedOf(this.#used, resource).resource, row);
    const emptied = Object.fromEntries(open.map(({ crm }) => [crm.path, null]));
    const used = usedOf(this.#used, resource).resource;
    const record = toChange(resource, row, this.#readRow(resource, used, { ...row, ...emptied }));
    const length = Object.values(record.values).reduce((sum, value) => sum + (value?.length ?? 0), 0);
    const lengthToCome = open.reduce(
      (sum, { columns }) => sum + (columns?.size ?? 0) * (columns?.count ?? 0),
      0,
    );
    this.#characters += length + lengthToCome;
    if (this.#records.length > 0 && this.#characters > mostCharacters) return false;
    this.#records.push(record);
    if (open.length > 0 && !record.isDeleted) this.unfinished.add(record);
    return true;
  }

  windows(answer: CrmAnswer, request: CrmRequest, limit: number): ReadWindow[] {
    // Where not all rows were taken, what is left of a window is not known, nor whether its query failed.
    if (answer.body === undefined) {
      return this.#windows.map((window) => ({ ...window, records: this.#recordsOf(window), isWhole: false }));
    }
    const parts = readComposite(answer, this.#withNext.length + this.#windows.length, request);
    let read = 0;
    return this.#windows.map((window, index) => {
      const { count, isWhole } = countRows(parts[this.#withNext.length + index]?.body, limit);
      read += count;
      return { ...window, records: this.#records.slice(read - count, read), isWhole };
    });
  }

  #recordsOf({ resource, position, before }: ChangeWindow): ChangedRecord[] {
    return this.#records.filter(
      (record) =>
        record.resource === resource &&
        record.stamp >= position.stamp &&
        (before === undefined || record.stamp < before),
    );
  }
}

function countRows(body: unknown, limit: number): { count: number; isWhole: boolean } {
  const { records, done } = (body ?? {}) as { records?: unknown; done?: unknown };
  if (!Array.isArray(records)) throw unusable({ effect: 'read' });
  return { count: records.length, isWhole: done !== false && records.length < limit };
}

function toChange(resource: Resource, row: CrmRow, read: ReturnType<ReadRow>): ChangedRecord {
  const stamp = readTimestamp(row['SystemModstamp']);
  if (stamp === undefined) throw unusable({ effect: 'read' });
  return {
    resource,
    nativeId: nativeIdOf(row['Id'], { effect: 'read' }),
    stamp,
    isDeleted: row['IsDeleted'] === true,
    externalId: externalIdOf(resource, row),
    ...read,
  };
}

function externalIdOf(resource: Resource, row: CrmRow): string | undefined {
  const key = readKey(resource, row);
  return isUuid(key) ? key.toLowerCase() : undefined;
}

/** Queries in a Composite call at most (Salesforce's REST guide, Composite). */
const mostQueriesOfCall = 5;
/** Target fill of a window: the windows after a full one have to be read again. */
const windowFullness = 0.8;

interface ChangeWindow {
  resource: Resource;
  position: ChangePosition;
  before?: string;
}

export interface ReadWindow extends ChangeWindow {
  records: readonly ChangedRecord[];
  isWhole: boolean;
}

/**
 * Splits what is left to read into as many queries as a call may have, since a call costs the same with one query as with
 * five. The resource of which most was changed last gets several, one behind the other in time: as wide as its last full
 * page was. Where that was too wide, the windows behind a full one are read again.
 */
export class ChangeWindows {
  /** Milliseconds that a row took, by the last full page. */
  readonly #msPerRow = new Map<Resource, number>();

  /**
   * `limit`: rows of a query at most. `now`: by the CRM's clock, in milliseconds since 1970. `queriesOf`: how many queries
   * a window of the resource needs.
   */
  split(
    positions: ReadonlyMap<Resource, ChangePosition>,
    limit: number,
    now: number,
    queriesOf: (resource: Resource) => number = () => 1,
  ): ChangeWindow[] {
    const busiest = this.#busiest(positions);
    const taken = [...positions.keys()].reduce((sum, resource) => sum + queriesOf(resource), 0);
    const spare = busiest === undefined ? 0 : Math.floor((mostQueriesOfCall - taken) / queriesOf(busiest));
    return [...positions].flatMap(([resource, position]) => {
      const widthMs = windowFullness * limit * (this.#msPerRow.get(resource) ?? 0);
      return resource === busiest && widthMs >= 1000
        ? inWindows({ resource, position }, widthMs, spare, now)
        : [{ resource, position }];
    });
  }

  /**
   * The records up to the first window of each resource that is not whole, each record once and as it was read last; and
   * the resources of which nothing is left.
   */
  join(windows: readonly ReadWindow[]): { records: ChangedRecord[]; complete: Set<Resource> } {
    const complete = new Set(windows.map(({ resource }) => resource));
    const byId = new Map<string, ChangedRecord>();
    for (const { resource, records, isWhole } of windows) {
      if (!complete.has(resource)) continue;
      for (const record of records) {
        byId.delete(record.nativeId);
        byId.set(record.nativeId, record);
      }
      if (isWhole) continue;
      complete.delete(resource);
      this.#learn(resource, records);
    }
    return { records: [...byId.values()], complete };
  }

  #busiest(positions: ReadonlyMap<Resource, ChangePosition>): Resource | undefined {
    const known = [...positions.keys()].filter((resource) => this.#msPerRow.has(resource));
    return known.sort((a, b) => (this.#msPerRow.get(a) ?? 0) - (this.#msPerRow.get(b) ?? 0))[0];
  }

  #learn(resource: Resource, records: readonly ChangedRecord[]): void {
    const [first, last] = [records[0], records.at(-1)];
    if (first && last)
      this.#msPerRow.set(resource, (Date.parse(last.stamp) - Date.parse(first.stamp)) / records.length);
    // The next call asks for it with one query: else it would ask for the same empty window again.
    else this.#msPerRow.delete(resource);
  }
}

function inWindows(
  { resource, position }: ChangeWindow,
  widthMs: number,
  spare: number,
  now: number,
): ChangeWindow[] {
  const windows: ChangeWindow[] = [];
  let from = position;
  for (let end = Date.parse(position.stamp); windows.length < spare; ) {
    end = Math.floor((end + widthMs) / 1000) * 1000;
    if (end >= now) break;
    const before = new Date(end).toISOString();
    windows.push({ resource, position: from, before });
    from = { stamp: before };
  }
  return [...windows, { resource, position: from }];
}
