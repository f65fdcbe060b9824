/*
 * JSON as text. JSON.parse would round long numbers; here every value stays as it was written. All functions take text
 * that JSON.parse has accepted.
 */

/** A field of an object: its name, and its value as text. */
export interface Field {
  name: string;
  text: string;
}

/** The fields of an object, in order. */
export function fieldsOf(json: string): Field[] {
  return partsOf(json).map((part) => {
    const colon = endOfString(part, 0);
    const name = JSON.parse(part.slice(0, colon)) as string;
    return { name, text: part.slice(part.indexOf(':', colon) + 1).trim() };
  });
}

/** The value of a field as text; of several with one name the last counts, as JSON.parse has it. */
export function fieldOf(json: string, name: string): string | undefined {
  return fieldsOf(json).findLast((field) => field.name === name)?.text;
}

/** The items of an array, or the fields of an object, each as text. */
export function partsOf(json: string): string[] {
  const text = json.trim();
  const inner = text.slice(1, -1);
  const ends = [...commasOf(inner), inner.length];
  return ends.map((end, i) => inner.slice((ends[i - 1] ?? -1) + 1, end).trim()).filter((part) => part !== '');
}

/** Where the commas stand that are in no text and in nothing deeper. */
function commasOf(text: string): number[] {
  const commas: number[] = [];
  for (const { char, at, depth } of marksOf(text)) if (char === ',' && depth === 0) commas.push(at);
  return commas;
}

/** How many levels of objects and arrays stand in each other. */
export function depthOf(json: string): number {
  let deepest = 0;
  for (const { depth } of marksOf(json)) deepest = Math.max(deepest, depth);
  return deepest;
}

/** Brackets and commas that are in no text, with how many brackets are open then. */
function* marksOf(text: string) {
  let depth = 0;
  // What counts is searched for: texts of megabytes are read here.
  const marks = /[",[\]{}]/g;
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    const [char] = mark;
    depth += depthChanges[char] ?? 0;
    if (char === '"') marks.lastIndex = endOfString(text, mark.index);
    else yield { char, at: mark.index, depth };
  }
}

const depthChanges: Record<string, number> = { '{': 1, '[': 1, '}': -1, ']': -1 };

function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end + 1;
}

/** An odd number of backslashes stands before it. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charAt(first - 1) === '\\') first -= 1;
  return (at - first) % 2 === 1;
}

/** Deeper levels are set in no further: the text would grow with the square of the depth. */
const deepestIndent = 40;

/** The text with line breaks and indentation. */
export function pretty(json: string): string {
  let shown = '';
  let depth = 0;
  let before = '';
  for (const [token] of json.matchAll(/"(?:[^"\\]+|\\.)*"|[^\s"]/g)) {
    const change = depthChanges[token] ?? 0;
    const follows = before === ',' || depthChanges[before] === 1;
    const isEmpty = change < 0 && depthChanges[before] === 1;
    depth += Math.min(change, 0);
    if ((follows || change < 0) && !isEmpty) shown += `\n${'  '.repeat(Math.min(depth, deepestIndent))}`;
    depth += Math.max(change, 0);
    shown += token === ':' ? ': ' : token;
    before = token;
  }
  return shown;
}

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

/** The value with its numbers as texts of their digits, for showing. */
export function parseDigits(json: string): unknown {
  const keep: Reviver = (_key, value, context) =>
    typeof value === 'number' ? (context?.source ?? String(value)) : value;
  return JSON.parse(json, keep as Parameters<typeof JSON.parse>[1]);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
