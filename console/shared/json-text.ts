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
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    depth += depthChanges[char] ?? 0;
    if (char === '"') at = endOfString(text, at) - 1;
    else if (char === ',' && depth === 0) commas.push(at);
  }
  return commas;
}

const depthChanges: Record<string, number> = { '{': 1, '[': 1, '}': -1, ']': -1 };

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text.charAt(at) !== '"') at += text.charAt(at) === '\\' ? 2 : 1;
  return at + 1;
}

/** The text with line breaks and indentation. */
export function pretty(json: string, indent = ''): string {
  const text = json.trim();
  const [open] = text;
  if (open !== '{' && open !== '[') return text;
  const deeper = `${indent}  `;
  const show =
    open === '['
      ? partsOf(text).map((part) => deeper + pretty(part, deeper))
      : fieldsOf(text).map(
          ({ name, text: value }) => `${deeper}${JSON.stringify(name)}: ${pretty(value, deeper)}`,
        );
  const close = open === '{' ? '}' : ']';
  return show.length === 0 ? open + close : `${open}\n${show.join(',\n')}\n${indent}${close}`;
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
