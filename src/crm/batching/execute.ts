import { isAlone } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import { CrmFailure, type FailureKind, isCertainlyUnsent } from '../rest/failure.ts';
import type { BatchCall, Permit } from '../rest/request.ts';
import { isOfRecords, withUnknownOutcome } from '../rest/retry.ts';
import type { ItemOutcome, Operation } from './operation.ts';
import { splitUp, type Verdict } from './split.ts';

/** What else a batch needs, and who hears of what happens to it. */
export interface BatchOptions<Result> {
  /** For the first exchange. */
  permit?: Permit | undefined;
  /** The consumer of an item. */
  consumerOf?: ((item: unknown) => string | undefined) | undefined;
  /** Takes the outcome of an item as soon as it is known, by its index; all of them are returned as well. */
  onOutcome?: ((index: number, outcome: ItemOutcome<Result>) => void) | undefined;
  /** Called where the batch is sent again in parts. */
  onSplit?: () => void;
  /** Takes how many records passed together of those that were too many for the object. */
  onSize?: (records: number, of: number) => void;
  /** Waits before what may pass is sent again, for so many times by now; false where it may not be sent once more. */
  pause?: ((failure: CrmFailure, tried?: number) => Promise<boolean>) | undefined;
}

/** How a batch, or a part of one, is executed. */
interface Run<Item, Result> extends Omit<BatchOptions<Result>, 'permit'> {
  operation: Operation<Item, Result>;
  call: BatchCall;
  repeatsLeft: number;
  /** A look-up after an exception of the CRM showed that nothing was done; the same holds for further exceptions. */
  isRolledBack?: boolean;
}

/** How often a write is sent again after the CRM was seen not to have done it. */
const mostRepeats = 2;

/**
 * Executes a batch to the end, whatever happens to the call: one outcome for each item, in their order.
 *
 *   an item's failure is ambiguous                  it is sent alone
 *   another item may be at fault                    those that are refused are sent in parts, see `split.ts`
 *   a write has an unknown outcome                  it is reconciled; what is not done is sent again, in halves
 *   a read took too long                            it is sent in halves, down to one item
 *   anything else                                   is the failure of all
 */
export function executeBatch<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  call: BatchCall,
  { permit, ...options }: BatchOptions<Result> = {},
): Promise<ItemOutcome<Result>[]> {
  return execute(items, { operation, call, repeatsLeft: mostRepeats, ...options }, permit);
}

/** Executes a batch that another replica may have executed: as after a call whose answer was lost. */
export function executeAfterLoss<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  failure: CrmFailure,
  call: BatchCall,
  options: Omit<BatchOptions<Result>, 'permit'>,
): Promise<ItemOutcome<Result>[]> {
  const run = { operation, call, repeatsLeft: mostRepeats, ...options };
  if (operation.reconcile === undefined) return execute(items, run);
  // It is not the CRM that failed.
  return reconcile(items, failure, { ...run, pause: undefined });
}

async function execute<Item, Result>(
  items: readonly Item[],
  run: Run<Item, Result>,
  permit?: Permit,
): Promise<ItemOutcome<Result>[]> {
  const { operation, call } = run;
  let verdicts: Verdict<Result>[];
  try {
    nameSharers(items, run);
    const outcomes = await operation.execute(items, call, permit);
    // As in nearly all calls.
    if (outcomes.every((outcome) => 'result' in outcome)) return outcomes;
    verdicts = readOutcomes(outcomes);
  } catch (error) {
    if (!(error instanceof CrmFailure)) throw error;
    return afterFailure(items, error, run);
  }
  const isSettled = items.length < 2 || verdicts.every(({ again }) => again === undefined);
  return isSettled ? verdicts.map(({ outcome }) => outcome) : split(items, verdicts, run);
}

/** Says for whom the next call is: parts of a batch are not for all of its consumers. */
function nameSharers<Item, Result>(items: readonly Item[], { call, consumerOf }: Run<Item, Result>): void {
  if (consumerOf !== undefined) call.sharers = items.map(consumerOf);
}

/** Goes on after a call that failed as a whole. */
async function afterFailure<Item, Result>(
  items: readonly Item[],
  error: CrmFailure,
  run: Run<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  const { operation, call } = run;
  if (error.outcomeUnknown && operation.reconcile !== undefined && !isAlone(call))
    return reconcile(items, error, run);
  if (items.length > 1 && isOfOne(error, operation)) return split(items, sameForAll(items, error), run);
  if (items.length > 1 && isTooMuchAtOnce(error)) return inHalves(items, run);
  return items.map(() => ({ failure: error }));
}

/** Which of the outcomes of one call are the last word. */
function readOutcomes<Result>(outcomes: readonly ItemOutcome<Result>[]): Verdict<Result>[] {
  const failures = outcomes.filter((outcome) => 'failure' in outcome);
  const isOneMoreRefused = failures.some(({ failure }) => failure.kind !== 'duplicate');
  return outcomes.map((outcome) => {
    if (!('failure' in outcome) || outcome.ofItem !== true) return { outcome };
    if (outcome.isAmbiguous) return { outcome, again: 'alone' };
    const { kind, facts } = outcome.failure;
    // The duplicate may be a record of this batch that was not created.
    const isOthers = facts.mayBeOthers || (kind === 'duplicate' && isOneMoreRefused);
    return isOthers ? { outcome, again: 'parts' } : { outcome };
  });
}

function sameForAll(items: readonly unknown[], failure: CrmFailure): Verdict<never>[] {
  return items.map(() => ({ outcome: { failure }, again: 'parts' }));
}

/** Sends those again that another item may have failed, until each has an outcome of its own. */
async function split<Item, Result>(
  items: readonly Item[],
  verdicts: readonly Verdict<Result>[],
  run: Run<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  const { call, onOutcome, onSplit, onSize, pause } = run;
  const outcomes: ItemOutcome<Result>[] = [];
  const startedAt = monotonicMs();
  onSplit?.();
  // Once a part has waited for a call of the budget as long as there was time, there is none for any other part.
  let lacked: CrmFailure | undefined;
  const passedTogether = await splitUp(items, verdicts, {
    async send(part) {
      const unsent = lacked;
      if (unsent !== undefined) return part.map(() => ({ outcome: { failure: unsent } }));
      const found = await sendPart(part, { ...run, call: { ...call } });
      lacked ??= found.map(({ outcome }) => 'failure' in outcome && outcome.failure).find(isOfBudget);
      return found;
    },
    settle(index, outcome) {
      outcomes[index] = outcome;
      onOutcome?.(index, outcome);
    },
    pause,
  });
  // Parts are in flight at the same time.
  call.crmMs += monotonicMs() - startedAt;
  if (passedTogether !== undefined) onSize?.(passedTogether, items.length);
  return outcomes;
}

function isOfBudget(failure: CrmFailure | false): failure is CrmFailure {
  return failure !== false && failure.kind === 'budget_exhausted' && isCertainlyUnsent(failure);
}

/** One call with a part of a batch, and what must follow it at once. */
async function sendPart<Item, Result>(
  part: readonly Item[],
  run: Run<Item, Result>,
): Promise<Verdict<Result>[]> {
  const { operation, call, isRolledBack = false, pause, consumerOf } = run;
  try {
    nameSharers(part, run);
    return readOutcomes(await operation.execute(part, call));
  } catch (error) {
    if (!(error instanceof CrmFailure)) throw error;
    const isKnown = !error.outcomeUnknown || (isRolledBack && isOfRecords(error));
    if (isKnown && isOfOne(error, operation)) return sameForAll(part, error);
    // It was sent several times already.
    const repeatsLeft = isRolledBack ? 0 : 1;
    const outcomes = await afterFailure(part, error, { operation, call, repeatsLeft, pause, consumerOf });
    return outcomes.map((outcome) => ({ outcome }));
  }
}

/** Kinds of refusal that a single record may have brought on all. */
const spoiled: readonly FailureKind[] = ['rejected', 'reference', 'duplicate', 'conflict', 'gone', 'broken'];

/** Whether the failure of a call may be the fault of one of its records. A query has nothing that one key could spoil. */
function isOfOne(failure: CrmFailure, { effect }: Operation<never, unknown>): boolean {
  const { kind, facts } = failure;
  if (effect === 'read') return false;
  if (kind === 'failed' || kind === 'locked') return true;
  const { status } = facts;
  return spoiled.includes(kind) && status !== undefined && status >= 400 && status < 500;
}

function isTooMuchAtOnce(failure: CrmFailure): boolean {
  return failure.kind === 'timeout' || isTooMuch(failure);
}

/** The answer could not be read, whatever its status was. */
export function isTooMuch({ kind, facts }: CrmFailure): boolean {
  return kind === 'broken' && facts.status === undefined;
}

async function inHalves<Item, Result>(
  items: readonly Item[],
  run: Run<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  const { call } = run;
  const middle = Math.ceil(items.length / 2);
  const halves = [items.slice(0, middle), items.slice(middle)]
    .filter(({ length }) => length > 0)
    .map((half) => ({ half, ownCall: { ...call, crmMs: 0 } }));
  const outcomes = await Promise.all(
    halves.map(({ half, ownCall }) => execute(half, { ...run, call: ownCall, onOutcome: undefined })),
  );
  // They were in flight at the same time.
  call.crmMs += Math.max(...halves.map(({ ownCall }) => ownCall.crmMs));
  return outcomes.flat();
}

async function reconcile<Item, Result>(
  items: readonly Item[],
  failure: CrmFailure,
  run: Run<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  const { operation, call } = run;
  const unknown = { failure };
  nameSharers(items, run);
  const reconciled = await operation.reconcile?.(items, call).catch(() => undefined);
  if (reconciled === undefined) return items.map(() => unknown);
  const open = items.filter((_, index) => reconciled[index] === 'not done');
  const repeated = await repeat(open, failure, { ...run, onOutcome: undefined });
  const next = repeated.values();
  return reconciled.map((found) => {
    if (found !== 'not done') return found === 'unknown' ? unknown : found;
    const outcome: ItemOutcome<Result> = next.next().value ?? unknown;
    if (!('failure' in outcome)) return outcome;
    if (outcome.failure.kind === 'gone' && operation.whenGone !== undefined) return operation.whenGone;
    if (outcome.failure.kind === 'ended') return unknown;
    // The first call may still be at work: a repeat without a final answer leaves the outcome unknown.
    return { failure: withUnknownOutcome(outcome.failure) };
  });
}

/** Sends what the CRM was seen not to have done again. */
async function repeat<Item, Result>(
  open: readonly Item[],
  failure: CrmFailure,
  run: Run<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  const { repeatsLeft, pause } = run;
  if (open.length === 0) return [];
  // Each half may take less time; so one slow record delays only itself.
  if (open.length > 1 && failure.kind === 'timeout') return inHalves(open, run);
  if (repeatsLeft === 0) return [];
  const next = { ...run, repeatsLeft: repeatsLeft - 1 };
  if (open.length > 1 && isOfRecords(failure))
    return split(open, sameForAll(open, failure), { ...next, isRolledBack: true });
  const mayRepeat = await pause?.(failure, mostRepeats - repeatsLeft + 1);
  return mayRepeat === false ? [] : inHalves(open, next);
}
