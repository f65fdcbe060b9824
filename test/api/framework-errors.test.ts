import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FastifyError, FastifySchemaValidationError } from 'fastify';
import { problemOfFramework } from '../../src/api/pipeline/schema-faults.ts';

type Failure = Pick<FastifySchemaValidationError, 'keyword' | 'params'>;

/** The message for a failure, of which the checker itself says something raw. */
function messageFor(failure: Failure): string | undefined {
  const validation = [{ ...failure, instancePath: '/a', schemaPath: '', message: 'must NOT' }];
  const error = { validation, validationContext: 'body' } as unknown as FastifyError;
  const [fault] = problemOfFramework(error)?.facts.errors ?? [];
  return fault?.message;
}

const messages: [keyword: string, params: Record<string, unknown>, message: string][] = [
  ['required', { missingProperty: 'b' }, 'is missing'],
  ['dependentRequired', { property: 'c', missingProperty: 'b' }, 'is missing; c needs it'],
  ['additionalProperties', { additionalProperty: 'b' }, "isn't known; leave it out"],
  ['enum', { allowedValues: ['x', 'y'] }, 'must be one of x, y'],
  ['const', { allowedValue: 'x' }, 'must be "x"'],
  ['minLength', { limit: 1 }, 'must not be empty'],
  ['minLength', { limit: 2 }, 'must have at least 2 characters'],
  ['maxLength', { limit: 1 }, 'must have at most 1 character'],
  ['minItems', { limit: 1 }, 'must list at least 1 item'],
  ['maxItems', { limit: 25 }, 'must list at most 25 items'],
  ['uniqueItems', { i: 1, j: 0 }, 'must not list the same item twice'],
  ['minProperties', { limit: 2 }, 'must have at least 2 fields'],
  ['maxProperties', { limit: 1 }, 'must have at most 1 field'],
  ['minimum', { limit: 1 }, 'must be at least 1'],
  ['maximum', { limit: 1 }, 'must be at most 1'],
  ['exclusiveMinimum', { limit: 1 }, 'must be more than 1'],
  ['exclusiveMaximum', { limit: 1 }, 'must be less than 1'],
  ['multipleOf', { multipleOf: 5 }, 'must be a multiple of 5'],
  ['pattern', { pattern: '\\S' }, 'must contain more than white space'],
  ['pattern', { pattern: '^a$' }, 'must have the form ^a$'],
  ['format', { format: 'uuid' }, 'must be a UUID'],
  ['type', { type: 'array' }, 'must be an array'],
  ['type', { type: 'string,null' }, 'must be a string or null'],
];
for (const [keyword, params, message] of messages) {
  test(`a body that fails ${keyword} ${JSON.stringify(params)} is told what to do`, () => {
    assert.equal(messageFor({ keyword, params }), message);
  });
}
