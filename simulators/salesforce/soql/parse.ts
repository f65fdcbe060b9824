import type { Query } from '@jetstreamapp/soql-parser-js';
import { type ConditionTree, countNegations, readConditions } from './conditions.ts';
import { type Literal, splitLiterals } from './literals.ts';
import { malformedQuery } from './query-error.ts';

export interface OrderTerm {
  field: string;
  descending: boolean;
  nullsLast: boolean;
}

/** The part of SOQL that is simulated, taken apart. */
export interface ParsedQuery {
  soql: string;
  literals: Literal[];
  object: string;
  count: boolean;
  fields: string[];
  where: ConditionTree | undefined;
  orderBy: OrderTerm[];
  limit: number | undefined;
  offset: number | undefined;
}

type Shape = Omit<ParsedQuery, 'soql' | 'literals'>;

const MAX_QUERY = 100_000;
const MAX_SHAPES = 500;
/** What the simulation knows; any other clause is refused by name instead of being passed over in silence. */
const KNOWN_CLAUSES = new Set(['fields', 'sObject', 'where', 'orderBy', 'limit', 'offset']);

let parseQuery: ((soql: string) => Query) | undefined;

/** Loads the parser on first use: it is most of this program's memory, and an org without queries needs none. */
export async function loadSoqlParser(): Promise<void> {
  parseQuery ??= (await import('@jetstreamapp/soql-parser-js')).parseQuery;
}

function fieldName(field: NonNullable<Query['fields']>[number]): string {
  if (field.type === 'Field' && !('alias' in field)) return field.field;
  if (field.type === 'FieldRelationship' && !('alias' in field)) return field.rawValue ?? field.field;
  throw malformedQuery('only plain and parent fields and COUNT() are simulated in SELECT');
}

function isCount(query: Query): boolean {
  const [first, ...rest] = query.fields ?? [];
  if (first?.type !== 'FieldFunctionExpression' || rest.length > 0) return false;
  return first.functionName?.toUpperCase() === 'COUNT' && (first.parameters ?? []).length === 0;
}

function readOrder(query: Query): OrderTerm[] {
  const clauses = query.orderBy === undefined ? [] : [query.orderBy].flat();
  return clauses.map((clause) => {
    if (!('field' in clause)) throw malformedQuery('functions in ORDER BY are not simulated');
    return { field: clause.field, descending: clause.order === 'DESC', nullsLast: clause.nulls === 'LAST' };
  });
}

function toShape(query: Query): Shape {
  const unknown = Object.keys(query).find((clause) => !KNOWN_CLAUSES.has(clause));
  if (unknown !== undefined) throw malformedQuery(`${unknown} is not simulated`);
  const count = isCount(query);
  return {
    object: query.sObject ?? '',
    count,
    fields: count ? [] : (query.fields ?? []).map(fieldName),
    where: query.where === undefined ? undefined : readConditions(query.where),
    orderBy: readOrder(query),
    limit: query.limit,
    offset: query.offset,
  };
}

function parseShape(text: string): Shape {
  if (parseQuery === undefined) throw new Error('loadSoqlParser has not been awaited');
  let query: Query;
  try {
    query = parseQuery(text);
  } catch (error) {
    throw malformedQuery(`unexpected token: ${error instanceof Error ? error.message.slice(0, 300) : ''}`);
  }
  const shape = toShape(query);
  // The parser drops the third of three nested NOTs in silence: such a query is refused rather than misread.
  if (countNots(text) !== (shape.where === undefined ? 0 : countNegations(shape.where))) {
    throw malformedQuery('NOT nested this deeply is not simulated');
  }
  return shape;
}

function countNots(text: string): number {
  return text.match(/\bNOT\b/gi)?.length ?? 0;
}

const shapes = new Map<string, Shape>();

function cachedShape(text: string): Shape {
  const known = shapes.get(text);
  if (known !== undefined) return known;
  const shape = parseShape(text);
  // Dropping all is enough: an application has far fewer shapes than this.
  if (shapes.size >= MAX_SHAPES) shapes.clear();
  shapes.set(text, shape);
  return shape;
}

/** @throws ApiError MALFORMED_QUERY for what is no SOQL or is not simulated. */
export function parseSoql(soql: string): ParsedQuery {
  if (soql.length > MAX_QUERY) {
    throw malformedQuery(`SOQL statements cannot be longer than ${MAX_QUERY} characters.`);
  }
  const { shape, literals } = splitLiterals(soql);
  return { soql, literals, ...cachedShape(shape) };
}
