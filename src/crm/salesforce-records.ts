import type { Call } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import { isUuid } from '../base/uuid.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { FieldValues, ListQuery, RecordRef, Records, StoredRecord } from '../resources/records.ts';
import type { Resource } from '../resources/resource.ts';
import { type CrmRow, fromCrmRow, readPath, readTimestamp, toCrmFields } from './mapping/records.ts';
import { CrmFailure } from './rest/failure.ts';
import type { CrmRequest } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { findQuery, type Position, pageQuery } from './soql/query.ts';

/** Queries and further parts of answers at most for one list; a page of 200 with full details needs some. */
const maxQueries = 40;

/** The records of the CRM's objects. Gathering of reads and writes from parallel requests would stand in front. */
export function createSalesforceRecords(options: { client: CrmClient; metrics: Metrics }): Records {
  return new SalesforceRecords(options.client, options.metrics);
}

class SalesforceRecords implements Records {
  readonly #client: CrmClient;
  readonly #metrics: Metrics;

  constructor(client: CrmClient, metrics: Metrics) {
    this.#client = client;
    this.#metrics = metrics;
  }

  admit(): void {}

  /** An insert, never an upsert: an upsert that comes late would overwrite what was changed since. */
  async create(resource: Resource, externalId: string, values: FieldValues, call: Call): Promise<RecordRef> {
    try {
      const answer = await this.#client.send(
        {
          operation: 'create',
          effect: 'create',
          method: 'POST',
          path: this.#objectPath(resource),
          body: toCrmFields(resource, { ...values, id: externalId }),
          resource,
        },
        call,
      );
      return { nativeId: nativeIdOf((answer.body as { id?: unknown } | undefined)?.id, true) };
    } catch (error) {
      if (!isDuplicate(error)) throw error;
      // An earlier try came through after all, or another unique field has the value already: look which.
      return (await this.find(resource, externalId, call).catch(unsure)) ?? Promise.reject(error);
    }
  }

  async find(resource: Resource, externalId: string, call: Call): Promise<StoredRecord | undefined> {
    if (!isUuid(externalId)) return undefined;
    const { rows } = await this.#query(findQuery(resource, externalId), resource, call);
    const exact = rows.find((row) => readKey(resource, row) === externalId.toLowerCase());
    const row = exact ?? rows[0];
    return row && this.#toRecord(resource, row);
  }

  async list(resource: Resource, query: ListQuery, call: Call): Promise<StoredRecord[]> {
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

  async update(resource: Resource, ref: RecordRef, values: FieldValues, call: Call): Promise<void> {
    await this.#client.send(
      {
        operation: 'update',
        effect: 'change',
        method: 'PATCH',
        path: this.#recordPath(resource, ref),
        body: toCrmFields(resource, values),
        resource,
        addressesRecord: true,
      },
      call,
    );
  }

  async remove(resource: Resource, ref: RecordRef, call: Call): Promise<void> {
    await this.#client.send(
      {
        operation: 'delete',
        effect: 'change',
        method: 'DELETE',
        path: this.#recordPath(resource, ref),
        resource,
        addressesRecord: true,
      },
      call,
    );
  }

  /** GET, since the CRM documents no other form; the URL stays far below its 16,384 bytes (values are bounded). */
  async #query(soql: string, resource: Resource, call: Call): Promise<{ rows: CrmRow[]; complete: boolean }> {
    const path = `${this.#client.dataPath}/query?q=${encodeURIComponent(soql)}`;
    const request: CrmRequest = { operation: 'query', effect: 'read', method: 'GET', path, resource };
    const body = (await this.#client.send(request, call)).body as
      | { records?: unknown; done?: unknown }
      | undefined;
    if (!Array.isArray(body?.records)) throw unusable(false);
    return { rows: body.records as CrmRow[], complete: body.done !== false };
  }

  /**
   * The rows that the API has. A key in upper case sorts otherwise than its cursor, which is in lower case: the record
   * that ended the page before must not come again.
   */
  #toPage(resource: Resource, rows: CrmRow[], query: ListQuery): StoredRecord[] {
    const records = rows.map((row) => this.#toRecord(resource, row));
    return records.filter(
      (record) => record !== undefined && record.values['id'] !== query.after?.id,
    ) as StoredRecord[];
  }

  /** Undefined for a record that the API does not have: one without a UUID as External ID. */
  #toRecord(resource: Resource, row: CrmRow): StoredRecord | undefined {
    if (!isUuid(readKey(resource, row))) return undefined;
    return { nativeId: nativeIdOf(row['Id'], false), values: fromCrmRow(resource, row, this.#metrics) };
  }

  #objectPath(resource: Resource): string {
    return `${this.#client.dataPath}/sobjects/${resource.crmObject}`;
  }

  #recordPath(resource: Resource, ref: RecordRef): string {
    return `${this.#objectPath(resource)}/${encodeURIComponent(ref.nativeId)}`;
  }
}

/** Where nobody can look, the record may be there all the same: the caller must not take it for not written. */
function unsure(error: unknown): never {
  if (!(error instanceof Problem) || error.status < 500) throw error;
  throw new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true });
}

function isDuplicate(error: unknown): boolean {
  return error instanceof Problem && error.cause instanceof CrmFailure && error.cause.kind === 'duplicate';
}

function nativeIdOf(value: unknown, written: boolean): string {
  if (typeof value === 'string' && /^[A-Za-z0-9]{15,18}$/.test(value)) return value;
  throw unusable(written);
}

function readKey(resource: Resource, row: CrmRow): string {
  const field = resource.fields['id'];
  const key = field && readPath(row, field);
  return typeof key === 'string' ? key : '';
}

/** The place of a row in the order, with its External ID as the CRM has it, UUID or not. */
function positionOf(resource: Resource, row: CrmRow | undefined): Position {
  const field = resource.fields['created_at'];
  const createdAt = row && field && readTimestamp(readPath(row, field));
  if (row === undefined || createdAt === undefined) throw unusable(false);
  return { createdAt, externalId: readKey(resource, row) };
}

function unusable(written: boolean): Problem {
  const facts = written ? { outcomeUnknown: true } : {};
  return new Problem('crm_error', 'The CRM gave an answer that the service cannot use.', facts);
}
