import { type TSchema, Type } from 'typebox';
import { readMoment } from '../platform/base/moment.ts';

/**
 * Content that a field of the org can hold, as its description says. A value is kept as text: numbers digit for digit, booleans as
 * `true` and `false`, lists as the CRM writes them, with semicolons.
 */
export type OrgType =
  | { kind: 'text'; maxLength: number }
  /** Digits before the point, and behind it. */
  | { kind: 'number'; whole: number; decimals: number }
  | { kind: 'boolean' }
  /** `2027-04-12`. */
  | { kind: 'date' }
  /** RFC 3339; the CRM keeps whole seconds. */
  | { kind: 'timestamp' }
  | { kind: 'choice'; values: readonly string[] }
  /** Any values where none are listed. */
  | { kind: 'choices'; values?: readonly string[] | undefined };

/** A value as it is kept, or what is wrong with it, as the end of a sentence. */
export type ReadValue = { value: string | null } | { fault: string };

const jsonNumber = /^-?(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/;
const longestNumber = 40;
const mostChoices = 500;
const day = /^(\d{4})-\d{2}-\d{2}$/;

export function isNumber(text: string): boolean {
  return jsonNumber.test(text);
}

export function isDate(text: string): boolean {
  const year = Number(day.exec(text)?.[1]);
  if (!(year >= 1700 && year <= 4000)) return false;
  const moment = new Date(`${text}T00:00:00.000Z`);
  return !Number.isNaN(moment.getTime()) && moment.toISOString().startsWith(text);
}

const typeNames: Record<OrgType['kind'], string> = {
  text: 'text',
  choice: 'text',
  number: 'a number',
  boolean: 'true or false',
  date: 'a date',
  timestamp: 'a date and time',
  choices: 'a list of values',
};

export function nameOfType({ kind }: OrgType): string {
  return typeNames[kind];
}

export function schemaOf(type: OrgType): TSchema {
  if (type.kind === 'text') return Type.String({ minLength: 1, maxLength: type.maxLength });
  if (type.kind === 'number') return numberSchema(type);
  if (type.kind === 'boolean') return Type.Boolean();
  if (type.kind === 'choice') return Type.Enum([...type.values]);
  if (type.kind === 'choices')
    return Type.Array(filterSchemaOf(type), { maxItems: mostChoices, uniqueItems: true });
  const isDay = type.kind === 'date';
  return Type.String({
    format: isDay ? 'date' : 'date-time',
    maxLength: isDay ? 10 : 40,
    examples: [isDay ? '2027-04-12' : '2027-04-12T14:00:00.000Z'],
  });
}

function numberSchema({ whole, decimals }: OrgType & { kind: 'number' }): TSchema {
  const most = Number(`${'9'.repeat(whole) || '0'}.${'9'.repeat(decimals) || '0'}`);
  const bounds = { minimum: -most, maximum: most };
  if (decimals === 0) return Type.Integer({ format: 'int64', ...bounds, examples: [1] });
  // Not `multipleOf`: few validators compute it without binary rounding.
  return Type.Number({ ...bounds, examples: [1.5], 'x-decimals': decimals });
}

export function filterSchemaOf(type: OrgType): TSchema {
  if (type.kind !== 'choices') return schemaOf(type);
  return type.values ? Type.Enum([...type.values]) : Type.String({ minLength: 1, maxLength: 255 });
}

/** Reads a value from JSON text that JSON.parse has accepted. Null is none, which of booleans the CRM keeps as false. */
export function readJsonValue(type: OrgType, json: string): ReadValue {
  if (json === 'null') return { value: type.kind === 'boolean' ? 'false' : null };
  switch (type.kind) {
    case 'number':
      return readNumber(type, json);
    case 'boolean':
      return json === 'true' || json === 'false' ? { value: json } : { fault: 'must be a boolean' };
    case 'choices':
      return readChoices(type, json);
    default:
      return json.startsWith('"')
        ? readText(type, JSON.parse(json) as string)
        : { fault: 'must be a string' };
  }
}

export function readFilter(type: OrgType, text: string): ReadValue {
  if (type.kind === 'choices') return readChoice(type.values, text);
  // Null is a value of JSON, and none to look for.
  if (text === 'null' && (type.kind === 'number' || type.kind === 'boolean'))
    return { fault: `must be a ${type.kind}` };
  const isQuoted = type.kind !== 'number' && type.kind !== 'boolean';
  const read = readJsonValue(type, isQuoted ? JSON.stringify(text) : text);
  return type.kind === 'number' && 'value' in read ? { value: plainNumber(text) } : read;
}

/** A number as queries take it: without exponent, and without digits that do not count. */
function plainNumber(text: string): string {
  const [, first = '', second = '', exponent = '0'] = jsonNumber.exec(text) ?? [];
  const digits = `${first}${second}`;
  const point = first.length + Number(exponent);
  const whole = digits.slice(0, Math.max(0, point)).padEnd(point, '0').replace(/^0+/, '');
  const fraction = `${'0'.repeat(Math.max(0, -point))}${digits.slice(Math.max(0, point))}`.replace(/0+$/, '');
  if (whole === '' && fraction === '') return '0';
  const sign = text.startsWith('-') ? '-' : '';
  return `${sign}${whole || '0'}${fraction && `.${fraction}`}`;
}

function readText(
  type: Exclude<OrgType, { kind: 'number' | 'boolean' | 'choices' }>,
  text: string,
): ReadValue {
  if (type.kind === 'text') return readPlainText(type.maxLength, text);
  if (type.kind === 'choice') return readChoice(type.values, text);
  if (type.kind === 'timestamp') return readTimestamp(text);
  return isDate(text)
    ? { value: text }
    : { fault: 'must be a day of the years 1700 to 4000, such as 2027-04-12' };
}

function readPlainText(maxLength: number, text: string): ReadValue {
  if (!text.isWellFormed() || text.includes('\0'))
    return { fault: 'must be well-formed text without the NUL character' };
  if (text.trim() === '') return { fault: 'must contain more than white space' };
  return text.length > maxLength ? { fault: `must have at most ${maxLength} characters` } : { value: text };
}

/** The CRM keeps no parts of a second. */
function readTimestamp(text: string): ReadValue {
  const ms = readMoment(text);
  const [first, last] = [Date.UTC(1700, 0, 1), Date.UTC(4001, 0, 1) - 1];
  if (ms === undefined || ms < first || ms > last)
    return { fault: 'must be a time of the years 1700 to 4000, as RFC 3339 writes it' };
  return { value: new Date(Math.floor(ms / 1000) * 1000).toISOString() };
}

function readNumber({ whole, decimals }: OrgType & { kind: 'number' }, json: string): ReadValue {
  const parts = jsonNumber.exec(json);
  if (parts === null) return { fault: 'must be a number' };
  if (json.length > longestNumber) return { fault: `must have at most ${longestNumber} characters` };
  const { before, behind } = digitsOf(parts);
  if (before > whole) return { fault: `must have at most ${whole} digits before the point` };
  if (behind <= decimals) return { value: json };
  return {
    fault: decimals === 0 ? 'must be a whole number' : `must have at most ${decimals} decimal places`,
  };
}

/** How many digits that count stand before the point, and behind it, where the number is written without exponent. */
function digitsOf([, first = '', second = '', exponent = '0']: RegExpExecArray) {
  const digits = `${first}${second}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return { before: 0, behind: 0 };
  const behind = second.length - Number(exponent);
  return { before: digits.length - behind, behind: behind - (digits.length - significant.length) };
}

function readChoice(values: readonly string[] | undefined, text: string): ReadValue {
  if (values === undefined) {
    if (text.includes(';')) return { fault: 'must not hold a semicolon' };
    return readPlainText(255, text);
  }
  return values.includes(text)
    ? { value: text }
    : { fault: `must be one of ${values.slice(0, 50).join(', ')}` };
}

function readChoices({ values }: OrgType & { kind: 'choices' }, json: string): ReadValue {
  const given: unknown = json.startsWith('[') ? JSON.parse(json) : undefined;
  if (!Array.isArray(given) || given.length > mostChoices)
    return { fault: `must be a list of at most ${mostChoices} texts` };
  const found = new Set<string>();
  for (const item of given) {
    if (typeof item !== 'string') return { fault: 'must be a list of texts' };
    const read = readChoice(values, item);
    if ('fault' in read) return { fault: `must be a list: each ${read.fault}` };
    found.add(item);
  }
  return { value: found.size === 0 ? null : [...found].join(';') };
}

/** A kept value as JSON text; null for one that is not of this type (any more). */
export function toJson(kind: string, value: string | null | undefined): string {
  if (value === null || value === undefined) return 'null';
  switch (kind) {
    case 'number':
      return isNumber(value) ? value : 'null';
    case 'boolean':
      return String(value === 'true');
    case 'choices':
      return JSON.stringify(value.split(';'));
    default:
      return JSON.stringify(value);
  }
}

/**
 * Whether two kept values are the same: the CRM writes numbers in its own way, puts lists in its own order, and takes white space off the
 * ends of texts.
 */
export function isSame(kind: string | undefined, a: string | null | undefined, b: string | null): boolean {
  if (kind === 'text' && a !== undefined) return keptText(a) === keptText(b);
  if (a === b || a === null || a === undefined || b === null) return a === b;
  // Not as Number: it has fewer digits than the CRM.
  if (kind === 'number') return plainNumber(a) === plainNumber(b);
  return kind === 'choices' && sortedChoices(a) === sortedChoices(b);
}

function keptText(value: string | null): string {
  return (value ?? '').replaceAll('\r\n', '\n').trim();
}

export function comparedBy(kind: string, value: string | null): (string | null)[] {
  if (value === null) return [null];
  if (kind === 'number') return [plainNumber(value)];
  // The CRM keeps whole seconds.
  if (kind === 'timestamp') return [value.slice(0, 'yyyy-mm-ddThh:mm:ss'.length)];
  return kind === 'choices' ? value.split(';') : [value];
}

function sortedChoices(value: string): string {
  return value.split(';').sort().join(';');
}
