import { malformedQuery } from './query-error.ts';

/** A string literal of a query, its quotes taken off. */
export interface Literal {
  /** With its escapes still in place; `LIKE` needs to distinguish `%` from `\%`. */
  raw: string;
  like: boolean;
}

/** A query whose string literals are taken out and replaced by their numbers: `Name = '0'`. */
export interface SplitQuery {
  shape: string;
  literals: Literal[];
}

const MAX_LITERAL = 4000;
const ESCAPES: Record<string, string> = {
  n: '\n',
  r: '\r',
  t: '\t',
  b: '\b',
  f: '\f',
  '"': '"',
  "'": "'",
  '\\': '\\',
};

/** Length of the escape at `index` (a backslash). @throws ApiError MALFORMED_QUERY for one that SOQL does not have. */
function escapeLength(soql: string, index: number, like: boolean): number {
  const next = soql.charAt(index + 1);
  if (next in ESCAPES) return 2;
  if (next === 'u' && /^[0-9a-fA-F]{4}$/.test(soql.slice(index + 2, index + 6))) return 6;
  if (like && (next === '_' || next === '%')) return 2;
  throw malformedQuery(
    `line 1:${index} Illegal string literal: Invalid string literal, \\${next} is not an escape`,
  );
}

function literalEnd(soql: string, start: number, like: boolean): number {
  for (let index = start; index < soql.length; ) {
    const character = soql.charAt(index);
    if (character === "'") return index;
    index += character === '\\' ? escapeLength(soql, index, like) : 1;
  }
  throw malformedQuery(`line 1:${start} string literal is not terminated`);
}

/**
 * Takes the string literals out of a query, checking every escape (SOQL Reference, Quoted String Escape Sequences).
 * The parser then sees nothing that came from a user, and queries that differ in their literals only share a shape.
 * @throws ApiError MALFORMED_QUERY for an unknown escape or an open literal.
 */
export function splitLiterals(soql: string): SplitQuery {
  const literals: Literal[] = [];
  let shape = '';
  let position = 0;
  for (let quote = soql.indexOf("'"); quote >= 0; quote = soql.indexOf("'", position)) {
    const before = soql.slice(position, quote);
    const like = /\blike\s*$/i.test(before.slice(-12));
    const end = literalEnd(soql, quote + 1, like);
    if (end - quote - 1 > MAX_LITERAL) {
      throw malformedQuery(
        `string literals in a WHERE clause can't be longer than ${MAX_LITERAL} characters`,
      );
    }
    shape += `${before}'${literals.length}'`;
    literals.push({ raw: soql.slice(quote + 1, end), like });
    position = end + 1;
  }
  return { shape: shape + soql.slice(position), literals };
}

/** One character of a literal: `escaped` distinguishes `\%` from `%`. */
interface LiteralCharacter {
  value: string;
  escaped: boolean;
}

function* charactersOf(raw: string): Iterable<LiteralCharacter> {
  for (let index = 0; index < raw.length; ) {
    if (raw.charAt(index) !== '\\') {
      yield { value: raw.charAt(index), escaped: false };
      index += 1;
    } else if (raw.charAt(index + 1) === 'u') {
      yield {
        value: String.fromCharCode(Number.parseInt(raw.slice(index + 2, index + 6), 16)),
        escaped: true,
      };
      index += 6;
    } else {
      const next = raw.charAt(index + 1);
      yield { value: ESCAPES[next] ?? next, escaped: true };
      index += 2;
    }
  }
}

/** The text that a literal stands for. */
export function decodeLiteral(literal: Literal): string {
  if (!literal.raw.includes('\\')) return literal.raw;
  let text = '';
  for (const character of charactersOf(literal.raw)) text += character.value;
  return text;
}

/** A test of text against a LIKE pattern: `%` any run, `_` one character, both literal after a backslash. */
export function likeMatcher(literal: Literal, fold: (text: string) => string): (text: string) => boolean {
  const pattern = [...charactersOf(literal.raw)].map(({ value, escaped }) => ({
    value: fold(value),
    any: !escaped && value === '%',
    one: !escaped && value === '_',
  }));
  return (text) => matchWildcards(pattern, fold(text));
}

/** Two pointers with one fallback: linear for ordinary patterns, never exponential as a backtracking RegExp may be. */
function matchWildcards(pattern: { value: string; any: boolean; one: boolean }[], text: string): boolean {
  let at = 0;
  let index = 0;
  let star = -1;
  let resume = 0;
  while (index < text.length) {
    const part = pattern[at];
    if (part?.any) {
      star = at;
      resume = index;
      at += 1;
    } else if (part !== undefined && (part.one || part.value === text.charAt(index))) {
      at += 1;
      index += 1;
    } else if (star >= 0) {
      resume += 1;
      index = resume;
      at = star + 1;
    } else {
      return false;
    }
  }
  return pattern.slice(at).every((part) => part.any);
}
