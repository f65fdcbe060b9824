import type { CrmFailure } from '../rest/failure.ts';
import type { BatchCall, Permit } from '../rest/request.ts';

export type ItemOutcome<Result> =
  | { result: Result }
  | {
      failure: CrmFailure;
      /** The CRM refused this item and executed the others: its own failure, not that of the call. */
      ofItem?: boolean;
      /** The CRM's error for an item of a batch does not say what is wrong; for a single item it does. */
      isAmbiguous?: boolean;
    };

export type Reconciled<Result> = ItemOutcome<Result> | 'not done' | 'unknown';

/** One operation on the records of one resource, on as many at once as the CRM takes. */
export interface Operation<Item, Result> {
  /** For metrics and the batcher's name. */
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
  /** Outcome of a repeat after an unknown outcome that finds the record gone. */
  readonly whenGone?: ItemOutcome<Result>;
}
