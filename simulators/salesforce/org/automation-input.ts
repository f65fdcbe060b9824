import { ControlError } from '../../shared/control-error.ts';
import { asObject, checkMembers, type Members } from '../../shared/fault-members.ts';
import {
  type AutomationDeclaration,
  type Condition,
  type RequiredFields,
  TRIGGER_EVENTS,
  type TriggerAction,
  type TriggerDeclaration,
  type ValidationRule,
} from './declaration.ts';
import type { ObjectType, Schema } from './schema.ts';

type Given = Record<string, unknown>;

const TEXT = { type: 'string' } as const;
const SOME_TEXT = { type: 'string', optional: true } as const;
const SOME_NUMBER = { type: 'number', optional: true } as const;

const CONDITION: Members = {
  field: SOME_TEXT,
  contains: SOME_TEXT,
  matches: SOME_TEXT,
  recordType: SOME_TEXT,
  rowsAbove: SOME_NUMBER,
  rowsBelow: SOME_NUMBER,
};

const ACTIONS: Record<TriggerAction['kind'], Members> = {
  throw: { exception: SOME_TEXT, code: SOME_TEXT, message: SOME_TEXT },
  addError: { message: TEXT, field: SOME_TEXT, code: SOME_TEXT },
  lock: {},
  limit: { limit: SOME_TEXT },
  flowFault: { code: SOME_TEXT, message: SOME_TEXT },
  delay: { ms: { type: 'number' } },
  set: {},
};

const TRIGGER: Members = { name: TEXT, times: SOME_NUMBER, runOnce: { type: 'boolean', optional: true } };
const RULE: Members = { name: TEXT, message: TEXT, field: SOME_TEXT };

function fail(message: string): never {
  throw new ControlError(400, message);
}

function readType(schema: Schema, name: unknown, where: string): ObjectType {
  const type = typeof name === 'string' ? schema.find(name) : undefined;
  return type ?? fail(`${where}.object must be an object of this org`);
}

function checkField(type: ObjectType, name: unknown, where: string): void {
  if (name === undefined) return;
  if (typeof name === 'string' && type.all.has(name.toLowerCase())) return;
  fail(`${where} must be a field of ${type.name}`);
}

function checkPattern(pattern: unknown, where: string): void {
  if (pattern === undefined) return;
  try {
    RegExp(pattern as string);
  } catch {
    fail(`${where} must be a regular expression`);
  }
}

/** What a field is compared with: one value, or for `above` and `below` one that has an order. */
const TESTS = ['equals', 'contains', 'matches', 'above', 'below'] as const;

function readCondition(type: ObjectType, given: unknown, where: string): Condition {
  const { equals, above, below, ...rest } = asObject(given, where);
  checkMembers(rest, CONDITION, where);
  checkField(type, rest.field, `${where}.field`);
  checkPattern(rest.matches, `${where}.matches`);
  const { recordType } = rest;
  if (recordType !== undefined && !type.recordTypes.some(({ developerName }) => developerName === recordType))
    fail(`${where}.recordType must be a record type of ${type.name}`);
  const tests = TESTS.filter((test) => (given as Condition)[test] !== undefined);
  if ((rest.field === undefined) !== (tests.length === 0)) {
    fail(`${where}.field and one of ${TESTS.join(', ')} belong together`);
  }
  for (const [name, value] of Object.entries({ equals, above, below })) {
    if (typeof value === 'object' && (value !== null || name !== 'equals'))
      fail(`${where}.${name} must be a single value`);
  }
  return given as Condition;
}

/** One condition, or a list of which all must hold. */
function readConditions(type: ObjectType, given: unknown, where: string): Condition[] {
  if (!Array.isArray(given)) return [readCondition(type, given, where)];
  return given.map((each, index) => readCondition(type, each, `${where}[${index}]`));
}

function readAction(type: ObjectType, given: unknown, where: string): TriggerAction {
  const { kind, values, ...rest } = asObject(given, where);
  const members = Object.hasOwn(ACTIONS, String(kind)) ? ACTIONS[kind as TriggerAction['kind']] : undefined;
  if (members === undefined) fail(`${where}.kind must be one of ${Object.keys(ACTIONS).join(', ')}`);
  if (kind === 'set') {
    for (const name of Object.keys(asObject(values, `${where}.values`)))
      checkField(type, name, `${where}.values.${name}`);
  } else if (values !== undefined) {
    fail(`${where}.values is unknown`);
  }
  checkMembers(rest, members, where);
  return given as TriggerAction;
}

function checkEvents(events: unknown, action: TriggerAction, where: string): void {
  const known: readonly unknown[] = TRIGGER_EVENTS;
  if (!Array.isArray(events) || events.length === 0 || !events.every((event) => known.includes(event))) {
    fail(`${where}.on must be a list of ${TRIGGER_EVENTS.join(', ')}`);
  }
  const changes = events.every((event) => event === 'beforeInsert' || event === 'beforeUpdate');
  if (action.kind === 'set' && !changes) fail(`${where}.on must be before an insert or update for set`);
}

function readTrigger(schema: Schema, given: Given, where: string): TriggerDeclaration {
  const { object, on, when, action, ...rest } = given;
  checkMembers(rest, TRIGGER, where);
  const type = readType(schema, object, where);
  if (when !== undefined) readConditions(type, when, `${where}.when`);
  checkEvents(on, readAction(type, action, `${where}.action`), where);
  return given as unknown as TriggerDeclaration;
}

function readRule(schema: Schema, given: Given, where: string): ValidationRule {
  const { object, when, ...rest } = given;
  checkMembers(rest, RULE, where);
  const conditions = readConditions(readType(schema, object, where), when, `${where}.when`);
  if (conditions.some(({ rowsAbove, rowsBelow }) => rowsAbove !== undefined || rowsBelow !== undefined))
    fail(`${where}.when must be about the record: a rule does not see how many there are`);
  return given as unknown as ValidationRule;
}

function readRequired(schema: Schema, given: Given, where: string): RequiredFields {
  const { object, fields, ...rest } = given;
  checkMembers(rest, { name: TEXT }, where);
  readType(schema, object, where);
  const isList = Array.isArray(fields) && fields.length > 0;
  if (!isList || !fields.every((field) => typeof field === 'string'))
    fail(`${where}.fields must be a list of texts`);
  return given as unknown as RequiredFields;
}

type Reader<T> = (schema: Schema, given: Given, where: string) => T;

function readList<T>(schema: Schema, given: unknown, name: string, read: Reader<T>): T[] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) fail(`${name} must be a list`);
  return given.map((each, index) => {
    const where = `${name}[${index}]`;
    return read(schema, asObject(each, where), where);
  });
}

/**
 * Reads triggers, validation rules and required fields.
 * @throws ControlError 400 naming the member that is wrong.
 */
export function readAutomation(schema: Schema, body: unknown): AutomationDeclaration {
  const { triggers, validationRules, requiredFields, ...rest } = asObject(body, 'the automation');
  checkMembers(rest, {}, 'automation');
  return {
    triggers: readList(schema, triggers, 'triggers', readTrigger),
    validationRules: readList(schema, validationRules, 'validationRules', readRule),
    requiredFields: readList(schema, requiredFields, 'requiredFields', readRequired),
  };
}
