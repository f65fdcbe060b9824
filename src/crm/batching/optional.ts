import type { Visible } from '../../platform/base/call.ts';
import { splitText } from '../../platform/base/split-text.ts';
import { ownerField } from '../../records/created-by.ts';
import { detailsTooLarge } from '../../records/field-values.ts';
import type { FieldValues } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import {
  columnOf,
  isLacking,
  lacksOwner,
  misfitFailure,
  namedBy,
  type OptionalColumns,
  type UsedColumns,
} from '../optional-columns.ts';
import { CrmFailure } from '../rest/failure.ts';
import type { BatchCall } from '../rest/limiter.ts';
import type { Permit } from '../rest/request.ts';
import type { ItemOutcome, Operation } from './operation.ts';

/** What an operation names of its columns. */
interface Names<Item> {
  /** The API names of the fields whose columns a call with these items names. */
  of(items: readonly Item[]): 'all' | readonly string[];
  /** The item without these fields. */
  without(item: Item, leftOut: ReadonlySet<string>): Item;
}

/**
 * Executes for those items that can do without knowing who made a record, or for all where the org has columns for it;
 * the others fail, and disturb nobody.
 */
export async function unlessOwnerIsNeeded<Item extends { visible: Visible }, Result>(
  resource: Resource,
  items: readonly Item[],
  executeOthers: (others: readonly Item[]) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  if (resource.fields[ownerField] !== undefined) return executeOthers(items);
  const refusalOf = ({ visible }: Item) => (visible === 'all' ? undefined : lacksOwner(resource));
  return unlessRefused(items, refusalOf, executeOthers);
}

/** Executes where the record type of new records is known; else all fail: the CRM would give them another one. */
export async function whereTypeIsKnown<Item, Result>(
  { fit, constants = {} }: Resource,
  items: readonly Item[],
  executeAll: (items: readonly Item[]) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  const [column] =
    Object.entries(constants).find(
      ([, value]) => typeof value === 'object' && fit.recordTypeId(value.recordType) === undefined,
    ) ?? [];
  if (column === undefined) return executeAll(items);
  const problem = 'has a record type that is not known before the CRM was asked';
  const misfit = fit.whyNotCreated([column]) ?? { column, problem, needs: [] };
  return unlessRefused(items, () => misfitFailure(fit.refusal(misfit)), executeAll);
}

/** Executes for those items whose texts the org's columns hold; the others fail, and disturb nobody. */
export async function whereTextsFit<Item extends { values: FieldValues }, Result>(
  resource: Resource,
  items: readonly Item[],
  executeOthers: (others: readonly Item[]) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  return unlessRefused(items, ({ values }) => tooLong(resource, values), executeOthers);
}

/**
 * Executes for those items that are still wanted at this moment; the others fail, and disturb nobody. Where one ends before the
 * call is sent, the rest goes in another call.
 */
export function unlessEnded<Item extends { validUntil?: number | undefined }, Result>(
  items: readonly Item[],
  permit: Permit | undefined,
  executeOthers: (others: readonly Item[], permit: Permit | undefined) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  const refusalOf = ({ validUntil }: Item) =>
    validUntil !== undefined && Date.now() >= validUntil
      ? new CrmFailure('ended', 'an offer has ended')
      : undefined;
  return unlessRefused(items, refusalOf, async (others) => {
    try {
      return await executeOthers(others, permit);
    } catch (error) {
      const isUndone = error instanceof CrmFailure && !error.outcomeUnknown;
      if (!isUndone || others.every((item) => refusalOf(item) === undefined)) throw error;
      return unlessEnded(others, undefined, executeOthers);
    }
  });
}

/** Executes for those items whose values the org can take; the others fail, and disturb nobody. */
export async function whereValuesFit<Item extends { values: FieldValues }, Result>(
  { fit }: Resource,
  items: readonly Item[],
  executeOthers: (others: readonly Item[]) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  if (fit.isWhole) return executeOthers(items);
  const refusalOf = ({ values }: Item) => {
    const [misfit] = Object.keys(values).flatMap((name) => fit.why('write', name) ?? []);
    return misfit && misfitFailure(fit.refusal(misfit));
  };
  return unlessRefused(items, refusalOf, executeOthers);
}

/**
 * The outcome of a write: a refusal for what no caller sets is one of the org's set-up, a constant that it does not take, or a
 * field that it requires. The org is looked at where it knows better what its fields can hold.
 */
export function asMisfit<Result>(resource: Resource, outcome: ItemOutcome<Result>): ItemOutcome<Result> {
  if (!('failure' in outcome)) return outcome;
  const columns = columnsOf(outcome.failure);
  if (columns.length === 0) return outcome;
  const { fit, constants = {}, fields } = resource;
  const constant = Object.keys(constants).find((name) => columns.includes(name.toLowerCase()));
  const refused = constant !== undefined && {
    column: constant,
    problem: 'does not take the constant of the mapping',
    needs: [],
  };
  const misfit = fit.whyNotCreated(columns) ?? refused;
  if (misfit) return { ...outcome, failure: misfitFailure(fit.refusal(misfit)) };
  const own = Object.values(fields).filter(({ added }) => added === undefined);
  const isOwn = (column: string) => own.some(({ crm }) => columnOf(crm).toLowerCase() === column);
  if (!columns.every(isOwn)) fit.onRefused();
  return outcome;
}

/** Codes of refusals that a description of the object may explain. */
const explained =
  /^(INVALID_FIELD|REQUIRED_FIELD_MISSING|STRING_TOO_LONG|NUMBER_OUTSIDE_VALID_RANGE|INVALID_CROSS_REFERENCE_KEY|INVALID_(TYPE_ON_FIELD_IN_RECORD|OR_NULL_FOR_RESTRICTED_PICKLIST|FIELD_FOR_INSERT_UPDATE))$/;

/** The columns in lower case that such a refusal names. */
function columnsOf({ facts: { errors = [] } }: CrmFailure): string[] {
  return errors.flatMap((error) => (explained.test(error.code) ? namedBy(error) : []));
}

async function unlessRefused<Item, Result>(
  items: readonly Item[],
  refusalOf: (item: Item) => CrmFailure | undefined,
  executeOthers: (others: readonly Item[]) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  const refusals = items.map(refusalOf);
  const others = items.filter((_, index) => refusals[index] === undefined);
  if (others.length === items.length) return executeOthers(items);
  const outcomes = (others.length === 0 ? [] : await executeOthers(others)).values();
  return refusals.map((failure) =>
    failure ? { failure, ofItem: true } : (outcomes.next().value as ItemOutcome<Result>),
  );
}

function tooLong({ fields }: Resource, values: FieldValues): CrmFailure | undefined {
  for (const [name, value] of Object.entries(values)) {
    const columns = fields[name]?.columns;
    if (!columns || !value || splitText(value, columns) !== undefined) continue;
    const problem = detailsTooLarge(`#/${name}`, value.length, columns);
    return new CrmFailure('rejected', problem.message, { problem });
  }
  return undefined;
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
