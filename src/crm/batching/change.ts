import { hasValues } from '../../records/field-values.ts';
import type { FieldValues, RecordRef, StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { CrmFailure, isTooMuch } from '../failure.ts';
import { type CrmRow, toCrmFields } from '../mapping/records.ts';
import type { BatchCall, CrmRequest, Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { byIdsQuery } from '../soql/query.ts';
import { sendUsable, type UsedColumns, usedOf, withKeyOnly, withoutFields } from '../usable-columns.ts';
import { parentIn, queryRows } from './find.ts';
import type { ItemOutcome, Operation, Reconciled } from './operation.ts';
import { RecordOperation, type RecordOperationOptions, valueRefusal } from './record-operation.ts';
import { sendWrite, sizeOf, type Write, type Written, writtenFields } from './write.ts';

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
    const { outcomes, rows } = await sendWrite(client, toWrite(client, items, used), call, permit);
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

function toWrite(
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
