import type { FieldValues, RecordRef, StoredRecord } from '../../resources/records.ts';
import { type CrmRow, toCrmFields } from '../mapping/records.ts';
import type { SharedCall } from '../rest/limiter.ts';
import { byIdsQuery } from '../soql/query.ts';
import { toCollection } from './collection.ts';
import { requireSuccess } from './composite.ts';
import { sizeOf } from './creates.ts';
import type { OperationOptions } from './finds.ts';
import type { Operation, Outcome, Verdict } from './operation.ts';
import { readRows } from './rows.ts';
import { sendWrite, type WriteForm, type Written } from './writes.ts';

export interface Update {
  /** With its values as the caller read them, where it did: they tell whether an interrupted change was done. */
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
  const { resource, client, toRecord } = options;
  const form: WriteForm<Update> = {
    alone: ({ ref, values }) => ({
      operation: 'update',
      effect: 'change',
      method: 'PATCH',
      path: recordPath(options, ref),
      body: toCrmFields(resource, values),
      resource,
      addressesRecord: true,
    }),
    together: (items, requests) => ({
      method: 'PATCH',
      path: `${client.dataPath}/composite/sobjects`,
      body: toCollection(
        resource,
        items.map(({ ref }, index) => ({ id: ref.nativeId, ...requests[index]?.body })),
      ),
    }),
    readBack(items) {
      const ids = items.filter(({ readBack }) => readBack).map(({ ref }) => ref.nativeId);
      return ids.length === 0 ? undefined : byIdsQuery(resource, ids);
    },
  };
  const toUpdated = (row: CrmRow | undefined): Updated => ({ record: row && toRecord(row) });

  return {
    name: 'update',
    effect: 'change',
    size: sizeOf,
    async carryOut(items, call) {
      const written = await sendWrite(client, form, items, call);
      const found = byId(written[0]?.rows ?? []);
      return items().map(({ ref, readBack }, index) => {
        const { outcome } = written[index] as Written;
        return 'failure' in outcome
          ? outcome
          : { result: toUpdated(readBack ? found.get(ref.nativeId) : undefined) };
      });
    },
    async look(items, call) {
      const found = byId(await readByIds(options, items, call));
      return items.map((item) => {
        const row = found.get(item.ref.nativeId);
        const record = row && toRecord(row);
        return record === undefined ? 'not done' : verdictOf(item, record);
      });
    },
  };
}

function verdictOf({ ref, values }: Update, now: StoredRecord): Verdict<Updated> {
  if (hasValues(now.values, values)) return { result: { record: now } };
  // Without the time of the change nobody could tell "not yet" from "and changed again by somebody else".
  return 'values' in ref && hasValues(now.values, ref.values) ? 'not done' : 'unknown';
}

function hasValues(has: FieldValues, wanted: FieldValues): boolean {
  return Object.entries(wanted).every(([name, value]) => has[name] === value);
}

export interface Deletion {
  ref: RecordRef;
}

/** Deletes records that are addressed by the CRM's own id. */
export function createDelete(options: OperationOptions): Operation<Deletion, undefined> {
  const { resource, client } = options;
  const form: WriteForm<Deletion> = {
    alone: ({ ref }) => ({
      operation: 'delete',
      effect: 'change',
      method: 'DELETE',
      path: recordPath(options, ref),
      resource,
      addressesRecord: true,
    }),
    together: (items) => ({
      method: 'DELETE',
      path: `${client.dataPath}/composite/sobjects?ids=${items.map(({ ref }) => ref.nativeId).join(',')}&allOrNone=false`,
    }),
    readBack: () => undefined,
  };
  return {
    name: 'delete',
    effect: 'change',
    whenGone: done,
    size: () => 0,
    async carryOut(items, call) {
      const written = await sendWrite(client, form, items, call);
      return written.map(({ outcome }): Outcome<undefined> => ('failure' in outcome ? outcome : done));
    },
    async look(items, call) {
      const found = byId(await readByIds(options, items, call));
      // Gone is gone, whoever did it.
      return items.map(({ ref }) => (found.has(ref.nativeId) ? 'not done' : done));
    },
  };
}

const done = { result: undefined };

function recordPath({ client, resource }: OperationOptions, { nativeId }: RecordRef): string {
  return `${client.dataPath}/sobjects/${resource.crmObject}/${encodeURIComponent(nativeId)}`;
}

function byId(rows: readonly CrmRow[]): Map<string, CrmRow> {
  return new Map(rows.map((row) => [String(row['Id']), row]));
}

async function readByIds(
  { client, resource }: OperationOptions,
  items: readonly Deletion[],
  call: SharedCall,
): Promise<CrmRow[]> {
  const soql = byIdsQuery(
    resource,
    items.map(({ ref }) => ref.nativeId),
  );
  const path = `${client.dataPath}/query?q=${encodeURIComponent(soql)}`;
  const request = { operation: 'query', effect: 'read', method: 'GET', path, resource } as const;
  const answer = await client.sendGathered(() => request, call);
  return readRows(client, requireSuccess(answer, request), request, call);
}
