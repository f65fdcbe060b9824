import type { Visible } from '../../platform/base/call.ts';
import { type FieldValues, type Found, isFromBefore, type StoredRecord } from '../../records/records.ts';
import { constantsOf, toCrmFields } from '../mapping/records.ts';
import type { BatchCall, CrmRequest, Permit } from '../rest/request.ts';
import { nativeIdOf } from './composite.ts';
import { byKey, createFind, keysQuery, type OperationOptions, parentIn } from './find.ts';
import type { ItemOutcome, Operation, Reconciled } from './operation.ts';
import { ownerRefusal, typeRefusal, unlessEnded, unlessRefused, valueRefusal } from './refusals.ts';
import { sendWrite, sizeOf, type Write, type Written } from './write.ts';

export interface Creation {
  /** In lower case. */
  externalId: string;
  values: FieldValues;
  /** Of the user or queue that is to own it; undefined: we do. */
  ownerId?: string | undefined;
  /** The record is wanted, with what the CRM has put into it. */
  readBack: boolean;
  /** Milliseconds since 1970: from then on it is not made any more. */
  validUntil?: number | undefined;
  /** See `CreateOptions`. */
  madeSince?: number | undefined;
  /** What its maker may see: one that may see only its own needs to be written into it. */
  visible: Visible;
}

export interface Created extends Found {
  nativeId: string;
  /** Undefined where it was not read back. */
  record?: StoredRecord | undefined;
}

/** Inserts records that carry their External ID, never upserts: an upsert that comes late would overwrite changes. */
export function createCreate(options: OperationOptions): Operation<Creation, Created> {
  const { resource } = options;
  const refusalOf = ({ visible, values }: Creation) =>
    ownerRefusal(resource, visible) ?? typeRefusal(resource) ?? valueRefusal(resource, values);
  return {
    name: 'create',
    effect: 'create',
    size: sizeOf,
    parentOf: ({ values }) => parentIn(resource, values),
    execute: (items, call, permit) =>
      unlessRefused(items, refusalOf, (accepted) =>
        unlessEnded(accepted, permit, (wanted, unusedPermit) => insert(options, wanted, call, unusedPermit)),
      ),
    // A record that was made and deleted since has freed its External ID: sent again, it would be made a second time.
    async reconcile(items, call) {
      // Nobody else's record has an External ID that was chosen for this one.
      const wanted = items.map(({ externalId: key }) => ({ key, visible: 'all' as const }));
      const finds = createFind({ ...options, withDeleted: true, isAfterLoss: true });
      const looked = await finds.execute(wanted, call);
      return looked.map((outcome, index): Reconciled<Created> => {
        if ('failure' in outcome) return outcome;
        const record = outcome.result;
        if (record === undefined || isFromBefore(record, items[index]?.madeSince)) return 'not done';
        return { result: { nativeId: record.nativeId, record, found: 'after loss' } };
      });
    },
  };
}

async function insert(
  options: OperationOptions,
  items: readonly Creation[],
  call: BatchCall,
  permit: Permit | undefined,
): Promise<ItemOutcome<Created>[]> {
  const { resource, client, toRecord } = options;
  const { outcomes, rows } = await sendWrite(client, toWrite(options, items), call, permit);
  const found = byKey(resource, rows);
  return items.map(({ readBack, externalId }, index) => {
    const row = readBack ? found.get(externalId) : undefined;
    const outcome = outcomes[index] as Written['outcomes'][number];
    return toCreated(outcome, row && toRecord(row));
  });
}

function toWrite({ client, resource }: OperationOptions, items: readonly Creation[]): Write {
  const singles = items.map(
    ({ values, externalId, ownerId }): CrmRequest => ({
      operation: 'create',
      effect: 'create',
      method: 'POST',
      path: `${client.dataPath}/sobjects/${resource.crmObject}`,
      body: {
        ...constantsOf(resource),
        ...toCrmFields(resource, { ...values, id: externalId }),
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
