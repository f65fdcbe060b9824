import type { FieldValues, StoredRecord } from '../../resources/records.ts';
import { toCrmFields } from '../mapping/records.ts';
import { findManyQuery, findQuery } from '../soql/query.ts';
import { toCollection } from './collection.ts';
import { nativeIdOf } from './composite.ts';
import { byKey, type OperationOptions } from './finds.ts';
import type { Operation, Outcome } from './operation.ts';
import { sendWrite, type WriteForm, type Written } from './writes.ts';

export interface Creation {
  /** In lower case. */
  externalId: string;
  values: FieldValues;
  /** The record is wanted, with what the CRM has put into it. */
  readBack: boolean;
}

export interface Created {
  nativeId: string;
  /** Undefined where it was not read back. */
  record?: StoredRecord | undefined;
}

/** Inserts records that carry their External ID, never upserts: an upsert that comes late would overwrite changes. */
export function createCreate(options: OperationOptions): Operation<Creation, Created> {
  const { resource, client, toRecord } = options;
  const form: WriteForm<Creation> = {
    alone: (item) => ({
      operation: 'create',
      effect: 'create',
      method: 'POST',
      path: `${client.dataPath}/sobjects/${resource.crmObject}`,
      body: toCrmFields(resource, { ...item.values, id: item.externalId }),
      resource,
    }),
    together: (_, requests) => ({
      method: 'POST',
      path: `${client.dataPath}/composite/sobjects`,
      body: toCollection(
        resource,
        requests.map(({ body }) => body),
      ),
    }),
    readBack(items) {
      const keys = items.filter(({ readBack }) => readBack).map(({ externalId }) => externalId);
      const [key] = keys;
      if (key === undefined) return undefined;
      return keys.length === 1 ? findQuery(resource, key) : findManyQuery(resource, keys);
    },
  };
  return {
    name: 'create',
    effect: 'create',
    size: sizeOf,
    async carryOut(items, call) {
      const written = await sendWrite(client, form, items, call);
      const found = byKey(resource, written[0]?.rows ?? []);
      return items().map((item, index) => {
        const row = item.readBack ? found.get(item.externalId) : undefined;
        return outcomeOf(written[index], row && toRecord(row));
      });
    },
  };
}

function outcomeOf(written: Written | undefined, record: StoredRecord | undefined): Outcome<Created> {
  if (written === undefined) throw new Error('a write without an outcome');
  const { outcome } = written;
  if ('result' in outcome)
    return { result: { nativeId: nativeIdOf(outcome.result?.['id'], { effect: 'create' }), record } };
  // An earlier try came through after all: the record with this External ID is there, and is the result.
  if (outcome.failure.kind === 'duplicate' && record !== undefined)
    return { result: { nativeId: record.nativeId, record } };
  return outcome;
}

/** Bytes in the body, at most: UTF-16 units as UTF-8, escapes left to the reserve that the bound has. */
export function sizeOf({ values }: { values: FieldValues }): number {
  let size = 500;
  for (const value of Object.values(values)) size += 2 * (value?.length ?? 0);
  return size;
}
