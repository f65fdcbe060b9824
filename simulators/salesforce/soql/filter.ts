import { ApiError } from '../org/api-error.ts';
import { caseChecksum, toId15 } from '../org/ids.ts';
import { type Org, sees } from '../org/org.ts';
import { type Field, foldFor, isCompound, type ObjectType, type Row, type Value } from '../org/schema.ts';
import { parseDay, parseInstant } from '../org/values.ts';
import type { Condition, ConditionTree } from './conditions.ts';
import { decodeLiteral, type Literal, likeMatcher } from './literals.ts';
import { type FieldPath, resolvePath } from './paths.ts';
import { fieldError } from './query-error.ts';

type Predicate = (row: Row) => boolean;

/** A compiled WHERE clause: what it accepts, and enough of its form to find an index for it. */
export type Filter =
  | { kind: 'and' | 'or'; filters: Filter[]; accepts: Predicate }
  | { kind: 'not'; accepts: Predicate }
  | { kind: 'test'; path: FieldPath; operator: string; values: (Value | undefined)[]; accepts: Predicate };

interface Scope {
  org: Org;
  type: ObjectType;
  soql: string;
  literals: Literal[];
}

const QUOTED = new Set([
  'string',
  'textarea',
  'picklist',
  'multipicklist',
  'combobox',
  'email',
  'phone',
  'url',
  'id',
  'reference',
]);
const NUMERIC = new Set(['int', 'double', 'currency', 'percent']);
const NUMBER_KINDS = /^(INTEGER|DECIMAL|NUMBER)/;

/** date and dateTime literals are not interchangeable, and neither takes quotes (SOQL Reference, Date Formats). */
function criterionError(scope: Scope, condition: Condition, field: Field): ApiError {
  const quotes = QUOTED.has(field.type) ? 'should be enclosed' : 'should not be enclosed';
  const type = field.type === 'datetime' ? 'dateTime' : field.type;
  const message = `value of filter criterion for field '${field.name}' must be of type ${type} and ${quotes} in quotes`;
  return fieldError(scope.soql, condition.field, message);
}

function idValue(text: string): Value {
  const id15 = toId15(text);
  if (id15 === undefined)
    throw new ApiError(400, 'INVALID_QUERY_FILTER_OPERATOR', `invalid ID field: ${text}`);
  return id15 + caseChecksum(id15);
}

function literalOf(scope: Scope, text: string): Literal {
  return scope.literals[Number(text.slice(1, -1))] ?? { raw: '', like: false };
}

function stringValue(scope: Scope, field: Field, text: string): Value | undefined {
  const decoded = decodeLiteral(literalOf(scope, text));
  if (field.type === 'id' || field.type === 'reference') return idValue(decoded);
  // An org keeps no empty text, so comparing with '' is comparing with null.
  return decoded === '' ? undefined : decoded;
}

function unquotedValue(field: Field, kind: string, text: string): Value | undefined {
  if (kind === 'DATETIME' && field.type === 'datetime') {
    const instant = parseInstant(text);
    return instant === undefined ? undefined : `${instant.toISOString().slice(0, 23)}+0000`;
  }
  if (kind === 'DATE' && field.type === 'date') return parseDay(text);
  if (kind === 'BOOLEAN' && field.type === 'boolean') return text.toUpperCase() === 'TRUE';
  if (NUMBER_KINDS.test(kind) && NUMERIC.has(field.type)) return Number(text);
  return undefined;
}

function readValues(scope: Scope, condition: Condition, field: Field): (Value | undefined)[] {
  return condition.values.map(({ kind, text }) => {
    if (kind === 'NULL') return undefined;
    if (kind === 'STRING') {
      if (!QUOTED.has(field.type)) throw criterionError(scope, condition, field);
      return stringValue(scope, field, text);
    }
    const value = unquotedValue(field, kind, text);
    if (value === undefined) throw criterionError(scope, condition, field);
    return value;
  });
}

const COMPARISONS: Record<string, (a: Value, b: Value) => boolean> = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
};

function ordered(path: FieldPath, operator: string, value: Value | undefined): Predicate | undefined {
  const compare = COMPARISONS[operator];
  if (compare === undefined) return undefined;
  if (value === undefined) return () => false;
  const fold = foldFor(path.field);
  const bound = fold(value);
  return (row) => {
    const own = path.read(row);
    return own !== undefined && compare(fold(own), bound);
  };
}

/** Comparing with null is allowed, and `!=` and NOT IN accept empty fields. */
function membership(path: FieldPath, values: (Value | undefined)[], negated: boolean): Predicate {
  const fold = foldFor(path.field);
  const wanted = new Set(values.map((value) => (value === undefined ? undefined : fold(value))));
  return (row) => {
    const own = path.read(row);
    return wanted.has(own === undefined ? undefined : fold(own)) !== negated;
  };
}

function like(scope: Scope, condition: Condition, path: FieldPath): Predicate {
  const quoted = QUOTED.has(path.field.type) && condition.values.every(({ kind }) => kind === 'STRING');
  if (!quoted || path.field.type === 'id' || path.field.type === 'reference') {
    throw new ApiError(400, 'INVALID_QUERY_FILTER_OPERATOR', `invalid operator on ${path.field.type} field`);
  }
  const fold = foldFor(path.field);
  const foldText = (text: string): string => String(fold(text));
  const matchers = condition.values.map(({ text }) => likeMatcher(literalOf(scope, text), foldText));
  return (row) => {
    const own = path.read(row);
    return own !== undefined && matchers.some((matches) => matches(String(own)));
  };
}

/** INCLUDES: one of the values, of which `a;b` stands for both together (SOQL Reference, Multi-Select Picklists). */
function inclusion(path: FieldPath, values: (Value | undefined)[], negated: boolean): Predicate {
  const wanted = values.map((value) => String(value ?? '').split(';'));
  return (row) => {
    const chosen = String(path.read(row) ?? '').split(';');
    return wanted.some((all) => all.every((value) => chosen.includes(value))) !== negated;
  };
}

function compileTest(scope: Scope, condition: Condition): Filter {
  const path = resolvePath(scope.org, scope.type, scope.soql, condition.field);
  const { operator } = condition;
  if (path.field.long || isCompound(path.field)) {
    throw fieldError(
      scope.soql,
      condition.field,
      `field '${path.field.name}' can not be filtered in a query call`,
    );
  }
  if (operator === 'LIKE') {
    return { kind: 'test', path, operator, values: [], accepts: like(scope, condition, path) };
  }
  const values = condition.semiJoin
    ? joinedValues(scope, condition.semiJoin)
    : readValues(scope, condition, path.field);
  return { kind: 'test', path, operator, values, accepts: predicate(path, operator, values) };
}

/** Values of a column of another object, of the records that the user sees and the subquery's filter accepts. */
function joinedValues(
  { org, soql, literals }: Scope,
  { object, field, where }: NonNullable<Condition['semiJoin']>,
): Value[] {
  const type = org.schema.find(object);
  if (type === undefined)
    throw new ApiError(400, 'INVALID_TYPE', `sObject type '${object}' is not supported.`);
  const path = resolvePath(org, type, soql, field);
  const filter = compileFilter(org, type, { soql, literals, where });
  const rows = [...org.store.table(type).rows.values()];
  return rows
    .filter((row) => sees(org, type, row) && filter?.accepts(row) !== false)
    .flatMap((row) => path.read(row) ?? []);
}

/** @throws ApiError INVALID_QUERY_FILTER_OPERATOR for an operator that the field does not have. */
function predicate(path: FieldPath, operator: string, values: (Value | undefined)[]): Predicate {
  const comparison = ordered(path, operator, values[0]);
  if (comparison !== undefined) return comparison;
  if (operator === '=' || operator === 'IN') return membership(path, values, false);
  if (['!=', '<>', 'NOT IN'].includes(operator)) return membership(path, values, true);
  const isMulti = path.field.type === 'multipicklist';
  if (isMulti && ['INCLUDES', 'EXCLUDES'].includes(operator))
    return inclusion(path, values, operator === 'EXCLUDES');
  throw new ApiError(400, 'INVALID_QUERY_FILTER_OPERATOR', `operator ${operator} is not simulated`);
}

function compileTree(scope: Scope, tree: ConditionTree): Filter {
  if (tree.kind === 'test') return compileTest(scope, tree.condition);
  if (tree.kind === 'not') {
    const inner = compileTree(scope, tree.node);
    return { kind: 'not', accepts: (row) => !inner.accepts(row) };
  }
  const filters = tree.nodes.map((node) => compileTree(scope, node));
  if (tree.kind === 'and') {
    return { kind: 'and', filters, accepts: (row) => filters.every((filter) => filter.accepts(row)) };
  }
  return { kind: 'or', filters, accepts: (row) => filters.some((filter) => filter.accepts(row)) };
}

/** @throws ApiError INVALID_FIELD or INVALID_QUERY_FILTER_OPERATOR for a condition that the object can't answer. */
export function compileFilter(
  org: Org,
  type: ObjectType,
  query: { soql: string; literals: Literal[]; where: ConditionTree | undefined },
): Filter | undefined {
  if (query.where === undefined) return undefined;
  return compileTree({ org, type, soql: query.soql, literals: query.literals }, query.where);
}
