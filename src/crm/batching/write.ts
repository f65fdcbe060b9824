import type { Visible } from '../../platform/base/call.ts';
import { hasValues } from '../../records/field-values.ts';
import {
  type FieldValues,
  type Found,
  isFromBefore,
  type RecordRef,
  type StoredRecord,
} from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { CrmFailure, isTooMuch } from '../failure.ts';
import { type CrmRow, constantsOf, toCrmFields } from '../mapping/records.ts';
import { failureOf } from '../rest/errors.ts';
import {
  type BatchCall,
  type CrmAnswer,
  type CrmRequest,
  isSuccess,
  type Part,
  type Permit,
} from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { byIdsQuery, type RowsQuery } from '../soql/query.ts';
import { sendUsable, type UsedColumns, usedOf, withKeyOnly, withoutFields } from '../usable-columns.ts';
import { nativeIdOf, readCollection, readComposite, requireSuccess, toComposite } from './composite.ts';
import { byKey, Find, keysQuery, parentIn, queryRows, readPage, toPart } from './find.ts';
import type { ItemOutcome, Operation, Reconciled } from './operation.ts';
import {
  ownerRefusal,
  RecordOperation,
  type RecordOperationOptions,
  typeRefusal,
  valueRefusal,
} from './record-operation.ts';

export interface Creation {
  externalId: string;
  values: FieldValues;
  /** Id of the user or queue that is to own it; undefined: the integration user. */
  ownerId?: string | undefined;
  readBack: boolean;
  /** Milliseconds since 1970: from then on it is not made any more. */
  validUntil?: number | undefined;
  madeSince?: number | undefined;
  visible: Visible;
}

export interface Created extends Found {
  nativeId: string;
  /** Undefined where it was not read back. */
  record?: StoredRecord | undefined;
}

/** Inserts records that carry their External ID, never upserts: an upsert that comes late would overwrite changes. */
export class Create extends RecordOperation<Creation, Created> {
  readonly name = 'create';
  readonly effect = 'create';

  size(item: Creation): number {
    return sizeOf(item);
  }

  parentOf({ values }: Creation): string | undefined {
    return parentIn(this.options.columns.resource, values);
  }

  protected override namesOf(items: readonly Creation[]): 'all' | readonly string[] {
    return writtenFields(items);
  }

  protected override refusalOf({ visible, values }: Creation, resource: Resource): CrmFailure | undefined {
    return ownerRefusal(resource, visible) ?? typeRefusal(resource) ?? valueRefusal(resource, values);
  }

  protected override endOf({ validUntil }: Creation): number | undefined {
    return validUntil;
  }

  protected async send(
    items: readonly Creation[],
    used: UsedColumns,
    call: BatchCall,
    permit: Permit | undefined,
  ): Promise<ItemOutcome<Created>[]> {
    const { client, toRecordOf } = this.options;
    const { resource } = used;
    const { outcomes, rows } = await sendWrite(client, toCreation(client, items, used), call, permit);
    const [found, toRecord] = [byKey(resource, rows), toRecordOf(resource)];
    return items.map(({ readBack, externalId }, index) => {
      const row = readBack ? found.get(externalId) : undefined;
      const outcome = outcomes[index] as Written['outcomes'][number];
      return toCreated(outcome, row && toRecord(row));
    });
  }

  /** A record that was made and deleted since has freed its External ID: sent again, it would be made a second time. */
  async reconcile(items: readonly Creation[], call: BatchCall): Promise<Reconciled<Created>[]> {
    // Nobody else's record has an External ID that was chosen for this one.
    const wanted = items.map(({ externalId: key }) => ({ key, visible: 'all' as const }));
    const finds = new Find({ ...this.options, withDeleted: true, isAfterLoss: true });
    const looked = await finds.execute(wanted, call);
    return looked.map((outcome, index): Reconciled<Created> => {
      if ('failure' in outcome) return outcome;
      const record = outcome.result;
      if (record === undefined || isFromBefore(record, items[index]?.madeSince)) return 'not done';
      return { result: { nativeId: record.nativeId, record, found: 'after loss' } };
    });
  }
}

function toCreation(
  { dataPath }: Pick<CrmClient, 'dataPath'>,
  items: readonly Creation[],
  { resource, leftOut }: UsedColumns,
): Write {
  const singles = items.map(
    ({ values, externalId, ownerId }): CrmRequest => ({
      operation: 'create',
      effect: 'create',
      method: 'POST',
      path: `${dataPath}/sobjects/${resource.crmObject}`,
      body: {
        ...constantsOf(resource),
        ...toCrmFields(resource, { ...withoutFields(values, leftOut), id: externalId }),
        ...(ownerId !== undefined && { OwnerId: ownerId }),
      },
      resource,
    }),
  );
  const keys = items.filter(({ readBack }) => readBack).map(({ externalId }) => externalId);
  const ends = items.map(({ validUntil = Number.POSITIVE_INFINITY }) => validUntil);
  return {
    singles,
    readBack: keys.length === 0 ? undefined : keysQuery(resource, keys),
    notAfter: Math.min(...ends),
  };
}

function toCreated(
  outcome: Written['outcomes'][number],
  record: StoredRecord | undefined,
): ItemOutcome<Created> {
  if ('result' in outcome)
    return { result: { nativeId: nativeIdOf(outcome.result?.['id'], { effect: 'create' }), record } };
  // An earlier try came through after all: the record with this External ID is there, and is the result.
  if (outcome.failure.kind === 'duplicate' && record !== undefined)
    return { result: { nativeId: record.nativeId, record, found: 'there' } };
  return outcome;
}

const answerPart = 4;

export interface Update {
  ref: RecordRef | StoredRecord;
  values: FieldValues;
  readBack: boolean;
}

export interface Updated {
  /** Undefined where it was not read back. */
  record?: StoredRecord | undefined;
}

export class Change extends RecordOperation<Update, Updated> {
  readonly name = 'update';
  readonly effect = 'change';

  size({ values, ref, readBack }: Update): number {
    return sizeOf({ values }) + (readBack && 'values' in ref ? sizeOf(ref) / answerPart : 0);
  }

  parentOf({ values, ref }: Update): string | undefined {
    return parentIn(this.options.columns.resource, { ...('values' in ref && ref.values), ...values });
  }

  protected override namesOf(items: readonly Update[]): 'all' | readonly string[] {
    return writtenFields(items);
  }

  protected override refusalOf({ values }: Update, resource: Resource): CrmFailure | undefined {
    return valueRefusal(resource, values);
  }

  protected async send(
    items: readonly Update[],
    used: UsedColumns,
    call: BatchCall,
    permit: Permit | undefined,
  ): Promise<ItemOutcome<Updated>[]> {
    const { client, toRecordOf } = this.options;
    const { outcomes, rows } = await sendWrite(client, toChange(client, items, used), call, permit);
    const [found, toRecord] = [byId(rows), toRecordOf(used.resource)];
    return items.map(({ ref, readBack }, index) => {
      const outcome = outcomes[index] as Written['outcomes'][number];
      if ('failure' in outcome) return outcome;
      const row = readBack ? found.get(ref.nativeId) : undefined;
      return { result: { record: row && toRecord(row) } };
    });
  }

  async reconcile(items: readonly Update[], call: BatchCall): Promise<Reconciled<Updated>[]> {
    const { client, columns, toRecordOf } = this.options;
    return sendUsable([{ columns }], async (uses) => {
      const used = usedOf(uses, columns.resource);
      const found = await findByIds({ client, resource: used.resource }, items, call);
      const toRecord = toRecordOf(used.resource);
      return items.map((item) => {
        const row = found.get(item.ref.nativeId);
        const record = row && toRecord(row);
        return record === undefined ? 'not done' : compare(item, record, used);
      });
    });
  }
}

function toChange(
  { dataPath }: Pick<CrmClient, 'dataPath'>,
  items: readonly Update[],
  { resource, leftOut }: UsedColumns,
): Write {
  const singles = items.map(
    ({ ref, values }): CrmRequest => ({
      operation: 'update',
      effect: 'change',
      method: 'PATCH',
      path: recordPath(dataPath, resource, ref),
      body: toCrmFields(resource, withoutFields(values, leftOut)),
      resource,
      addressesRecord: true,
    }),
  );
  const wanted = nativeIdsOf(items.filter(({ readBack }) => readBack));
  const readBack = wanted.length === 0 ? undefined : byIdsQuery(resource, wanted);
  return { singles, nativeIds: nativeIdsOf(items), readBack };
}

function compare(
  { ref, values: given }: Update,
  now: StoredRecord,
  { resource, leftOut }: UsedColumns,
): Reconciled<Updated> {
  const values = withoutFields(given, leftOut);
  if (hasValues(resource, now.values, values)) return { result: { record: now } };
  // Without the time of the last change, "not yet done" can't be distinguished from "done, and changed again by another".
  return 'values' in ref && hasValues(resource, now.values, ref.values) ? 'not done' : 'unknown';
}

export interface Deletion {
  ref: RecordRef | StoredRecord;
}

const deleted = { result: undefined };

export class Delete implements Operation<Deletion, undefined> {
  readonly name = 'delete';
  readonly effect = 'change';
  readonly whenGone = deleted;
  readonly #client: RecordOperationOptions['client'];
  readonly #resource: Resource;

  constructor({ client, columns }: RecordOperationOptions) {
    this.#client = client;
    this.#resource = columns.resource;
  }

  size(): number {
    return 0;
  }

  parentOf({ ref }: Deletion): string | undefined {
    return 'values' in ref ? parentIn(this.#resource, ref.values) : undefined;
  }

  async execute(items: readonly Deletion[], call: BatchCall, permit?: Permit) {
    const singles = items.map(
      ({ ref }): CrmRequest => ({
        operation: 'delete',
        effect: 'change',
        method: 'DELETE',
        path: recordPath(this.#client.dataPath, this.#resource, ref),
        resource: this.#resource,
        addressesRecord: true,
      }),
    );
    const write = { singles, nativeIds: nativeIdsOf(items) };
    const { outcomes } = await sendWrite(this.#client, write, call, permit);
    return outcomes.map((outcome) => ('failure' in outcome ? outcome : deleted));
  }

  async reconcile(items: readonly Deletion[], call: BatchCall): Promise<Reconciled<undefined>[]> {
    const found = await findByIds(
      { client: this.#client, resource: withKeyOnly(this.#resource) },
      items,
      call,
    );
    // Gone is gone, no matter who deleted it.
    return items.map(({ ref }) => (found.has(ref.nativeId) ? 'not done' : deleted));
  }
}

function nativeIdsOf(items: readonly Deletion[]): string[] {
  return items.map(({ ref }) => ref.nativeId);
}

function recordPath(dataPath: string, { crmObject }: Resource, { nativeId }: RecordRef): string {
  return `${dataPath}/sobjects/${crmObject}/${encodeURIComponent(nativeId)}`;
}

function byId(rows: readonly CrmRow[]): Map<string, CrmRow> {
  return new Map(rows.map((row) => [String(row['Id']), row]));
}

async function findByIds(
  options: { client: RecordOperationOptions['client']; resource: Resource },
  items: readonly Deletion[],
  call: BatchCall,
): Promise<Map<string, CrmRow>> {
  const query = { ...byIdsQuery(options.resource, nativeIdsOf(items)), records: 1 };
  try {
    return byId(await queryRows({ ...options, isAfterLoss: true }, query, call));
  } catch (error) {
    if (items.length < 2 || !(error instanceof CrmFailure) || !isTooMuch(error)) throw error;
    const middle = Math.ceil(items.length / 2);
    const found = await findByIds(options, items.slice(0, middle), call);
    return new Map([...found, ...(await findByIds(options, items.slice(middle), call))]);
  }
}

interface Write {
  singles: readonly CrmRequest[];
  nativeIds?: readonly string[];
  readBack?: RowsQuery | undefined;
  notAfter?: number | undefined;
}

interface Written {
  outcomes: ItemOutcome<Readonly<Record<string, unknown>> | undefined>[];
  rows: readonly CrmRow[];
}

/**
 * Sends a batch of writes in one metered call, and reads them back in the same one: a Composite call does both in order.
 * Throws `CrmFailure` where the call failed as a whole.
 */
async function sendWrite(
  client: Pick<CrmClient, 'execute' | 'dataPath' | 'writeHeaders'>,
  write: Write,
  call: BatchCall,
  permit?: Permit,
): Promise<Written> {
  const { singles, readBack } = write;
  const [single] = singles;
  if (single === undefined) throw new Error('a write without items');
  const request = toRequest(client, write, single);
  const answer = await client.execute(request, call, permit);
  const [written = answer, read] = readBack === undefined ? [] : readComposite(answer, 2, request);
  return {
    outcomes:
      singles.length === 1
        ? [readSingle(written, single)]
        : readCollection(requireSuccess(written, request), singles, request),
    rows: read === undefined ? [] : readBackOf(read, client.dataPath),
  };
}

function toRequest(
  { dataPath, writeHeaders }: Pick<CrmClient, 'dataPath' | 'writeHeaders'>,
  write: Write,
  single: CrmRequest,
): CrmRequest {
  const { operation, effect, resource } = single;
  const { readBack, notAfter } = write;
  const records = write.singles.length;
  if (records === 1 && readBack === undefined) return { ...single, records, notAfter };
  const { method, path, body } = records === 1 ? single : toCollection(dataPath, write, single);
  const part = { method, path, ...(body && { body }) };
  const request = { operation, effect, records, notAfter, ...(resource && { resource }), ...part };
  if (readBack === undefined) return request;
  return {
    ...request,
    ...toComposite(dataPath, [{ ...part, httpHeaders: writeHeaders }, toPart(dataPath, readBack)]),
    // A write that failed inside the call has failed as if it had been sent by itself.
    unwrap(answer) {
      const [written] = readComposite(answer, 2, request);
      if (written === undefined || isSuccess(written)) return answer;
      const failure = failureOf(written, records === 1 ? single : request);
      if (written.status >= 500 || failure.kind === 'locked') throw failure;
      return answer;
    },
  };
}

function toCollection(
  dataPath: string,
  { singles, nativeIds }: Write,
  { method, resource }: CrmRequest,
): Part {
  const path = `${dataPath}/composite/sobjects`;
  if (method === 'DELETE') return { method, path: `${path}?ids=${nativeIds?.join(',')}&allOrNone=false` };
  const attributes = { type: resource?.crmObject };
  const records = singles.map(({ body }, index) => ({
    attributes,
    ...(nativeIds && { id: nativeIds[index] }),
    ...body,
  }));
  return { method, path, body: { allOrNone: false, records } };
}

function readSingle(answer: CrmAnswer, request: CrmRequest): Written['outcomes'][number] {
  try {
    const { body } = requireSuccess(answer, request);
    const isObject = typeof body === 'object' && body !== null;
    return { result: isObject ? (body as Record<string, unknown>) : undefined };
  } catch (error) {
    if (error instanceof CrmFailure) return { failure: error, ofItem: true };
    throw error;
  }
}

/** A page that is not whole is enough: a record that is not on it is looked up alone. */
function readBackOf(answer: CrmAnswer, dataPath: string): CrmRow[] {
  if (!isSuccess(answer)) return [];
  try {
    return readPage(answer, dataPath).rows;
  } catch {
    return [];
  }
}

function writtenFields(
  items: readonly { values: FieldValues; readBack: boolean }[],
): 'all' | readonly string[] {
  if (items.some(({ readBack }) => readBack)) return 'all';
  return items.flatMap(({ values }) => Object.keys(values));
}

/** Bytes in the body, at most: UTF-16 units as UTF-8, escapes left to the reserve that the bound has. */
function sizeOf({ values }: { values: FieldValues }): number {
  let size = 500;
  for (const value of Object.values(values)) size += 2 * (value?.length ?? 0);
  return size;
}
