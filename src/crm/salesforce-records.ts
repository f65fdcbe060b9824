import type { Call } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import { isUuid } from '../base/uuid.ts';
import type { Metrics } from '../observability/metrics.ts';
import type {
  FieldValues,
  ListQuery,
  ReadBack,
  RecordRef,
  Records,
  StoredRecord,
} from '../resources/records.ts';
import type { Resource } from '../resources/resource.ts';
import { nativeIdOf } from './gathering/composite.ts';
import type { OperationOptions } from './gathering/finds.ts';
import { createLanes, type Lanes } from './gathering/lanes.ts';
import { createRecordOrder } from './gathering/record-order.ts';
import { readPage } from './gathering/rows.ts';
import { type CrmRow, createRowReader, readKey, readPath, readTimestamp } from './mapping/records.ts';
import { CrmFailure } from './rest/failure.ts';
import { toProblem } from './rest/problems.ts';
import type { CrmRequest } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { type Position, pageQuery } from './soql/query.ts';

/** Queries and further parts of answers at most for one list; a page of 200 with full details needs some. */
const maxQueries = 40;

export interface SalesforceRecordsOptions {
  client: CrmClient;
  /** The longest that a call may take. */
  timeoutMs: number;
  metrics: Metrics;
}

/** What leads to the records of one resource, and how their rows are read. */
type Way = Lanes & Pick<OperationOptions, 'toRecord'>;

/** The records of the CRM's objects. Requests that come while others are under way are gathered into one call. */
export function createSalesforceRecords(options: SalesforceRecordsOptions): Records {
  return new SalesforceRecords(options);
}

class SalesforceRecords implements Records {
  readonly #options: SalesforceRecordsOptions;
  /** By the name of the resource; made with the first request for it. */
  readonly #ways = new Map<string, Way>();
  readonly #order = createRecordOrder();

  constructor(options: SalesforceRecordsOptions) {
    this.#options = options;
  }

  admit(call: Call): void {
    try {
      this.#options.client.door.check(call);
    } catch (error) {
      throw asProblem(error, undefined);
    }
  }

  create(resource: Resource, externalId: string, values: FieldValues, call: Call): Promise<RecordRef>;
  create(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    options: ReadBack,
  ): Promise<StoredRecord | undefined>;
  async create(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    { readBack }: Partial<ReadBack> = {},
  ): Promise<RecordRef | StoredRecord | undefined> {
    const key = externalId.toLowerCase();
    try {
      const creation = { externalId: key, values, readBack: readBack === true };
      const created = await this.#wayTo(resource).creates.submit(creation, call);
      if (!readBack) return created;
      return created.record ?? (await this.find(resource, key, call).catch(unsure));
    } catch (error) {
      const problem = asProblem(error, resource);
      if (!isDuplicate(problem)) throw problem;
      // An earlier try came through after all, or another unique field has the value already: look which.
      return (await this.find(resource, key, call).catch(unsure)) ?? Promise.reject(problem);
    }
  }

  async find(resource: Resource, externalId: string, call: Call): Promise<StoredRecord | undefined> {
    if (!isUuid(externalId)) return undefined;
    try {
      return await this.#wayTo(resource).finds.submit(externalId.toLowerCase(), call);
    } catch (error) {
      throw asProblem(error, resource);
    }
  }

  async list(resource: Resource, query: ListQuery, call: Call): Promise<StoredRecord[]> {
    try {
      return await this.#list(resource, query, call);
    } catch (error) {
      throw asProblem(error, resource);
    }
  }

  async #list(resource: Resource, query: ListQuery, call: Call): Promise<StoredRecord[]> {
    const found: StoredRecord[] = [];
    let after: Position | undefined = query.after && {
      createdAt: query.after.createdAt,
      externalId: query.after.id,
    };
    let { limit } = query;
    let shaped = false;
    for (let queries = 0; queries < maxQueries; queries++) {
      const soql = pageQuery(resource, { filters: query.filters, after, limit, shaped });
      const { rows, complete } = await this.#query(soql, resource, call);
      const records = this.#toPage(resource, rows, query);
      found.push(...records);
      if (found.length >= query.limit) return found.slice(0, query.limit);
      if (complete && rows.length < limit) return found;
      after = positionOf(resource, rows.at(-1));
      limit = query.limit - found.length;
      // An org may hold many records with keys of another kind: from here on they are left out in the CRM.
      shaped ||= records.length < rows.length;
    }
    throw new Problem('crm_error', 'The CRM holds too many records that have no UUID as External ID.');
  }

  update(
    resource: Resource,
    record: RecordRef | StoredRecord,
    values: FieldValues,
    call: Call,
  ): Promise<void>;
  update(
    resource: Resource,
    record: StoredRecord,
    values: FieldValues,
    call: Call,
    options: ReadBack,
  ): Promise<StoredRecord | undefined>;
  async update(
    resource: Resource,
    ref: RecordRef | StoredRecord,
    values: FieldValues,
    call: Call,
    { readBack }: Partial<ReadBack> = {},
  ): Promise<StoredRecord | undefined | void> {
    const { updates } = this.#wayTo(resource);
    try {
      const update = { ref, values, readBack: readBack === true };
      const { record } = await this.#order.run(ref.nativeId, call, () => updates.submit(update, call));
      if (!readBack || record !== undefined) return record;
    } catch (error) {
      throw asProblem(error, resource);
    }
    return this.find(resource, ('values' in ref && ref.values['id']) || '', call).catch(unsure);
  }

  async remove(resource: Resource, ref: RecordRef, call: Call): Promise<void> {
    const { deletes } = this.#wayTo(resource);
    try {
      await this.#order.run(ref.nativeId, call, () => deletes.submit({ ref }, call));
    } catch (error) {
      throw asProblem(error, resource);
    }
  }

  #wayTo(resource: Resource): Way {
    let way = this.#ways.get(resource.name);
    if (way === undefined) {
      const toRecord = createRecordReader(resource, this.#options.metrics);
      way = { ...createLanes({ ...this.#options, resource, toRecord }), toRecord };
      this.#ways.set(resource.name, way);
    }
    return way;
  }

  /** GET, since the CRM documents no other form; the URL stays far below its 16,384 bytes (values are bounded). */
  async #query(soql: string, resource: Resource, call: Call): Promise<{ rows: CrmRow[]; complete: boolean }> {
    const { client } = this.#options;
    const path = `${client.dataPath}/query?q=${encodeURIComponent(soql)}`;
    const request: CrmRequest = { operation: 'query', effect: 'read', method: 'GET', path, resource };
    const { rows, next } = readPage(await client.send(request, call), client.dataPath);
    return { rows, complete: next === undefined };
  }

  /**
   * The rows that the API has. A key in upper case sorts otherwise than its cursor, which is in lower case: the record
   * that ended the page before must not come again.
   */
  #toPage(resource: Resource, rows: CrmRow[], query: ListQuery): StoredRecord[] {
    const records = rows.map(this.#wayTo(resource).toRecord);
    return records.filter(
      (record) => record !== undefined && record.values['id'] !== query.after?.id,
    ) as StoredRecord[];
  }
}

/** The reader answers undefined for a record that the API does not have: one without a UUID as External ID. */
function createRecordReader(resource: Resource, metrics: Metrics): Way['toRecord'] {
  const readRow = createRowReader(resource, metrics);
  return (row) => {
    if (!isUuid(readKey(resource, row))) return undefined;
    return { nativeId: nativeIdOf(row['Id'], { effect: 'read' }), values: readRow(row) };
  };
}

/** Where nobody can look, the record may be there all the same: the caller must not take it for not written. */
function unsure(error: unknown): never {
  if (!(error instanceof Problem) || error.status < 500) throw error;
  throw new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true });
}

function asProblem(error: unknown, resource: Resource | undefined): unknown {
  return error instanceof CrmFailure ? toProblem(error, resource === undefined ? {} : { resource }) : error;
}

function isDuplicate(error: unknown): boolean {
  return error instanceof Problem && error.cause instanceof CrmFailure && error.cause.kind === 'duplicate';
}

/** The place of a row in the order, with its External ID as the CRM has it, UUID or not. */
function positionOf(resource: Resource, row: CrmRow | undefined): Position {
  const field = resource.fields['created_at'];
  const createdAt = row && field && readTimestamp(readPath(row, field));
  if (row === undefined || createdAt === undefined)
    throw new Problem('crm_error', 'The CRM gave an answer that the service cannot use.');
  return { createdAt, externalId: readKey(resource, row) };
}
