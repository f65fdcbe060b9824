import type { FastifyError, FastifySchemaValidationError } from 'fastify';
import { type Fault, Problem } from '../../base/problem.ts';
import { patterns } from './formats.ts';

/** Most faults that one answer lists. */
export const maxFaults = 20;

/** Bytes of a request body at most. */
export const maxBodyBytes = 1_048_576;

/** A failed schema check, or an error of the HTTP framework's own, in the words of this API; else undefined. */
export function fromFramework(error: FastifyError, bodyLimit = maxBodyBytes): Problem | undefined {
  if (error.validation) return fromValidation(error.validation, error.validationContext);
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return bodyTooLarge(bodyLimit);
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new Problem(
        'unsupported_media_type',
        'Send the body as JSON, with Content-Type: application/json.',
      );
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new Problem('invalid_request', 'The body is not as long as its Content-Length says.');
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_ASYNC_CONSTRAINT':
      return new Problem('invalid_request', 'The path of the request is not a valid URL path.');
    default:
      return undefined;
  }
}

/** `limit` in bytes. */
export function bodyTooLarge(limit: number): Problem {
  return new Problem('payload_too_large', `The body is larger than ${limit} bytes.`);
}

function fromValidation(failures: FastifySchemaValidationError[], context: string | undefined): Problem {
  const faults = new Map<string, Fault>();
  for (const failure of failures) {
    const path = pathOf(failure);
    // One fault a place: a text that is too long has no need to be told that it is no UUID either.
    if (faults.size < maxFaults && !faults.has(path))
      faults.set(path, toFault(path, messageOf(failure), context));
  }
  const errors = [...faults.values()];
  const more = errors.length > 1 ? `, and ${errors.length - 1} more of the kind` : '';
  const part = parts[context ?? ''] ?? 'query';
  const detail = `The ${part} is not valid: ${describe(errors[0] as Fault)}${more}.`;
  return new Problem('invalid_request', detail, { errors });
}

const parts: Record<string, string> = { body: 'body', params: 'path' };

function describe({ message, ...place }: Fault): string {
  return `${Object.values(place).join('')} ${message}`;
}

function toFault(path: string, message: string, context: string | undefined): Fault {
  if (context === 'body') return { pointer: `#${encodeURI(path)}`, message };
  return { parameter: path.slice(1), message };
}

/** JSON Pointer to the faulty member, also where it is the one that is missing or not known. */
function pathOf({ instancePath, params }: FastifySchemaValidationError): string {
  const member = params.missingProperty ?? params.additionalProperty;
  if (typeof member !== 'string') return instancePath;
  return `${instancePath}/${member.slice(0, 200).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

const patternMessages = new Map<unknown, string>(
  Object.values(patterns).map(({ source, message }) => [source, message]),
);

const formats: Record<string, string> = {
  uuid: 'must be a UUID',
  text: 'must be well-formed text without the NUL character',
};

function messageOf({ keyword, params, message }: FastifySchemaValidationError): string {
  const { limit, format, type } = params as { limit?: number; format?: string; type?: string };
  switch (keyword) {
    case 'required':
      return 'is missing';
    case 'additionalProperties':
      return 'is not known; leave it out';
    case 'enum':
      return `must be one of ${(params.allowedValues as unknown[]).join(', ')}`;
    case 'minLength':
      return 'must not be empty';
    case 'maxLength':
      return `must have at most ${limit} characters`;
    case 'minProperties':
      return `must have at least ${limit} member`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'pattern':
      return patternMessages.get(params.pattern) ?? message ?? 'is not valid';
    case 'format':
      return formats[format ?? ''] ?? `must be a valid ${format}`;
    case 'type':
      return `must be ${type === 'object' || type === 'integer' ? 'an' : 'a'} ${type}`;
    default:
      return message ?? 'is not valid';
  }
}
