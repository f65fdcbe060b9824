import { ApiError, joinErrors } from './api-error.ts';
import type { PendingRow, TriggerCall } from './automation.ts';
import type { TriggerEvent } from './declaration.ts';
import type { Org } from './org.ts';
import { contentErrors, duplicateRefusal } from './record-rules.ts';
import type { Draft, ObjectType, Row } from './schema.ts';

export type Kind = 'Insert' | 'Update' | 'Delete';

/** A record as it was, and as it is to be. */
export interface Prepared {
  before: Row | undefined;
  draft: Draft;
}

/** One statement on records of one object, at most 200. */
export interface Operation {
  type: ObjectType;
  kind: Kind;
  /** `allOrNone` is false: records without errors are saved although others fail. */
  partial: boolean;
  /** For the simulator's own work, on which no automation acts. */
  raw: boolean;
  /** Duplicates are saved that a rule only warns of. */
  allowDuplicates: boolean;
  /** Writes a record. @throws ApiError where it can't be written. */
  write(prepared: Prepared): Row;
  /** Names of fields without which a record can't be saved. */
  required(draft: Draft): string[];
}

/** The record as written, or why it is not. */
export type Outcome = Row | ApiError;

interface Item extends PendingRow {
  before: Row | undefined;
  /** As the caller asked for it: each pass begins with a copy. */
  base: Draft;
  /** Injected faults were checked: once for each record, not in each pass. */
  asked: boolean;
  row: Row | undefined;
}

const MAX_PASSES = 3;

function tooManyRetries(): ApiError {
  const message = 'Too many batch retries in the presence of Apex triggers and partial failures.';
  return new ApiError(400, 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', message, []);
}

function isGood({ errors }: Item): boolean {
  return errors.length === 0;
}

function failAll(items: readonly Item[], error: ApiError): void {
  for (const item of items) item.errors = [error];
}

function missingFields(names: string[]): ApiError[] {
  if (names.length === 0) return [];
  const message = `Required fields are missing: [${names.join(', ')}]`;
  return [new ApiError(400, 'REQUIRED_FIELD_MISSING', message, names)];
}

/** The order of execution: required fields, then rules of fields and of administrators, then duplicate rules. */
function validate(org: Org, operation: Operation, item: Item): void {
  const { type, kind, raw, required, allowDuplicates } = operation;
  if (kind === 'Delete') return;
  const { automation } = org;
  const missing = required(item.draft);
  if (!raw) missing.push(...automation.missingFields(type, item.draft));
  item.errors.push(...missingFields(missing));
  if (raw) return;
  item.errors.push(...contentErrors(org, type, item), ...automation.brokenRules(type, item.draft));
  if (!isGood(item)) return;
  const duplicate = duplicateRefusal(org, type, item.draft, allowDuplicates);
  if (duplicate !== undefined) item.errors.push(duplicate);
}

function writeItem(org: Org, operation: Operation, item: Item): void {
  const { draft, before } = item;
  try {
    const refusal = item.asked ? undefined : org.guard(operation.type, draft);
    item.asked = true;
    if (refusal !== undefined) throw refusal;
    item.row = operation.write({ before, draft });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    item.errors.push(error);
  }
}

/** Returns false after an unhandled exception: all records of the call have failed, and the operation ends. */
function runTriggers(
  org: Org,
  operation: Operation,
  time: 'before' | 'after',
  pass: number,
  rows: Item[],
): boolean {
  if (operation.raw || rows.length === 0) return true;
  const event: TriggerEvent = `${time}${operation.kind}`;
  const call: TriggerCall = { type: operation.type, event, pass, rows };
  const error = org.automation.runTriggers(call);
  if (error !== undefined) failAll(rows, error);
  return error === undefined;
}

/** The order of execution: before-triggers, rules, the write, after-triggers. Returns false as `runTriggers`. */
function attempt(org: Org, operation: Operation, items: readonly Item[], pass: number): boolean {
  for (const item of items) item.draft = { ...item.base };
  if (!runTriggers(org, operation, 'before', pass, [...items])) return false;
  for (const item of items.filter(isGood)) validate(org, operation, item);
  for (const item of items.filter(isGood)) writeItem(org, operation, item);
  return runTriggers(org, operation, 'after', pass, items.filter(isGood));
}

/**
 * Partial save as in the Apex Developer Guide, Bulk DML Exception Handling: records with errors are set aside and the
 * others are done again from the start, at most three times.
 */
function runPasses(org: Org, operation: Operation, items: readonly Item[]): void {
  let left = items;
  for (let pass = 1; left.length > 0; pass += 1) {
    const start = org.store.savepoint();
    const goesOn = attempt(org, operation, left, pass);
    const good = left.filter(isGood);
    if (good.length === left.length) return;
    org.store.rollback(start);
    if (pass === MAX_PASSES) failAll(items, tooManyRetries());
    if (!goesOn || !operation.partial || pass === MAX_PASSES) return;
    left = good;
  }
}

function outcomeOf({ errors, row }: Item): Outcome {
  const outcome = joinErrors(errors) ?? row;
  if (outcome === undefined) throw new Error('a record without errors was not written');
  return outcome;
}

function prepareItem(prepare: () => Prepared): Item | ApiError {
  try {
    const { before, draft } = prepare();
    return { before, base: draft, draft, errors: [], asked: false, row: undefined };
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

/**
 * Runs an operation; the outcomes are in the order of `prepares`. A record that can't be prepared, such as one with an
 * unknown field, is left out of the operation.
 */
export function runOperation(org: Org, operation: Operation, prepares: (() => Prepared)[]): Outcome[] {
  return org.store.transaction(() => {
    const items = prepares.map(prepareItem);
    runPasses(
      org,
      operation,
      items.filter((item): item is Item => !(item instanceof ApiError)),
    );
    return items.map((item) => (item instanceof ApiError ? item : outcomeOf(item)));
  });
}
