import type { CrmFailure } from '../failure.ts';
import type { BatchCall, Permit } from '../rest/request.ts';

export type ItemOutcome<Result> =
  | { result: Result }
  | {
      failure: CrmFailure;
      ofItem?: boolean;
      isAmbiguous?: boolean;
    };

export type Reconciled<Result> = ItemOutcome<Result> | 'not done' | 'unknown';

export interface Operation<Item, Result> {
  readonly name: 'find' | 'create' | 'update' | 'delete' | 'together';
  readonly effect: 'read' | 'create' | 'change';
  /** Bytes that an item adds to a call. */
  size(item: Item): number;
  /** Key of the record that the CRM locks while it writes the item: the member; undefined where it locks none, or it is not known. */
  parentOf?(item: Item): string | undefined;
  /**
   * Executes a batch in one call: one outcome for each item, in their order. The first exchange uses the permit, where
   * one is given. Throws `CrmFailure` where the call failed as a whole.
   */
  execute(items: readonly Item[], call: BatchCall, permit?: Permit): Promise<ItemOutcome<Result>[]>;
  /**
   * Looks in the CRM what a write of unknown outcome has done, item by item; a read is simply sent again. Throws
   * `CrmFailure` where it can't be seen.
   */
  reconcile?(items: readonly Item[], call: BatchCall): Promise<Reconciled<Result>[]>;
  readonly whenGone?: ItemOutcome<Result>;
}
