import type { FastifyError, FastifySchemaValidationError } from 'fastify';
import type { TSchema } from 'typebox';
import { eachField, eachItem, isObject, startOfValue } from '../../platform/base/json-text.ts';
import { momentRule, readMoment } from '../../platform/base/moment.ts';
import { type Fault, Problem } from '../../platform/base/problem.ts';
import { isUuid, isVisible, visibleRule } from '../../platform/base/text.ts';
import type { RequestSchemas, Route, Step } from '../route.ts';
import { wrongMediaType } from './body.ts';

/** Text that the CRM and the database can both hold: well-formed Unicode without the NUL character. */
function isText(value: string): boolean {
  return value.isWellFormed() && !value.includes('\0');
}

export const patterns = {
  notBlank: { source: '\\S', message: 'must contain more than white space' },
  twoOrMore: {
    source: '\\S[\\s\\S]*\\S',
    message: 'must have at least 2 characters, without leading and trailing white space',
  },
  phone: {
    source: '^\\+(?:[ ().-]{0,2}[0-9]){7,15}$',
    message: 'must be + and 7 to 15 digits; spaces, dots, dashes and parentheses may stand between them',
  },
  utcSeconds: {
    source: '^[^.]{19}(\\.0{1,9})?Z$',
    message: 'must be a time in UTC with whole seconds, for example 2026-12-04T19:00:00Z',
  },
};

function isMoment(value: string): boolean {
  return readMoment(value) !== undefined;
}

export const formats = { uuid: isUuid, text: isText, visible: isVisible, 'date-time': isMoment };

export const maxFaults = 20;
export const mostErrors = 100;

const wholeNumber = /^(0|[1-9]\d{0,8})$/;

/**
 * Query parameters come as texts. Makes numbers of those that a route declares as integers, and lists of those that may be
 * repeated, also where they come once. Text that is no plain whole number stays text, and its schema refuses it.
 */
export function readQueryValues({ query }: RequestSchemas): Step {
  const { properties = {} } = (query ?? {}) as { properties?: Record<string, { type?: string }> };
  const namesOf = (type: string) => Object.keys(properties).filter((name) => properties[name]?.type === type);
  const integers = namesOf('integer');
  const lists = namesOf('array');
  return (request) => {
    const given = request.query as Record<string, unknown>;
    for (const name of integers) {
      const value = given[name];
      if (typeof value === 'string' && wholeNumber.test(value)) given[name] = Number(value);
    }
    for (const name of lists) if (given[name] !== undefined) given[name] = [given[name]].flat();
  };
}

interface Schema {
  properties?: Record<string, Schema>;
  additionalProperties?: unknown;
  items?: Schema;
  maxItems?: number;
  maxLength?: number;
}

const mostUnknown = maxFaults + 1;
/** Characters of a body; the faults of a shorter one cost little to find. */
const smallBody = 16 * 1024;

export function boundFaults({ request: { body: schema } }: Route): Step {
  return (request) => {
    if (schema !== undefined) request.body = cutFaultyParts(schema, request.body, request.bodyText);
  };
}

/**
 * Bounds the cost of a check that finds all faults. Of unknown fields, and of items and characters beyond those that the
 * schema allows, only so many are kept that the body is still refused. A body without such faults is returned as it is.
 * The fields are read from the text: to list the names of an object of 100,000 fields takes longer.
 */
export function cutFaultyParts(schema: TSchema, body: unknown, bodyText: string): unknown {
  if (bodyText.length <= smallBody) return body;
  return cut({ json: bodyText, at: startOfValue(bodyText) }, schema, body);
}

interface Place {
  json: string;
  at: number;
}

function cut(place: Place, schema: Schema, value: unknown): unknown {
  if (typeof value === 'string') return cutText(schema, value);
  const opening = place.json[place.at];
  if (Array.isArray(value)) return opening === '[' ? cutItems(place, schema, value) : value;
  return isObject(value) && opening === '{' ? cutFields(place, schema, value) : value;
}

/** A character takes two UTF-16 units at most. */
function cutText({ maxLength = Number.POSITIVE_INFINITY }: Schema, text: string): string {
  const units = 2 * (maxLength + 1);
  return text.length > units ? text.slice(0, units) : text;
}

function cutItems({ json, at }: Place, { items, maxItems }: Schema, value: unknown[]): unknown[] {
  if (items === undefined || maxItems === undefined) return value;
  const kept = value.length > maxItems ? value.slice(0, maxItems + 1) : value;
  const parts: unknown[] = [];
  eachItem(json, at, kept.length, (item) => {
    parts.push(cut({ json, at: item }, items, value[parts.length]));
  });
  return parts.every((part, index) => part === value[index]) ? kept : parts;
}

function cutFields({ json, at }: Place, schema: Schema, value: Record<string, unknown>): object {
  const { properties, additionalProperties } = schema;
  const isFree = additionalProperties !== false;
  if (properties === undefined || (isFree && Object.keys(properties).length === 0)) return value;
  const unknown = new Set<string>();
  const known = new Map<string, number>();
  eachField(json, at, (name, field) => {
    if (Object.hasOwn(properties, name)) known.set(name, field);
    else if (!isFree) unknown.add(name);
    return unknown.size < mostUnknown;
  });
  if (unknown.size < mostUnknown) {
    const parts = [...known].map(
      ([name, field]) => [name, cut({ json, at: field }, properties[name] ?? {}, value[name])] as const,
    );
    const isWhole = parts.every(([name, part]) => part === value[name]);
    return isWhole ? value : { ...value, ...Object.fromEntries(parts) };
  }
  // These fill the report; of the known fields it only lists those that are missing.
  const present = Object.keys(properties).filter((name) => Object.hasOwn(value, name));
  return Object.fromEntries([...unknown, ...present].map((name) => [name, null]));
}

function isEmptyObject(body: unknown): boolean {
  return isObject(body) && Object.keys(body).length === 0;
}

/** A body that the route can't use is refused, not ignored: its sender expects an effect. */
export function requireBody({ request: { body: schema }, bodyOptional }: Route): Step {
  return (request) => {
    // Some clients send one with every write.
    if (schema === undefined && isEmptyObject(request.body)) request.body = undefined;
    if (schema === undefined && request.body !== undefined) throw takesNoBody(request.body);
    if (schema === undefined || request.body !== undefined) return;
    if (!bodyOptional) throw new Problem('malformed_json', 'The body is missing.');
    request.body = {};
  };
}

const notKnown = "isn't known; leave it out";

function takesNoBody(body: unknown): Problem {
  const paths = isObject(body) ? Object.keys(body).map((name) => memberOf('', name)) : [''];
  const errors = paths.slice(0, maxFaults).map((path) => toFault(path, notKnown, 'body'));
  return new Problem('invalid_request', 'This operation takes no body; leave it out.', { errors });
}

/**
 * The problem for an error of the HTTP framework or a failed schema check; else undefined. `readOnly`: fields that answers
 * have and no body may set.
 */
export function problemOfFramework(
  error: FastifyError,
  readOnly: readonly string[] = [],
  takesForm = false,
  most = maxFaults,
): Problem | undefined {
  if (error.validation) return problemOfValidation(error.validation, error.validationContext, readOnly, most);
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return wrongMediaType(takesForm);
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_ASYNC_CONSTRAINT':
      return new Problem('invalid_request', "The path of the request isn't a valid URL path.");
    default:
      return undefined;
  }
}

function problemOfValidation(
  failures: FastifySchemaValidationError[],
  context: string | undefined,
  readOnly: readonly string[],
  most: number,
): Problem {
  const faults = new Map<string, Fault>();
  for (const failure of failures) {
    const path = pathOf(failure);
    // One fault for each place: that a text is too long is enough, it need not be reported as no UUID too.
    if (!faults.has(path)) {
      const message = isReadOnly(failure, readOnly) ? 'is read only; leave it out' : messageOf(failure);
      faults.set(path, toFault(path, message, context));
    }
  }
  const errors = [...faults.values()].slice(0, most);
  const part = parts[context ?? ''] ?? 'query';
  const detail = `The ${part} isn't valid: ${describe(errors[0] as Fault)}${furtherFaults(faults.size, most)}.`;
  return new Problem('invalid_request', detail, { errors });
}

function isReadOnly(
  { instancePath, params }: FastifySchemaValidationError,
  readOnly: readonly string[],
): boolean {
  return instancePath === '' && readOnly.includes(params.additionalProperty as string);
}

function furtherFaults(count: number, most: number): string {
  if (count > most) return `, and there are more faults than the ${most} that are listed`;
  return count > 1 ? `, and ${count - 1} more` : '';
}

const parts: Record<string, string> = { body: 'body', params: 'path' };

function describe({ message, ...place }: Fault): string {
  return `${Object.values(place).join('')} ${message}`;
}

function toFault(path: string, message: string, context: string | undefined): Fault {
  // A name cut in the middle of a character, or sent so, has no form in a URI.
  if (context === 'body') return { pointer: `#${encodeURI(path.toWellFormed())}`, message };
  // Repeats are the same parameter.
  return { parameter: path.slice(1).replace(/\/\d+$/, ''), message };
}

/** JSON Pointer to the faulty field, also where that is missing or not known. */
function pathOf({ instancePath, params }: FastifySchemaValidationError): string {
  const field = params.missingProperty ?? params.additionalProperty;
  if (typeof field !== 'string') return instancePath;
  return memberOf(instancePath, field);
}

function memberOf(path: string, name: string): string {
  return `${path}/${name.slice(0, 200).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

const patternMessages = new Map<unknown, string>(
  Object.values(patterns).map(({ source, message }) => [source, message]),
);

const formatMessages: Record<string, string> = {
  uuid: 'must be a UUID',
  'date-time': momentRule,
  visible: visibleRule,
  text: 'must be well-formed text without the NUL character',
};

interface Limits {
  limit: number;
  multipleOf: number;
  format: string;
  pattern: string;
  property: string;
  allowedValue: unknown;
  /** Several with commas. */
  type: string;
}

function messageOf({ keyword, params }: FastifySchemaValidationError): string {
  const { limit, format, type, property, multipleOf, pattern, allowedValue } = params as unknown as Limits;
  switch (keyword) {
    case 'required':
      return 'is missing';
    case 'dependentRequired':
      return `is missing; ${property} needs it`;
    case 'additionalProperties':
      return notKnown;
    case 'enum':
      return `must be one of ${(params.allowedValues as unknown[]).join(', ')}`;
    case 'const':
      return `must be ${JSON.stringify(allowedValue)}`;
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must have at least ${limit} characters`;
    case 'maxLength':
      return `must have at most ${counted(limit, 'character')}`;
    case 'minProperties':
      return `must have at least ${counted(limit, 'field')}`;
    case 'maxProperties':
      return `must have at most ${counted(limit, 'field')}`;
    case 'minItems':
      return `must list at least ${counted(limit, 'item')}`;
    case 'maxItems':
      return `must list at most ${counted(limit, 'item')}`;
    case 'uniqueItems':
      return 'must not list the same item twice';
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'exclusiveMinimum':
      return `must be more than ${limit}`;
    case 'exclusiveMaximum':
      return `must be less than ${limit}`;
    case 'multipleOf':
      return `must be a multiple of ${multipleOf}`;
    case 'pattern':
      return patternMessages.get(pattern) ?? `must have the form ${pattern}`;
    case 'format':
      return formatMessages[format] ?? `must be a valid ${format}`;
    case 'type':
      return `must be ${typesIn(type)}`;
    default:
      return "isn't valid";
  }
}

function counted(limit: number, what: string): string {
  return `${limit} ${what}${limit === 1 ? '' : 's'}`;
}

function typesIn(type: string): string {
  const named = type.split(',');
  return named
    .map((one) => (one === 'null' ? one : `${/^[aeiou]/.test(one) ? 'an' : 'a'} ${one}`))
    .join(' or ');
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readOnlyFields?: readonly string[];
  }
}

export function readOnlyFields({ request, answers }: Route): readonly string[] {
  const taken = propertiesOf(request.body);
  const shown = Object.values(answers).flatMap(({ schema }) => Object.keys(propertiesOf(schema)));
  return shown.filter((name) => !Object.hasOwn(taken, name));
}

function propertiesOf(schema: object | undefined): object {
  return schema !== undefined && 'properties' in schema ? (schema.properties as object) : {};
}
