import { ApiError, jsonParserError } from './api-error.ts';
import type { Field, Value } from './schema.ts';

const TEXT_TYPES = new Set(['string', 'textarea', 'email', 'phone', 'url', 'time']);
const DATETIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)$/;
const DATE = /^\d{4}-\d\d-\d\d$/;
const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;

/** `2012-07-12T17:49:01.000+0000`: UTC, never `Z`, whole seconds (REST API Developer Guide, samples). */
export function toTimestamp(instant: Date): string {
  return `${instant.toISOString().slice(0, 19)}.000+0000`;
}

/** The moment that ISO 8601 text with a zone names; undefined for what is none. */
export function parseInstant(value: string): Date | undefined {
  if (!DATETIME.test(value) || parseDay(value.slice(0, 10)) === undefined) return undefined;
  const instant = new Date(value.replace(/([+-]\d\d)(\d\d)$/, '$1:$2'));
  return Number.isNaN(instant.getTime()) ? undefined : instant;
}

function parseTimestamp(value: string): string | undefined {
  const instant = parseInstant(value);
  return instant === undefined ? undefined : toTimestamp(instant);
}

/** A real calendar day as `2005-10-08`, else undefined. */
export function parseDay(value: string): string | undefined {
  if (!DATE.test(value)) return undefined;
  const instant = new Date(`${value}T00:00:00Z`);
  // 2026-02-30 parses as March in some engines and not at all in others: compare with what was given.
  return !Number.isNaN(instant.getTime()) && instant.toISOString().startsWith(value) ? value : undefined;
}

function tokenOf(raw: unknown): string {
  if (Array.isArray(raw)) return 'START_ARRAY';
  if (typeof raw === 'object') return 'START_OBJECT';
  if (typeof raw === 'boolean') return raw ? 'VALUE_TRUE' : 'VALUE_FALSE';
  if (typeof raw === 'number') return Number.isInteger(raw) ? 'VALUE_NUMBER_INT' : 'VALUE_NUMBER_FLOAT';
  return 'VALUE_STRING';
}

function wrongType(field: Field, raw: unknown): ApiError {
  const shown = typeof raw === 'string' || typeof raw === 'number' ? ` value ${raw}` : '';
  return jsonParserError(
    `Cannot deserialize instance of ${field.type} from ${tokenOf(raw)}${shown} or request may be missing a required field`,
  );
}

function limitLength(field: Field, value: string): string {
  if (field.length > 0 && value.length > field.length) {
    const message = `${field.label}: data value too large: ${value} (max length=${field.length})`;
    throw new ApiError(400, 'STRING_TOO_LONG', message, [field.name]);
  }
  return value;
}

function coerceText(field: Field, given: unknown): Value | undefined {
  if (typeof given !== 'string') throw wrongType(field, given);
  // An org takes white space off the ends of long text.
  const raw = field.long ? given.trim() : given;
  // An org keeps no empty text: an empty string and null are the same.
  if (raw === '') return undefined;
  if (field.type === 'email' && !EMAIL.test(raw)) {
    throw new ApiError(400, 'INVALID_EMAIL_ADDRESS', `${field.label}: invalid email address: ${raw}`, [
      field.name,
    ]);
  }
  return limitLength(field, raw);
}

/** The refusal of a value that a restricted picklist does not have. */
export function notInPicklist(field: Field, value: string): ApiError {
  const message = `${field.label}: bad value for restricted picklist field: ${value}`;
  return new ApiError(400, 'INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST', message, [field.name]);
}

function coercePicklist(field: Field, raw: unknown): Value | undefined {
  if (typeof raw !== 'string') throw wrongType(field, raw);
  if (raw === '') return undefined;
  const chosen =
    field.type === 'multipicklist' ? [...new Set(raw.split(';').filter((value) => value !== ''))] : [raw];
  const known = field.picklistValues.filter(({ active }) => active).map(({ value }) => value);
  const unknown = chosen.find((value) => !known.includes(value));
  if (field.restricted && unknown !== undefined) throw notInPicklist(field, unknown);
  // The order of several values is the picklist's own, not that of the caller.
  const orderOf = (value: string): number => (known.includes(value) ? known.indexOf(value) : known.length);
  return limitLength(field, chosen.sort((a, b) => orderOf(a) - orderOf(b)).join(';'));
}

function coerceNumber(field: Field, raw: unknown): Value | undefined {
  if (raw === '') return undefined;
  const value = typeof raw === 'string' ? Number(raw) : raw;
  if (typeof value !== 'number' || !Number.isFinite(value)) throw wrongType(field, raw);
  if (field.type === 'int' && !Number.isInteger(value)) throw wrongType(field, raw);
  if (field.precision > 0 && Math.abs(value) >= 10 ** (field.precision - field.scale)) {
    const message = `${field.label}: value outside of valid range on numeric field: ${value}`;
    throw new ApiError(400, 'NUMBER_OUTSIDE_VALID_RANGE', message, [field.name]);
  }
  return field.precision > 0 ? Number(value.toFixed(field.scale)) : value;
}

function coerceMoment(field: Field, raw: unknown): Value | undefined {
  if (raw === '') return undefined;
  const parse = field.type === 'date' ? parseDay : parseTimestamp;
  const value = typeof raw === 'string' ? parse(raw) : undefined;
  if (value === undefined) throw wrongType(field, raw);
  return value;
}

/**
 * What a field stores for a JSON value; undefined clears it. Ids are checked by the caller, which knows the records.
 * @throws ApiError JSON_PARSER_ERROR for a value of another type, else the code of the rule that it breaks.
 */
export function coerceValue(field: Field, raw: unknown): Value | undefined {
  if (raw === null || raw === undefined) return field.type === 'boolean' ? field.defaultValue : undefined;
  if (TEXT_TYPES.has(field.type)) return coerceText(field, raw);
  switch (field.type) {
    case 'picklist':
    case 'multipicklist':
    case 'combobox':
      return coercePicklist(field, raw);
    case 'boolean':
      if (typeof raw !== 'boolean') throw wrongType(field, raw);
      return raw;
    case 'date':
    case 'datetime':
      return coerceMoment(field, raw);
    case 'id':
    case 'reference':
      if (typeof raw !== 'string') throw wrongType(field, raw);
      return raw === '' ? undefined : raw;
    default:
      return coerceNumber(field, raw);
  }
}
