import type { CrmFailure } from '../rest/failure.ts';
import type { SharedCall } from '../rest/limiter.ts';

/** What became of one item of a batch. */
export type Outcome<Result> =
  | { result: Result }
  | {
      failure: CrmFailure;
      /** The CRM refused this item and carried out the others: its own failure, not that of the call. */
      ofItem?: boolean;
      /** In company the CRM's answer leaves open what is wrong; alone it will say. */
      alone?: boolean;
    };

/** What the truth is about an item after a call of which nobody knows what it did. */
export type Verdict<Result> = Outcome<Result> | 'not done' | 'unknown';

/** One kind of work on the records of one resource, as many at once as the CRM takes. */
export interface Operation<Item, Result> {
  /** For metrics, and the name under which its calls take turns for slots. */
  readonly name: 'find' | 'create' | 'update' | 'delete';
  readonly effect: 'read' | 'create' | 'change';
  /** Bytes that an item adds to a call. */
  size(item: Item): number;
  /**
   * Carries the items out in one call: one outcome for each, in their order. `items` is asked for once the call has
   * its slot. Throws `CrmFailure` where the call failed as a whole.
   */
  carryOut(items: () => readonly Item[], call: SharedCall): Promise<Outcome<Result>[]>;
  /**
   * Looks in the CRM what a change of unknown outcome has done, item by item; for changes only, since all else may be
   * sent again. Throws `CrmFailure` where it can't be seen.
   */
  look?(items: readonly Item[], call: SharedCall): Promise<Verdict<Result>[]>;
  /** For a repeat after an unknown outcome that finds the record gone: what became of the item. */
  readonly whenGone?: Outcome<Result>;
}
