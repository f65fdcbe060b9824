import { CrmFailure, type FailureKind } from '../rest/failure.ts';
import type { SharedCall } from '../rest/limiter.ts';
import { unsure } from '../rest/retry.ts';
import type { Operation, Outcome } from './operation.ts';

/** How often a change is sent again after the CRM was seen not to have done it. */
const repeats = 2;

/**
 * Carries a batch out to the end, whatever happens to the call: one outcome for each item, in their order.
 *
 *   an item whose failure is not clear in company   is sent alone
 *   the call took too long, or one item spoils it   it is sent in halves, down to one item
 *   nobody knows what a change has done             the CRM is looked at; what is not done is sent again, in halves
 *   anything else                                   is the failure of all
 */
export async function carryOut<Item, Result>(
  operation: Operation<Item, Result>,
  items: () => readonly Item[],
  call: SharedCall,
  repeatsLeft = repeats,
): Promise<Outcome<Result>[]> {
  try {
    const outcomes = await operation.carryOut(items, call);
    return await settleAlone(operation, items(), outcomes, call);
  } catch (error) {
    if (!(error instanceof CrmFailure)) throw error;
    const all = items();
    if (error.outcomeUnknown && operation.look !== undefined)
      return afterUnknown(operation, all, error, call, repeatsLeft);
    if (all.length > 1 && isHalved(error, operation)) return inHalves(operation, all, call, repeatsLeft);
    return all.map(() => ({ failure: error }));
  }
}

async function settleAlone<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  outcomes: Outcome<Result>[],
  call: SharedCall,
): Promise<Outcome<Result>[]> {
  if (items.length < 2 || !outcomes.some((outcome) => 'failure' in outcome && outcome.alone)) return outcomes;
  return Promise.all(
    outcomes.map(async (outcome, index) => {
      if (!('failure' in outcome && outcome.alone)) return outcome;
      const [again] = await carryOut(operation, () => items.slice(index, index + 1), call);
      return again ?? outcome;
    }),
  );
}

/** Kinds of refusal that a single record may have brought on all. */
const spoiled: readonly FailureKind[] = ['rejected', 'reference', 'duplicate', 'conflict', 'gone', 'broken'];

function isHalved({ kind, facts }: CrmFailure, { effect }: Operation<never, unknown>): boolean {
  if (kind === 'timeout') return true;
  const { status } = facts;
  // A query has nothing that one key could spoil; but its answer may be too much at once.
  if (effect === 'read') return kind === 'broken' && status === undefined;
  return spoiled.includes(kind) && status !== undefined && status >= 400 && status < 500;
}

async function inHalves<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  call: SharedCall,
  repeatsLeft: number,
): Promise<Outcome<Result>[]> {
  const middle = Math.ceil(items.length / 2);
  const halves = [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
  const calls = halves.map(() => ({ ...call, crmMs: 0 }));
  const outcomes = await Promise.all(
    halves.map((half, index) => carryOut(operation, () => half, calls[index] ?? call, repeatsLeft)),
  );
  // They went side by side.
  call.crmMs += Math.max(...calls.map(({ crmMs }) => crmMs));
  return outcomes.flat();
}

async function afterUnknown<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  failure: CrmFailure,
  call: SharedCall,
  repeatsLeft: number,
): Promise<Outcome<Result>[]> {
  const unknown = { failure };
  const verdicts = await operation.look?.(items, call).catch(() => undefined);
  if (verdicts === undefined) return items.map(() => unknown);
  const open = items.filter((_, index) => verdicts[index] === 'not done');
  const again =
    open.length > 0 && repeatsLeft > 0 ? await inHalves(operation, open, call, repeatsLeft - 1) : [];
  const next = again.values();
  return verdicts.map((verdict) => {
    if (verdict !== 'not done') return verdict === 'unknown' ? unknown : verdict;
    const outcome: Outcome<Result> = next.next().value ?? unknown;
    if (!('failure' in outcome)) return outcome;
    if (outcome.failure.kind === 'gone' && operation.whenGone !== undefined) return operation.whenGone;
    // The first call may still be under way: a repeat that met no final word leaves the outcome unknown.
    return { failure: unsure(outcome.failure) as CrmFailure };
  });
}
