import { hasValues } from '../../records/field-values.ts';
import type { FieldValues, RecordRef, StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { type CrmRow, toCrmFields } from '../mapping/records.ts';
import { CrmFailure } from '../rest/failure.ts';
import type { BatchCall, CrmRequest } from '../rest/request.ts';
import { byIdsQuery } from '../soql/query.ts';
import { isTooMuch } from './execute.ts';
import { type OperationOptions, parentIn, queryRows } from './find.ts';
import type { Operation, Reconciled } from './operation.ts';
import { unlessRefused, valueRefusal } from './refusals.ts';
import { sendWrite, sizeOf, type Write, type Written } from './write.ts';

/** What comes back is counted as this part of what is sent: the records may be long though the changes are short. */
const answerPart = 4;

export interface Update {
  /** With its values as the caller read them, where it did: they show whether an interrupted change was done. */
  ref: RecordRef | StoredRecord;
  values: FieldValues;
  /** The record is wanted as it is afterwards. */
  readBack: boolean;
}

export interface Updated {
  /** Undefined where it was not read back. */
  record?: StoredRecord | undefined;
}

/** Replaces fields of records that are addressed by the CRM's own id, so that nothing can be created. */
export function createUpdate(options: OperationOptions): Operation<Update, Updated> {
  const { client, resource, toRecord } = options;
  return {
    name: 'update',
    effect: 'change',
    size: ({ values, ref, readBack }) =>
      sizeOf({ values }) + (readBack && 'values' in ref ? sizeOf(ref) / answerPart : 0),
    parentOf: ({ values, ref }) => parentIn(resource, { ...('values' in ref && ref.values), ...values }),
    execute: (items, call, permit) =>
      unlessRefused(
        items,
        ({ values }) => valueRefusal(resource, values),
        async (accepted) => {
          const { outcomes, rows } = await sendWrite(client, toUpdateWrite(options, accepted), call, permit);
          const found = byId(rows);
          return accepted.map(({ ref, readBack }, index) => {
            const outcome = outcomes[index] as Written['outcomes'][number];
            if ('failure' in outcome) return outcome;
            const row = readBack ? found.get(ref.nativeId) : undefined;
            return { result: { record: row && toRecord(row) } };
          });
        },
      ),
    async reconcile(items, call) {
      const found = await findByIds(options, items, call);
      return items.map((item) => {
        const row = found.get(item.ref.nativeId);
        const record = row && toRecord(row);
        return record === undefined ? 'not done' : compare(resource, item, record);
      });
    },
  };
}

function toUpdateWrite(options: OperationOptions, items: readonly Update[]): Write {
  const { resource } = options;
  const singles = items.map(
    ({ ref, values }): CrmRequest => ({
      operation: 'update',
      effect: 'change',
      method: 'PATCH',
      path: recordPath(options, ref),
      body: toCrmFields(resource, values),
      resource,
      addressesRecord: true,
    }),
  );
  const wanted = nativeIdsOf(items.filter(({ readBack }) => readBack));
  const readBack = wanted.length === 0 ? undefined : byIdsQuery(resource, wanted);
  return { singles, nativeIds: nativeIdsOf(items), readBack };
}

function compare(resource: Resource, { ref, values }: Update, now: StoredRecord): Reconciled<Updated> {
  if (hasValues(resource, now.values, values)) return { result: { record: now } };
  // Without the time of the last change, "not yet done" can't be distinguished from "done, and changed again by another".
  return 'values' in ref && hasValues(resource, now.values, ref.values) ? 'not done' : 'unknown';
}

export interface Deletion {
  ref: RecordRef | StoredRecord;
}

const deleted = { result: undefined };

/** Deletes records that are addressed by the CRM's own id; the options name its key only, the other resource all its fields. */
export function createDelete(
  options: OperationOptions,
  { fields }: Pick<Resource, 'fields'>,
): Operation<Deletion, undefined> {
  return {
    name: 'delete',
    effect: 'change',
    whenGone: deleted,
    size: () => 0,
    parentOf: ({ ref }) => ('values' in ref ? parentIn({ fields }, ref.values) : undefined),
    async execute(items, call, permit) {
      const { outcomes } = await sendWrite(options.client, toDeleteWrite(options, items), call, permit);
      return outcomes.map((outcome) => ('failure' in outcome ? outcome : deleted));
    },
    async reconcile(items, call) {
      const found = await findByIds(options, items, call);
      // Gone is gone, no matter who deleted it.
      return items.map(({ ref }) => (found.has(ref.nativeId) ? 'not done' : deleted));
    },
  };
}

function toDeleteWrite(options: OperationOptions, items: readonly Deletion[]): Write {
  const singles = items.map(
    ({ ref }): CrmRequest => ({
      operation: 'delete',
      effect: 'change',
      method: 'DELETE',
      path: recordPath(options, ref),
      resource: options.resource,
      addressesRecord: true,
    }),
  );
  return { singles, nativeIds: nativeIdsOf(items) };
}

function nativeIdsOf(items: readonly Deletion[]): string[] {
  return items.map(({ ref }) => ref.nativeId);
}

function recordPath({ client, resource }: OperationOptions, { nativeId }: RecordRef): string {
  return `${client.dataPath}/sobjects/${resource.crmObject}/${encodeURIComponent(nativeId)}`;
}

function byId(rows: readonly CrmRow[]): Map<string, CrmRow> {
  return new Map(rows.map((row) => [String(row['Id']), row]));
}

/** In halves where the records are too much for one answer. */
async function findByIds(
  options: OperationOptions,
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
