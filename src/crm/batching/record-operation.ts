import type { Visible } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { splitText } from '../../platform/base/text.ts';
import { ownerField } from '../../records/created-by.ts';
import { detailsTooLarge } from '../../records/field-values.ts';
import type { FieldValues, StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { CrmFailure } from '../failure.ts';
import type { CrmRow } from '../mapping/records.ts';
import type { BatchCall, Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import {
  isLacking,
  lacksOwner,
  misfitFailure,
  type UsableColumns,
  type UsedColumns,
} from '../usable-columns.ts';
import type { ItemOutcome, Operation } from './operation.ts';

export interface RecordOperationOptions {
  client: Pick<CrmClient, 'execute' | 'dataPath' | 'writeHeaders'>;
  columns: UsableColumns;
  /** Rows with the columns of `used` as the port shows them; undefined for one that the API does not have. */
  toRecordOf: (used: Resource) => (row: CrmRow) => StoredRecord | undefined;
}

/**
 * An operation on the records of one resource. Items that are refused before they are sent disturb nobody. Those that the CRM
 * refuses for a column that it does not have are sent again without it, and only they: the others were executed.
 */
export abstract class RecordOperation<Item, Result> implements Operation<Item, Result> {
  abstract readonly name: Operation<Item, Result>['name'];
  abstract readonly effect: Operation<Item, Result>['effect'];
  protected readonly options: RecordOperationOptions;

  constructor(options: RecordOperationOptions) {
    this.options = options;
  }

  abstract size(item: Item): number;

  /** Sends items in one call, by the resource with the columns that it may name. Throws `CrmFailure` where it fails as a whole. */
  protected abstract send(
    items: readonly Item[],
    used: UsedColumns,
    call: BatchCall,
    permit: Permit | undefined,
  ): Promise<ItemOutcome<Result>[]>;

  protected namesOf(_items: readonly Item[]): 'all' | readonly string[] {
    return 'all';
  }

  protected refusalOf(_item: Item, _resource: Resource): CrmFailure | undefined {
    return undefined;
  }

  /** Milliseconds since 1970 from which on an item is not wanted any more. */
  protected endOf(_item: Item): number | undefined {
    return undefined;
  }

  async execute(items: readonly Item[], call: BatchCall, permit?: Permit): Promise<ItemOutcome<Result>[]> {
    const { columns } = this.options;
    const outcomes: ItemOutcome<Result>[] = [];
    let open = [...items.keys()];
    columns.check();
    for (let given = permit; ; given = undefined) {
      const sent = open.map((index) => items[index] as Item);
      const used = columns.use(this.namesOf(sent));
      let refused: CrmFailure | undefined;
      try {
        const found = await this.#sendAccepted(sent, used, call, given);
        for (const [at, index] of open.entries()) outcomes[index] = found[at] as ItemOutcome<Result>;
        open = open.filter((index) => {
          const failure = failureIn(outcomes[index]);
          return failure !== undefined && isLacking(failure, used);
        });
        refused = open[0] === undefined ? undefined : failureIn(outcomes[open[0]]);
      } catch (error) {
        if (!(error instanceof CrmFailure)) throw error;
        refused = error;
      }
      if (refused === undefined) {
        columns.confirm(used);
        return outcomes;
      }
      if (columns.learnFrom(refused, used)) continue;
      if (open.length === items.length) throw refused;
      // The others were executed.
      for (const index of open) outcomes[index] = { failure: refused };
      return outcomes;
    }
  }

  /**
   * Sends those items that are not refused and still wanted at this moment; the others fail. Where one ends before the call is
   * sent, the rest goes in another call.
   */
  async #sendAccepted(
    items: readonly Item[],
    used: UsedColumns,
    call: BatchCall,
    permit: Permit | undefined,
  ): Promise<ItemOutcome<Result>[]> {
    for (let given = permit; ; given = undefined) {
      const refusals = items.map((item) => this.refusalOf(item, used.resource) ?? this.#endRefusal(item));
      const accepted = items.filter((_, index) => refusals[index] === undefined);
      try {
        const found = accepted.length === 0 ? [] : await this.send(accepted, used, call, given);
        const next = found.values();
        return refusals.map((failure) =>
          failure ? { failure, ofItem: true } : (next.next().value as ItemOutcome<Result>),
        );
      } catch (error) {
        const isUndone = error instanceof CrmFailure && !error.outcomeUnknown;
        if (!isUndone || accepted.every((item) => this.#endRefusal(item) === undefined)) throw error;
      }
    }
  }

  #endRefusal(item: Item): CrmFailure | undefined {
    const end = this.endOf(item);
    return end !== undefined && wallMs() >= end ? new CrmFailure('ended', 'an offer has ended') : undefined;
  }
}

function failureIn(outcome: ItemOutcome<unknown> | undefined): CrmFailure | undefined {
  return outcome && 'failure' in outcome ? outcome.failure : undefined;
}

export function ownerRefusal(resource: Resource, visible: Visible): CrmFailure | undefined {
  const isKnown = visible === 'all' || resource.fields[ownerField] !== undefined;
  return isKnown ? undefined : lacksOwner(resource);
}

export function typeRefusal({ fit, constants = {} }: Resource): CrmFailure | undefined {
  for (const [column, value] of Object.entries(constants)) {
    if (typeof value !== 'object' || fit.recordTypeId(value.recordType) !== undefined) continue;
    const problem = "has a record type that isn't known before the CRM was asked";
    return misfitFailure(
      fit.refusal(fit.whyRefused('create', [column]) ?? { kind: 'mismatch', column, problem, needs: [] }),
    );
  }
  return undefined;
}

export function valueRefusal(resource: Resource, values: FieldValues): CrmFailure | undefined {
  const { fit } = resource;
  const misfit = fit.isWhole
    ? undefined
    : Object.keys(values).flatMap((name) => fit.why('write', name) ?? [])[0];
  return misfit ? misfitFailure(fit.refusal(misfit)) : textRefusal(resource, values);
}

function textRefusal({ fields, fit }: Resource, values: FieldValues): CrmFailure | undefined {
  for (const [name, value] of Object.entries(values)) {
    const columns = fields[name]?.columns;
    if (!columns || !value || splitText(value, columns) !== undefined) continue;
    const problem = detailsTooLarge(`#/${name}`, value.length, columns, fit);
    return new CrmFailure('rejected', problem.message, { problem });
  }
  return undefined;
}
