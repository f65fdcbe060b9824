export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** The form of RFC 3339; `Date` takes 24:00 too. */
const form = /^(\d{4})-(\d\d)-(\d\d)T(?!24)\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i;

/** Years, in UTC, that both the database and the CRM can store; some programs send `0001-01-01` for "ever since". */
const [firstYear, lastYear] = [1, 9999];

export const momentRule = `must be a time of the years ${firstYear} to ${lastYear}, as RFC 3339 writes it`;

/**
 * Milliseconds since 1970 of a time in the format of RFC 3339. Undefined for any other text, for days that a month does not
 * have and leap seconds, and for years (in UTC) outside 1 to 9999.
 */
export function readMoment(text: string): number | undefined {
  const parts = form.exec(text);
  if (parts === null) return undefined;
  const [, year, month, day] = parts.map(Number);
  const lastDay = new Date(Date.UTC(year as number, month as number, 0)).getUTCDate();
  if ((day as number) > lastDay) return undefined;
  const ms = Date.parse(text);
  const found = new Date(ms).getUTCFullYear();
  return found >= firstYear && found <= lastYear ? ms : undefined;
}

let lastMs = Number.NaN;
let lastText = '';

/** Milliseconds since 1970 as RFC 3339 in UTC. The last text is kept: a busy process writes the same one many times. */
export function formatTimestamp(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
