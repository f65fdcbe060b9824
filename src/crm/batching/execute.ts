import { CrmFailure, type FailureKind } from '../rest/failure.ts';
import type { BatchCall } from '../rest/limiter.ts';
import type { Permit } from '../rest/request.ts';
import { withUnknownOutcome } from '../rest/retry.ts';

/** What became of one item of a batch. */
export type ItemOutcome<Result> =
  | { result: Result }
  | {
      failure: CrmFailure;
      /** The CRM refused this item and executed the others: its own failure, not that of the call. */
      ofItem?: boolean;
      /** What the CRM says of the item in a batch leaves open what is wrong; alone it will say. */
      isAmbiguous?: boolean;
    };

/** What the CRM shows of an item after a call of unknown outcome. */
export type Reconciled<Result> = ItemOutcome<Result> | 'not done' | 'unknown';

/** One operation on the records of one resource, on as many at once as the CRM takes. */
export interface Operation<Item, Result> {
  /** For metrics and the batcher's name. */
  readonly name: 'find' | 'create' | 'update' | 'delete';
  readonly effect: 'read' | 'create' | 'change';
  /** Bytes that an item adds to a call. */
  size(item: Item): number;
  /**
   * Executes a batch in one call: one outcome for each item, in their order. The first exchange uses the permit, where
   * one is given. Throws `CrmFailure` where the call failed as a whole.
   */
  execute(items: readonly Item[], call: BatchCall, permit?: Permit): Promise<ItemOutcome<Result>[]>;
  /**
   * Looks in the CRM what a change of unknown outcome has done, item by item; for changes only, since all else may be
   * sent again. Throws `CrmFailure` where it can't be seen.
   */
  reconcile?(items: readonly Item[], call: BatchCall): Promise<Reconciled<Result>[]>;
  /** For a repeat after an unknown outcome that finds the record gone: what became of the item. */
  readonly whenGone?: ItemOutcome<Result>;
}

/** How often a change is sent again after the CRM was seen not to have done it. */
const mostRepeats = 2;

/**
 * Executes a batch to the end, whatever happens to the call: one outcome for each item, in their order.
 *
 *   an item's failure is ambiguous                  it is sent alone
 *   the call took too long, or one item spoils it   it is sent in halves, down to one item
 *   a change has an unknown outcome                 it is reconciled; what is not done is sent again, in halves
 *   anything else                                   is the failure of all
 */
export async function executeBatch<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  call: BatchCall,
  permit?: Permit,
  repeatsLeft = mostRepeats,
): Promise<ItemOutcome<Result>[]> {
  try {
    const outcomes = await operation.execute(items, call, permit);
    return await resolveAmbiguous(operation, items, outcomes, call);
  } catch (error) {
    if (!(error instanceof CrmFailure)) throw error;
    if (error.outcomeUnknown && operation.reconcile !== undefined)
      return reconcile(operation, items, error, call, repeatsLeft);
    if (items.length > 1 && isHalved(error, operation)) return inHalves(operation, items, call, repeatsLeft);
    return items.map(() => ({ failure: error }));
  }
}

/** The same where another replica may have executed them: as after a call whose answer was lost. */
export async function executeAfterLoss<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  failure: CrmFailure,
  call: BatchCall,
): Promise<ItemOutcome<Result>[]> {
  if (operation.reconcile !== undefined) return reconcile(operation, items, failure, call, mostRepeats);
  const outcomes = await executeBatch(operation, items, call);
  if (operation.effect === 'read') return outcomes;
  return outcomes.map((outcome) =>
    'failure' in outcome ? { failure: withUnknownOutcome(outcome.failure) } : outcome,
  );
}

async function resolveAmbiguous<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  outcomes: ItemOutcome<Result>[],
  call: BatchCall,
): Promise<ItemOutcome<Result>[]> {
  if (items.length < 2) return outcomes;
  return Promise.all(
    outcomes.map(async (outcome, index) => {
      if (!('failure' in outcome && outcome.isAmbiguous)) return outcome;
      const [alone] = await executeBatch(operation, items.slice(index, index + 1), call);
      return alone ?? outcome;
    }),
  );
}

/** Kinds of refusal that a single record may have brought on all. */
const spoiled: readonly FailureKind[] = ['rejected', 'reference', 'duplicate', 'conflict', 'gone', 'broken'];

function isHalved(failure: CrmFailure, { effect }: Operation<never, unknown>): boolean {
  const { kind, facts } = failure;
  if (kind === 'timeout' || (kind === 'failed' && effect !== 'read')) return true;
  const { status } = facts;
  // A query has nothing that one key could spoil; but its answer may be too much at once.
  if (effect === 'read') return isTooMuch(failure);
  return spoiled.includes(kind) && status !== undefined && status >= 400 && status < 500;
}

/** The answer could not be read, whatever its status was. */
export function isTooMuch({ kind, facts }: CrmFailure): boolean {
  return kind === 'broken' && facts.status === undefined;
}

async function inHalves<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  call: BatchCall,
  repeatsLeft: number,
): Promise<ItemOutcome<Result>[]> {
  const middle = Math.ceil(items.length / 2);
  const halves = [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
  const calls = halves.map(() => ({ ...call, crmMs: 0 }));
  const outcomes = await Promise.all(
    halves.map((half, index) => executeBatch(operation, half, calls[index] ?? call, undefined, repeatsLeft)),
  );
  // They were in flight at the same time.
  call.crmMs += Math.max(...calls.map(({ crmMs }) => crmMs));
  return outcomes.flat();
}

async function reconcile<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  failure: CrmFailure,
  call: BatchCall,
  repeatsLeft: number,
): Promise<ItemOutcome<Result>[]> {
  const unknown = { failure };
  const reconciled = await operation.reconcile?.(items, call).catch(() => undefined);
  if (reconciled === undefined) return items.map(() => unknown);
  const open = items.filter((_, index) => reconciled[index] === 'not done');
  const repeated =
    open.length > 0 && repeatsLeft > 0 ? await inHalves(operation, open, call, repeatsLeft - 1) : [];
  const next = repeated.values();
  return reconciled.map((found) => {
    if (found !== 'not done') return found === 'unknown' ? unknown : found;
    const outcome: ItemOutcome<Result> = next.next().value ?? unknown;
    if (!('failure' in outcome)) return outcome;
    if (outcome.failure.kind === 'gone' && operation.whenGone !== undefined) return operation.whenGone;
    // The first call may still be at work: a repeat without a final answer leaves the outcome unknown.
    return { failure: withUnknownOutcome(outcome.failure) };
  });
}
