/** Preferences of a request (RFC 7240) that the service honours. */
export interface Preferences {
  /** `respond-async`: an answer before the work is done will do. */
  respondAsync: boolean;
  /** `wait=N`: this many seconds may be waited for the work all the same. */
  waitSeconds: number;
}

const nothing: Preferences = { respondAsync: false, waitSeconds: 0 };

/** Seconds; longer ones count as this. */
const longestWait = 20;

/** A longer header is ignored. */
const longestHeader = 1000;

/** One preference: a name, perhaps a value, bare or quoted. Parameters after a semicolon are not for us. */
const preference = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s;,"]*))?\s*(?:;|$)/;

/**
 * Reads the header Prefer, of which Node joins several with commas. Of several with one name the first counts. What is
 * malformed or unknown is ignored, as the RFC has it.
 */
export function readPreferences(header: string | string[] | undefined): Preferences {
  if (header === undefined) return nothing;
  const found = valuesOf([header].flat().join());
  const respondAsync = found.get('respond-async') === '';
  const wait = found.get('wait') ?? '';
  const isWaiting = respondAsync && /^\d+$/.test(wait);
  return { respondAsync, waitSeconds: isWaiting ? Math.min(longestWait, Number(wait)) : 0 };
}

function valuesOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of text.length > longestHeader ? [] : splitList(text)) {
    const [, name, value = ''] = preference.exec(part) ?? [];
    if (name !== undefined && !found.has(name.toLowerCase())) found.set(name.toLowerCase(), unquote(value));
  }
  return found;
}

function splitList(text: string): string[] {
  return text.match(/(?:"(?:[^"\\]|\\.)*"|[^,])+/g) ?? [];
}

function unquote(value: string): string {
  return value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value;
}
