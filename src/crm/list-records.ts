import type { Call } from '../platform/base/call.ts';
import { Problem } from '../platform/base/problem.ts';
import { ownerField } from '../records/created-by.ts';
import type { ListedRecord, ListQuery, RecordPage, StoredRecord } from '../records/records.ts';
import type { Resource } from '../records/resource.ts';
import { searchedFields } from '../records/search.ts';
import { queryPath, readPage } from './batching/find.ts';
import { type CrmRow, readKey, readPath, readTimestamp } from './mapping/records.ts';
import type { CrmRequest } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { type Position, pageQuery } from './soql/query.ts';
import { lacksOwner, misfitFailure, sendUsable, type UsableColumns, usedOf } from './usable-columns.ts';

/** A page with more bytes than this needs a slot for large pages. */
const largeFrom = 512 * 1024;
/** Queries at most for one list: the CRM may make the parts of its answers short. */
const maxQueries = 40;

interface ListOptions {
  resource: Resource;
  client: Pick<CrmClient, 'send' | 'dataPath' | 'permits'>;
  columns: UsableColumns;
  toRecordOf: (used: Resource) => (row: CrmRow) => StoredRecord | undefined;
}

/**
 * A page of records. It is asked for in one query and read row by row, until it is full by number or by bytes; what it
 * does not hold is not read. A page that turns out to be large while no slot is free drops what it has read,
 * waits without a call, and queries again. Throws `CrmFailure` or `Problem`.
 */
export async function listRecords(options: ListOptions, query: ListQuery, call: Call): Promise<RecordPage> {
  const reading = new PageReading(options, query, call);
  try {
    return await reading.toEnd();
  } finally {
    reading.release();
  }
}

class PageReading {
  readonly #options: ListOptions;
  readonly #query: ListQuery;
  readonly #call: Call;
  readonly #orderedBy: 'created_at' | 'updated_at';
  readonly #records: ListedRecord[] = [];
  #bytes = 0;
  #shaped = false;
  #after: Position | undefined;
  #leave: (() => void) | undefined;
  #part = newPart();

  constructor(options: ListOptions, query: ListQuery, call: Call) {
    this.#options = options;
    this.#query = query;
    this.#call = call;
    this.#orderedBy = query.updatedSince === undefined ? 'created_at' : 'updated_at';
    this.#after = query.after && { at: query.after.at, externalId: query.after.id };
  }

  readonly release = () => this.#leave?.();

  async toEnd(): Promise<RecordPage> {
    const { client } = this.#options;
    for (let queries = 0; queries < maxQueries; queries++) {
      // One more than the page holds shows whether there is a next one.
      const limit = this.#query.limit - this.#records.length + 1;
      const isComplete = await this.#ask(limit);
      const { records, bytes, rows, end } = this.#part;
      if (end === 'no slot') {
        this.#leave = await client.permits.largePage(this.#call);
        continue;
      }
      this.#records.push(...records);
      this.#bytes += bytes;
      // The CRM ends its pages where it likes: at 200 rows, where they have several long texts.
      const hasMore = end === 'full' || (!isComplete && this.#records.length === this.#query.limit);
      if (hasMore || (isComplete && rows < limit)) return { records: this.#records, hasMore };
      this.#goOn();
    }
    throw new Problem('crm_error', 'The CRM has too many records without a UUID as External ID.');
  }

  /**
   * Sends one query and takes its rows; whether the CRM has given all of them. GET, since the CRM documents no other
   * form; the URL stays far below its 16,384 bytes (values are bounded).
   */
  #ask(limit: number): Promise<boolean> {
    const { columns } = this.#options;
    return sendUsable([{ columns }], (uses) => this.#askWith(usedOf(uses, columns.resource).resource, limit));
  }

  async #askWith(resource: Resource, limit: number): Promise<boolean> {
    const { client } = this.#options;
    const { filters, search, updatedSince } = this.#query;
    const visible = this.#call.visible(resource.collection);
    if (resource.fields[ownerField] === undefined && (visible !== 'all' || filters[ownerField] !== undefined))
      throw lacksOwner(resource);
    const searched = search === undefined ? [] : searchedFields(resource);
    requireFilters(this.#options.resource, [...Object.keys(filters), ...searched]);
    const soql = pageQuery(resource, {
      filters,
      search,
      visible,
      updatedSince,
      limit,
      after: this.#after,
      shaped: this.#shaped,
    });
    const path = queryPath(client.dataPath, soql);
    const toRecord = this.#options.toRecordOf(resource);
    const takeRows = () => {
      this.#part = newPart();
      return (row: CrmRow) => this.#take(row, toRecord(row));
    };
    const request: CrmRequest = {
      operation: 'query',
      effect: 'read',
      method: 'GET',
      path,
      resource,
      takeRows,
    };
    const answer = await client.send(request, this.#call);
    return this.#part.end === undefined && readPage(answer, client.dataPath).next === undefined;
  }

  #take(row: CrmRow, record: StoredRecord | undefined): boolean {
    const json = this.#isOfPage(record) ? Buffer.from(this.#query.represent(record.values)) : undefined;
    const end = json && this.#endBefore(json.length);
    if (end !== undefined) {
      this.#part.end = end;
      return false;
    }
    this.#part.rows += 1;
    this.#part.last = placeOf(this.#options.resource, row, this.#orderedBy);
    this.#part.hasForeignRows ||= record === undefined;
    if (record === undefined || json === undefined) return true;
    const { id, [this.#orderedBy]: at } = record.values as Record<string, string>;
    this.#part.records.push({ id: id as string, at: at as string, json });
    this.#part.bytes += json.length;
    return true;
  }

  /**
   * Whether the API has the record. A key in upper case sorts otherwise than its cursor, which is in lower case: the
   * record that ended the page before must not come again, unless it has changed since.
   */
  #isOfPage(record: StoredRecord | undefined): record is StoredRecord {
    const { after } = this.#query;
    return (
      record !== undefined &&
      (record.values['id'] !== after?.id || record.values[this.#orderedBy] !== after?.at)
    );
  }

  #endBefore(length: number): 'full' | 'no slot' | undefined {
    const { limit, maxBytes } = this.#query;
    const count = this.#records.length + this.#part.records.length;
    const bytes = this.#bytes + this.#part.bytes + length;
    if (count === limit || (count > 0 && bytes > maxBytes)) return 'full';
    if (bytes <= largeFrom) return undefined;
    this.#leave ??= this.#options.client.permits.tryLargePage(this.#call);
    return this.#leave === undefined ? 'no slot' : undefined;
  }

  #goOn(): void {
    const { at, externalId = '' } = this.#part.last ?? {};
    if (at === undefined)
      throw new Problem('crm_error', "The CRM gave a response that the gateway can't use.");
    this.#after = { at, externalId };
    // An org may hold many records with keys of another kind: from here on they are left out in the CRM.
    this.#shaped ||= this.#part.hasForeignRows;
  }
}

function requireFilters({ fit }: Resource, names: readonly string[]): void {
  const [misfit] = names.flatMap((name) => fit.why('filter', name) ?? []);
  if (misfit !== undefined) throw misfitFailure(fit.refusal(misfit));
}

interface Part {
  records: ListedRecord[];
  bytes: number;
  rows: number;
  last: Partial<Position> | undefined;
  hasForeignRows: boolean;
  end: 'full' | 'no slot' | undefined;
}

function newPart(): Part {
  return { records: [], bytes: 0, rows: 0, last: undefined, hasForeignRows: false, end: undefined };
}

function placeOf(resource: Resource, row: CrmRow, orderedBy: string): Partial<Position> {
  const field = resource.fields[orderedBy];
  const at = field && readTimestamp(readPath(row, field));
  return { externalId: readKey(resource, row), ...(at !== undefined && { at }) };
}
