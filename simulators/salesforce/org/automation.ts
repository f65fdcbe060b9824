import { ApiError } from './api-error.ts';
import { callError, ruleError } from './automation-errors.ts';
import type { AutomationDeclaration, Condition, TriggerDeclaration, TriggerEvent } from './declaration.ts';
import { type Draft, type ObjectType, type Row, readField, type Value } from './schema.ts';
import { coerceValue } from './values.ts';

/** A record while an operation writes it. */
export interface PendingRow {
  /** As it is to be stored; a before-trigger may change it. */
  draft: Draft;
  errors: ApiError[];
}

/** At most 200 records of one object, in one pass of an operation. */
export interface TriggerCall {
  type: ObjectType;
  event: TriggerEvent;
  /** From 1 to 3. */
  pass: number;
  rows: readonly PendingRow[];
}

export type TriggerView = TriggerDeclaration & {
  /** Trigger calls, the repeated ones of later passes included. */
  calls: number;
  /** Those of them in which it acted. */
  hits: number;
};

export interface AutomationView extends Omit<AutomationDeclaration, 'triggers'> {
  triggers: TriggerView[];
}

export interface Automation {
  /**
   * Runs the triggers of this object and event in the order of their declaration. Errors of single records are added
   * to `errors`; an error that is returned is that of every record of the call.
   */
  runTriggers(call: TriggerCall): ApiError | undefined;
  /** Names of the fields that the org requires and the record lacks. */
  missingFields(type: ObjectType, row: Row): string[];
  /** The error of each validation rule that refuses the record. */
  brokenRules(type: ObjectType, row: Row): ApiError[];
  /** How long the triggers since the last call of this would have taken, in milliseconds. */
  takeDelayMs(): number;
  add(declaration: AutomationDeclaration): void;
  view(): AutomationView;
  /** Removes what has this name; returns how many there were. */
  remove(name: string): number;
  clear(): void;
}

function isOf(object: string, type: ObjectType): boolean {
  return object.toLowerCase() === type.name.toLowerCase();
}

function valueOf(type: ObjectType, row: Row, name: string): Value | null {
  const field = type.all.get(name.toLowerCase());
  return (field === undefined ? row[name] : readField(row, field)) ?? null;
}

/** What a value is compared with. */
const TESTS: {
  [T in keyof Condition]?: (value: Value | null, wanted: NonNullable<Condition[T]>) => boolean;
} = {
  contains: (value, part) => String(value ?? '').includes(part),
  matches: (value, pattern) => new RegExp(pattern).test(String(value ?? '')),
  above: (value, bound) => value !== null && value > bound,
  below: (value, bound) => value !== null && value < bound,
};

function holds(condition: Condition, value: Value | null): boolean {
  if (condition.equals !== undefined && value !== condition.equals) return false;
  return Object.entries(TESTS).every(([name, test]) => {
    const wanted = condition[name as keyof Condition];
    return wanted === undefined || (test as (value: Value | null, wanted: unknown) => boolean)(value, wanted);
  });
}

/** The part of a condition that looks at the record. */
function rowMatches(condition: Condition, type: ObjectType, row: Row): boolean {
  const { field, recordType } = condition;
  if (recordType !== undefined) {
    const own = type.recordTypes.find(({ id }) => id === row.RecordTypeId);
    if (own?.developerName !== recordType) return false;
  }
  return field === undefined || holds(condition, valueOf(type, row, field));
}

function allMatch(conditions: Condition | Condition[] = [], type: ObjectType, row: Row): boolean {
  return [conditions].flat().every((condition) => rowMatches(condition, type, row));
}

/** The part of a condition that looks at the size of the call. */
function sizeMatches({ rowsAbove = -1, rowsBelow = Number.POSITIVE_INFINITY }: Condition, rows: number) {
  return rows > rowsAbove && rows < rowsBelow;
}

/** @throws ApiError for a value that the field can't hold. */
function setValues(type: ObjectType, values: Record<string, unknown>, rows: readonly PendingRow[]): void {
  for (const [name, raw] of Object.entries(values)) {
    const field = type.all.get(name.toLowerCase());
    if (field === undefined) continue;
    const value = coerceValue(field, raw);
    for (const { draft } of rows) draft[field.name] = value;
  }
}

interface State {
  triggers: TriggerView[];
  rules: Omit<AutomationDeclaration, 'triggers'>;
  delayMs: number;
}

/** What a trigger does with the records for which its condition holds; returns the error of the whole call. */
function act(
  state: State,
  trigger: TriggerView,
  call: TriggerCall,
  rows: readonly PendingRow[],
): ApiError | undefined {
  const { action } = trigger;
  switch (action.kind) {
    case 'addError':
      for (const { errors } of rows) errors.push(ruleError(action.message, action.field, action.code));
      return undefined;
    case 'delay':
      state.delayMs += action.ms;
      return undefined;
    case 'set':
      try {
        setValues(call.type, action.values, rows);
        return undefined;
      } catch (error) {
        // An invalid value from a trigger fails the valid records too (Apex Developer Guide, Bulk DML Exception Handling).
        if (error instanceof ApiError) return error;
        throw error;
      }
    default:
      return callError(trigger, action, call.event, rows[0]?.draft ?? { Id: '' });
  }
}

function runTrigger(state: State, trigger: TriggerView, call: TriggerCall): ApiError | undefined {
  if (trigger.runOnce === true && call.pass > 1) return undefined;
  trigger.calls += 1;
  if (trigger.times !== undefined && trigger.hits >= trigger.times) return undefined;
  const when = [trigger.when ?? []].flat();
  if (!when.every((condition) => sizeMatches(condition, call.rows.length))) return undefined;
  const rows = call.rows.filter(({ draft }) => allMatch(when, call.type, draft));
  if (rows.length === 0) return undefined;
  trigger.hits += 1;
  return act(state, trigger, call, rows);
}

function runTriggers(state: State, call: TriggerCall): ApiError | undefined {
  for (const trigger of state.triggers) {
    if (!isOf(trigger.object, call.type) || !trigger.on.includes(call.event)) continue;
    const error = runTrigger(state, trigger, call);
    if (error !== undefined) return error;
  }
  return undefined;
}

function addTo(state: State, { triggers, validationRules, requiredFields }: AutomationDeclaration): void {
  state.triggers.push(...triggers.map((trigger) => ({ ...trigger, calls: 0, hits: 0 })));
  state.rules.validationRules.push(...validationRules);
  state.rules.requiredFields.push(...requiredFields);
}

function removeNamed(list: { name: string }[], name: string): number {
  const before = list.length;
  const kept = list.filter((each) => each.name !== name);
  list.splice(0, before, ...kept);
  return before - kept.length;
}

/** An org's triggers, flows, validation rules and required fields; none at first. */
export function createAutomation(): Automation {
  const state: State = { triggers: [], rules: { validationRules: [], requiredFields: [] }, delayMs: 0 };
  const lists = (): { name: string }[][] => [
    state.triggers,
    state.rules.validationRules,
    state.rules.requiredFields,
  ];
  return {
    runTriggers: (call) => runTriggers(state, call),
    missingFields: (type, row) =>
      state.rules.requiredFields
        .filter(({ object }) => isOf(object, type))
        .flatMap(({ fields }) => fields.filter((name) => valueOf(type, row, name) === null)),
    brokenRules: (type, row) =>
      state.rules.validationRules
        .filter(({ object, when }) => isOf(object, type) && allMatch(when, type, row))
        .map(({ message, field }) => ruleError(message, field)),
    takeDelayMs: () => {
      const { delayMs } = state;
      state.delayMs = 0;
      return delayMs;
    },
    add: (declaration) => addTo(state, declaration),
    view: () => ({ triggers: state.triggers, ...state.rules }),
    remove: (name) => lists().reduce((removed, list) => removed + removeNamed(list, name), 0),
    clear: () => {
      for (const list of lists()) list.length = 0;
    },
  };
}
