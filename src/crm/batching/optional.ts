import type { FieldValues } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { isLacking, type OptionalColumns, type UsedColumns } from '../optional-columns.ts';
import { CrmFailure } from '../rest/failure.ts';
import type { BatchCall, Permit } from '../rest/request.ts';
import type { ItemOutcome, Operation } from './operation.ts';

/** What an operation names of its columns. */
interface Names<Item> {
  /** The API names of the fields whose columns a call with these items names. */
  of(items: readonly Item[]): 'all' | readonly string[];
  /** The item without these fields. */
  without(item: Item, leftOut: ReadonlySet<string>): Item;
}

/** A query names every column. */
export function everyColumn<Item>(): Names<Item> {
  return { of: () => 'all', without: (item) => item };
}

/** A write names what it writes, and every column where it reads back. */
export function writtenColumns<Item extends { values: FieldValues; readBack: boolean }>(): Names<Item> {
  return {
    of: (items) =>
      items.some(({ readBack }) => readBack) ? 'all' : items.flatMap(({ values }) => Object.keys(values)),
    without(item, leftOut) {
      if (leftOut.size === 0) return item;
      const values = Object.entries(item.values).filter(([name]) => !leftOut.has(name));
      return { ...item, values: Object.fromEntries(values) };
    },
  };
}

/**
 * The operation over a resource some of whose columns an org may lack; `make` makes it for those that a call may name.
 * Items that are refused for such a column are sent again without it, and only they: the others were executed.
 */
export function withOptionalColumns<Item, Result>(
  columns: OptionalColumns,
  make: (resource: Resource) => Operation<Item, Result>,
  names: Names<Item>,
): Operation<Item, Result> {
  const prepared = (items: readonly Item[], { leftOut }: UsedColumns) =>
    items.map((item) => names.without(item, leftOut));

  async function execute(items: readonly Item[], call: BatchCall, permit?: Permit) {
    const outcomes: ItemOutcome<Result>[] = [];
    let open = [...items.keys()];
    let unusedPermit = permit;
    const attempt = async (used: UsedColumns) => {
      const given = unusedPermit;
      unusedPermit = undefined;
      const sent = prepared(
        open.map((index) => items[index] as Item),
        used,
      );
      const found = await make(used.resource).execute(sent, call, given);
      for (const [at, index] of open.entries()) outcomes[index] = found[at] as ItemOutcome<Result>;
      open = open.filter((index) => {
        const failure = failureOf(outcomes[index]);
        return failure !== undefined && isLacking(failure, used);
      });
      const refused = open[0] === undefined ? undefined : failureOf(outcomes[open[0]]);
      if (refused !== undefined) throw refused;
    };
    try {
      await columns.send(names.of(items), attempt);
    } catch (error) {
      if (open.length === items.length || !(error instanceof CrmFailure)) throw error;
      for (const index of open) outcomes[index] = { failure: error };
    }
    return outcomes;
  }

  const whole = make(columns.resource);
  if (whole.reconcile === undefined) return { ...whole, execute };
  const reconcile: Operation<Item, Result>['reconcile'] = (items, call) =>
    columns.send('all', async (used) => {
      const found = await make(used.resource).reconcile?.(prepared(items, used), call);
      return found ?? items.map(() => 'unknown' as const);
    });
  return { ...whole, execute, reconcile };
}

function failureOf(outcome: ItemOutcome<unknown> | undefined): CrmFailure | undefined {
  return outcome && 'failure' in outcome ? outcome.failure : undefined;
}
