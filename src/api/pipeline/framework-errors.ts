import type { FastifyError, FastifySchemaValidationError } from 'fastify';
import { momentRule } from '../../platform/base/moment.ts';
import { type Fault, Problem } from '../../platform/base/problem.ts';
import { visibleRule } from '../../platform/base/text.ts';
import { patterns } from './formats.ts';

export const maxFaults = 20;
export const mostErrors = 100;

/** Bytes of a request body at most. */
export const maxBodyBytes = 1_048_576;

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
      return new Problem('invalid_request', 'The path of the request is not a valid URL path.');
    default:
      return undefined;
  }
}

export const formType = 'application/x-www-form-urlencoded';

export function wrongMediaType(takesForm: boolean): Problem {
  const [what, type] = takesForm ? ['a form', formType] : ['JSON', 'application/json'];
  return new Problem('unsupported_media_type', `Send the body as ${what}, with Content-Type: ${type}.`);
}

/** `limit` in bytes. */
export function bodyTooLarge(limit: number): Problem {
  return new Problem('payload_too_large', `The body is larger than ${limit} bytes.`);
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
  const detail = `The ${part} is not valid: ${describe(errors[0] as Fault)}${furtherFaults(faults.size, most)}.`;
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
  // Of one that is repeated, each is the same parameter.
  return { parameter: path.slice(1).replace(/\/\d+$/, ''), message };
}

/** JSON Pointer to the faulty field, also where that is missing or not known. */
function pathOf({ instancePath, params }: FastifySchemaValidationError): string {
  const field = params.missingProperty ?? params.additionalProperty;
  if (typeof field !== 'string') return instancePath;
  return `${instancePath}/${field.slice(0, 200).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

const patternMessages = new Map<unknown, string>(
  Object.values(patterns).map(({ source, message }) => [source, message]),
);

const formats: Record<string, string> = {
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
      return 'is not known; leave it out';
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
      return formats[format] ?? `must be a valid ${format}`;
    case 'type':
      return `must be ${typesIn(type)}`;
    default:
      return 'is not valid';
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
