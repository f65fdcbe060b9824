/** Whether a value of JSON is an object: no array, no scalar, not null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/*
 * JSON as text: finding one field and removing white space without parsing numbers, so that a value passes through
 * digit for digit. All functions take text that JSON.parse has accepted; for other text the result has no meaning.
 */

const quote = 34;
const comma = 44;
const backslash = 92;

/** Makes an object that is written as this JSON text: numbers keep their digits. The compiler's library does not have it yet. */
export const { rawJSON: rawJson } = JSON as unknown as { rawJSON: (text: string) => object };

/** Text of one value without insignificant white space, and how deep it nests (a scalar 0, `{}` 1, `{"a":[]}` 2). */
export interface CompactJson {
  text: string;
  depth: number;
}

/**
 * The value that JSON.parse would give for `path` below a top-level object, as compact text; undefined where there
 * is none. Of several fields with one name the last counts, as JSON.parse has it; the name of an item is its index.
 */
export function compactField(json: string, path: readonly string[]): CompactJson | undefined {
  const start = startOfField(json, path);
  return start === undefined ? undefined : compact(json, start);
}

/** Text of a field's value, exactly as it stands; undefined where there is none. */
export function fieldText(json: string, path: readonly string[]): string | undefined {
  const start = startOfField(json, path);
  return start === undefined ? undefined : json.slice(start, endOfValue(json, start));
}

/** Texts of the first `most` items of the array in a field, exactly as they stand; none where there is no array. */
export function itemTexts(json: string, path: readonly string[], most: number): string[] {
  const start = startOfField(json, path);
  const texts: string[] = [];
  if (start !== undefined && json[start] === '[')
    eachItem(json, start, most, (item, end) => texts.push(json.slice(item, end)));
  return texts;
}

function startOfField(json: string, path: readonly string[]): number | undefined {
  let start = startOfValue(json);
  for (const name of path) {
    const found = json[start] === '{' ? lastField(json, start, name) : itemAt(json, start, name);
    if (found === undefined) return undefined;
    start = found;
  }
  return start;
}

export function startOfValue(json: string): number {
  return skipWhiteSpace(json, 0);
}

/**
 * Calls `visit` with the name and the index of the value of each field of the object that starts at `start`, until it
 * returns false.
 */
export function eachField(
  json: string,
  start: number,
  visit: (name: string, value: number) => boolean,
): void {
  let at = skipWhiteSpace(json, start + 1);
  while (json.charCodeAt(at) === quote) {
    const keyEnd = endOfString(json, at);
    const value = skipWhiteSpace(json, skipWhiteSpace(json, keyEnd) + 1);
    if (!visit(nameAt(json, at, keyEnd), value)) return;
    at = skipWhiteSpace(json, endOfValue(json, value));
    if (json.charCodeAt(at) === comma) at = skipWhiteSpace(json, at + 1);
  }
}

/** Calls `visit` with the index of each of the first `most` items of the array that starts at `start`, and with its end. */
export function eachItem(
  json: string,
  start: number,
  most: number,
  visit: (item: number, end: number) => void,
): void {
  let at = skipWhiteSpace(json, start + 1);
  for (let left = most; left > 0 && !closes(json.charCodeAt(at)); left--) {
    const end = endOfValue(json, at);
    visit(at, end);
    at = skipWhiteSpace(json, end);
    if (json.charCodeAt(at) === comma) at = skipWhiteSpace(json, at + 1);
  }
}

export function pickFields(json: string, isWanted: (name: string) => boolean): string {
  const picked: string[] = [];
  eachField(json, startOfValue(json), (name, value) => {
    if (isWanted(name)) picked.push(`${JSON.stringify(name)}:${json.slice(value, endOfValue(json, value))}`);
    return true;
  });
  return `{${picked.join(',')}}`;
}

/**
 * Replaces the value of each field `name` by what `write` returns for it; matches inside such a value are left alone. Below
 * `levels` nothing is looked for: to be given for text that may have many.
 */
export function replaceFields(
  json: string,
  name: string,
  write: (text: string) => string,
  levels = Number.POSITIVE_INFINITY,
): string {
  const parts: string[] = [];
  let done = 0;
  const walk = (start: number, left: number): void => {
    if (left === 0) return;
    if (json[start] === '[')
      return eachItem(json, start, Number.POSITIVE_INFINITY, (item) => walk(item, left - 1));
    if (json[start] !== '{') return;
    eachField(json, start, (field, value) => {
      if (field === name) {
        const end = endOfValue(json, value);
        parts.push(json.slice(done, value), write(json.slice(value, end)));
        done = end;
      } else walk(value, left - 1);
      return true;
    });
  };
  walk(startOfValue(json), levels);
  return parts.join('') + json.slice(done);
}

/**
 * The value with the fields of its objects in order and its strings written in one way, so that equal values have the same text,
 * numbers as they stand. Below `levels` it is taken as it stands. One pass over the text, however deep it nests.
 */
export function sortedText(json: string, levels: number): string {
  return sortedValue(json, startOfValue(json), levels).text;
}

interface Sorted {
  text: string;
  end: number;
}

function sortedValue(json: string, start: number, levels: number): Sorted {
  const first = json.charCodeAt(start);
  if (opens(first) && levels > 0) return sortedItems(json, start, levels);
  const end = endOfValue(json, start);
  return { text: first === quote ? stringAt(json, start, end) : json.slice(start, end), end };
}

function sortedItems(json: string, start: number, levels: number): Sorted {
  const hasNames = json[start] === '{';
  const items = new Map<string, string>();
  let at = skipWhiteSpace(json, start + 1);
  while (!closes(json.charCodeAt(at))) {
    let name = String(items.size);
    if (hasNames) {
      const end = endOfString(json, at);
      name = stringAt(json, at, end);
      at = skipWhiteSpace(json, skipWhiteSpace(json, end) + 1);
    }
    const { text, end } = sortedValue(json, at, levels - 1);
    items.set(name, text);
    at = skipWhiteSpace(json, end);
    if (json.charCodeAt(at) === comma) at = skipWhiteSpace(json, at + 1);
  }
  if (!hasNames) return { text: `[${[...items.values()].join(',')}]`, end: at + 1 };
  const names = [...items.keys()].sort();
  return { text: `{${names.map((name) => `${name}:${items.get(name)}`).join(',')}}`, end: at + 1 };
}

/** Copies only those escapes that the string needs. */
function stringAt(json: string, start: number, end: number): string {
  const text = json.slice(start, end);
  return text.includes('\\') ? JSON.stringify(JSON.parse(text)) : text;
}

export function fieldTexts(json: string): Map<string, string> {
  const texts = new Map<string, string>();
  eachField(json, startOfValue(json), (name, value) => {
    texts.set(name, json.slice(value, endOfValue(json, value)));
    return true;
  });
  return texts;
}

function nameAt(json: string, start: number, end: number): string {
  const name = json.slice(start + 1, end - 1);
  return name.includes('\\') ? (JSON.parse(json.slice(start, end)) as string) : name;
}

function lastField(json: string, start: number, name: string): number | undefined {
  let found: number | undefined;
  eachField(json, start, (field, value) => {
    if (field === name) found = value;
    return true;
  });
  return found;
}

/** Index of an item of the array that starts at `start`; undefined where there is no array, or none so long. */
function itemAt(json: string, start: number, name: string): number | undefined {
  const index = /^(0|[1-9]\d{0,6})$/.test(name) ? Number(name) : undefined;
  if (index === undefined || json[start] !== '[') return undefined;
  let found: number | undefined;
  let seen = 0;
  eachItem(json, start, index + 1, (item) => {
    if (seen === index) found = item;
    seen += 1;
  });
  return found;
}

/** Copied unit by unit: with white space after every other character, slices would be slow. */
function compact(json: string, start: number): CompactJson {
  if (!opens(json.charCodeAt(start))) return { text: json.slice(start, endOfValue(json, start)), depth: 0 };
  const units = new Uint16Array(json.length - start);
  let length = 0;
  let widest = 0;
  let depth = 0;
  let deepest = 0;
  let at = start;
  do {
    const code = json.charCodeAt(at);
    if (isWhiteSpace(code)) {
      at++;
      continue;
    }
    if (opens(code)) deepest = Math.max(deepest, ++depth);
    else if (closes(code)) depth--;
    const next = code === quote ? endOfString(json, at) : at + 1;
    for (; at < next; at++) {
      const unit = json.charCodeAt(at);
      units[length++] = unit;
      widest |= unit;
    }
  } while (depth > 0);
  return { text: textOf(units.subarray(0, length), widest), depth: deepest };
}

function textOf(units: Uint16Array, widest: number): string {
  if (widest < 256) return Buffer.from(units).toString('latin1');
  return Buffer.from(units.buffer, units.byteOffset, units.byteLength).toString('utf16le');
}

function endOfValue(json: string, start: number): number {
  const first = json.charCodeAt(start);
  if (first === quote) return endOfString(json, start);
  if (!opens(first)) return endOfScalar(json, start);
  let depth = 0;
  let at = start;
  do {
    const code = json.charCodeAt(at);
    if (code === quote) {
      at = endOfString(json, at);
      continue;
    }
    if (opens(code)) depth++;
    else if (closes(code)) depth--;
    at++;
  } while (depth > 0);
  return at;
}

function endOfString(json: string, start: number): number {
  let at = start + 1;
  for (;;) {
    const code = json.charCodeAt(at);
    if (code === quote) return at + 1;
    at += code === backslash ? 2 : 1;
  }
}

function endOfScalar(json: string, start: number): number {
  let at = start;
  while (at < json.length) {
    const code = json.charCodeAt(at);
    if (code === comma || closes(code) || isWhiteSpace(code)) break;
    at++;
  }
  return at;
}

function skipWhiteSpace(json: string, start: number): number {
  let at = start;
  while (isWhiteSpace(json.charCodeAt(at))) at++;
  return at;
}

/** RFC 8259 section 2: space, tab, line feed, carriage return. */
function isWhiteSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}

function opens(code: number): boolean {
  return code === 123 || code === 91;
}

function closes(code: number): boolean {
  return code === 125 || code === 93;
}
