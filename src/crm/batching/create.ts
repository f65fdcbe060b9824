import type { Visible } from '../../platform/base/call.ts';
import { type FieldValues, type Found, isFromBefore, type StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import type { CrmFailure } from '../failure.ts';
import { constantsOf, toCrmFields } from '../mapping/records.ts';
import type { BatchCall, CrmRequest, Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { type UsedColumns, withoutFields } from '../usable-columns.ts';
import { nativeIdOf } from './composite.ts';
import { byKey, Find, keysQuery, parentIn } from './find.ts';
import type { ItemOutcome, Reconciled } from './operation.ts';
import { ownerRefusal, RecordOperation, typeRefusal, valueRefusal } from './record-operation.ts';
import { sendWrite, sizeOf, type Write, type Written, writtenFields } from './write.ts';

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
    const { outcomes, rows } = await sendWrite(client, toWrite(client, items, used), call, permit);
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

function toWrite(
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
