/*
 * JSON as text: finding one member and removing white space without parsing numbers, so that a value passes through
 * digit for digit. All functions take text that JSON.parse has accepted; for other text the result has no meaning.
 */

const quote = 34;
const comma = 44;
const backslash = 92;

/** Text of one value without insignificant white space, and how deep it nests (a scalar 0, `{}` 1, `{"a":[]}` 2). */
export interface CompactJson {
  text: string;
  depth: number;
}

/**
 * The value that JSON.parse would give for `path` below a top-level object, as compact text; undefined where there
 * is none. Of several members with one name the last counts, as JSON.parse has it.
 */
export function compactMember(json: string, path: readonly string[]): CompactJson | undefined {
  let start = skipWhiteSpace(json, 0);
  for (const name of path) {
    const found = json[start] === '{' ? lastMember(json, start, name) : undefined;
    if (found === undefined) return undefined;
    start = found;
  }
  return compact(json, start, endOfValue(json, start));
}

/** Index of the value of the last member called `name` in the object that starts at `start`. */
function lastMember(json: string, start: number, name: string): number | undefined {
  let found: number | undefined;
  let at = skipWhiteSpace(json, start + 1);
  while (json.charCodeAt(at) === quote) {
    const keyEnd = endOfString(json, at);
    const value = skipWhiteSpace(json, skipWhiteSpace(json, keyEnd) + 1);
    // Parsed, since a key may be written with escapes.
    if (JSON.parse(json.slice(at, keyEnd)) === name) found = value;
    at = skipWhiteSpace(json, endOfValue(json, value));
    if (json.charCodeAt(at) === comma) at = skipWhiteSpace(json, at + 1);
  }
  return found;
}

function compact(json: string, start: number, end: number): CompactJson {
  let text = '';
  let runStart = start;
  let depth = 0;
  let deepest = 0;
  let at = start;
  while (at < end) {
    const code = json.charCodeAt(at);
    if (code === quote) {
      at = endOfString(json, at);
      continue;
    }
    if (isWhiteSpace(code)) {
      text += json.slice(runStart, at);
      at = skipWhiteSpace(json, at);
      runStart = at;
      continue;
    }
    if (opens(code)) deepest = Math.max(deepest, ++depth);
    else if (closes(code)) depth--;
    at++;
  }
  return { text: text + json.slice(runStart, end), depth: deepest };
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
