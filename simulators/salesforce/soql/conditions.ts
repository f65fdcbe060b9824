import type { Query, ValueCondition, WhereClause } from '@jetstreamapp/soql-parser-js';
import { malformedQuery } from './query-error.ts';

export interface Condition {
  field: string;
  operator: string;
  /** Values with their kinds as the parser names them: STRING, DATETIME, NULL and so on. */
  values: { kind: string; text: string }[];
  /** In place of values: those of one column of another object. */
  semiJoin?: { object: string; field: string; where: ConditionTree | undefined };
}

export type ConditionTree =
  | { kind: 'and' | 'or'; nodes: ConditionTree[] }
  | { kind: 'not'; node: ConditionTree }
  | { kind: 'test'; condition: Condition };

type Token = '(' | ')' | 'AND' | 'OR' | 'NOT' | Condition;

const MAX_DEPTH = 500;

/** A semi-join: `ParentId IN (SELECT PermissionSetId FROM PermissionSetAssignment WHERE …)`. */
function readSemiJoin(query: Query): NonNullable<Condition['semiJoin']> {
  const { fields = [], sObject = '', where, ...others } = query;
  const [field, ...rest] = fields;
  if (field?.type !== 'Field' || rest.length > 0 || Object.keys(others).length > 0)
    throw malformedQuery('only one field and WHERE are simulated in a subquery');
  return { object: sObject, field: field.field, where: where && readConditions(where) };
}

function toCondition(left: ValueCondition & { valueQuery?: Query }): Condition {
  if (typeof left.field !== 'string') throw malformedQuery('functions in WHERE are not simulated');
  if (left.valueQuery !== undefined && left.operator.toUpperCase() === 'IN')
    return { field: left.field, operator: 'IN', values: [], semiJoin: readSemiJoin(left.valueQuery) };
  const texts = [left.value].flat();
  const kinds = [left.literalType].flat();
  const values = texts.map((text, index) => ({ kind: String(kinds[index] ?? kinds[0]), text }));
  if (values.some(({ kind, text }) => kind === 'SUBQUERY' || text === 'undefined')) {
    throw malformedQuery('subqueries in WHERE are not simulated');
  }
  return { field: left.field, operator: left.operator.toUpperCase(), values };
}

function repeat(tokens: Token[], token: Token, times: number | undefined): void {
  for (let count = 0; count < (times ?? 0); count += 1) tokens.push(token);
}

function pushClause(tokens: Token[], clause: WhereClause): void {
  const left = clause.left as (Partial<ValueCondition> & { openParen?: number }) | null;
  const operator = 'operator' in clause ? clause.operator : undefined;
  repeat(tokens, '(', left?.openParen);
  if (operator === 'NOT') {
    tokens.push('NOT');
    return;
  }
  tokens.push(toCondition(left as ValueCondition));
  repeat(tokens, ')', left?.closeParen);
  if (!('right' in clause) || clause.right === undefined) return;
  // The parser lets two conditions stand side by side without an operator; SOQL does not.
  if (operator === undefined) throw malformedQuery('AND or OR is missing between two conditions');
  tokens.push(operator);
}

function flatten(where: WhereClause): Token[] {
  const tokens: Token[] = [];
  let clause: WhereClause | undefined = where;
  while (clause !== undefined) {
    pushClause(tokens, clause);
    clause = 'right' in clause ? clause.right : undefined;
  }
  return tokens;
}

/** Reads the tokens from the front; each function takes what is its own. */
function readOperand(tokens: Token[], depth: number): ConditionTree {
  if (depth > MAX_DEPTH) throw malformedQuery('the WHERE clause is nested too deeply');
  const token = tokens.pop();
  if (token === 'NOT') return { kind: 'not', node: readOperand(tokens, depth + 1) };
  if (token === '(') {
    const inner = readExpression(tokens, depth + 1);
    if (tokens.pop() !== ')') throw malformedQuery("unexpected token: expecting ')'");
    return inner;
  }
  if (token === undefined || typeof token === 'string')
    throw malformedQuery(`unexpected token: ${token ?? '<EOF>'}`);
  return { kind: 'test', condition: token };
}

/** AND and OR may not be mixed on one level: SOQL has no precedence between them and asks for parentheses. */
function readExpression(tokens: Token[], depth: number): ConditionTree {
  const first = readOperand(tokens, depth);
  const joiner = tokens.at(-1);
  if (joiner !== 'AND' && joiner !== 'OR') return first;
  const nodes = [first];
  while (tokens.at(-1) === joiner) {
    tokens.pop();
    nodes.push(readOperand(tokens, depth));
  }
  const next = tokens.at(-1);
  if (next === 'AND' || next === 'OR') throw malformedQuery(`unexpected token: ${next}`);
  return { kind: joiner === 'AND' ? 'and' : 'or', nodes };
}

/**
 * The conditions of a WHERE clause as a tree. The parser gives a flat list with counts of parentheses.
 * @throws ApiError MALFORMED_QUERY for what SOQL would not take.
 */
export function readConditions(where: WhereClause): ConditionTree {
  const tokens = flatten(where).reverse();
  const tree = readExpression(tokens, 0);
  if (tokens.length > 0) throw malformedQuery("unexpected token: ')'");
  return tree;
}

/** How many times NOT stands in a tree, alone or in NOT IN. */
export function countNegations(tree: ConditionTree): number {
  if (tree.kind === 'test') {
    const { operator, semiJoin } = tree.condition;
    return (operator === 'NOT IN' ? 1 : 0) + (semiJoin?.where ? countNegations(semiJoin.where) : 0);
  }
  if (tree.kind === 'not') return 1 + countNegations(tree.node);
  return tree.nodes.reduce((count, node) => count + countNegations(node), 0);
}
