import { problems } from '../../platform/base/problem.ts';
import { mostErrors } from '../pipeline/schema-faults.ts';

/** Schema of every error (RFC 9457). Open, since fields may be added within a version. */
export const problemSchema = {
  type: 'object',
  title: 'Problem',
  description: 'A problem document (RFC 9457). `code` is for programs; the texts are for people.',
  required: ['type', 'title', 'status', 'detail', 'code', 'request_id'],
  properties: {
    type: {
      type: 'string',
      format: 'uri-reference',
      maxLength: 200,
      description: 'Path of the page that explains the problem; derived from `code`.',
    },
    title: { type: 'string', maxLength: 200, description: 'The kind of problem, the same each time.' },
    status: {
      type: 'integer',
      format: 'int32',
      minimum: 400,
      maximum: 599,
      description: 'The HTTP status.',
    },
    detail: { type: 'string', maxLength: 4000, description: 'Explanation of the problem, for people.' },
    code: {
      type: 'string',
      maxLength: 100,
      description:
        'The stable name of the problem, for programs. Others may be added; treat an unknown one by its status.',
      'x-extensible-enum': Object.keys(problems),
    },
    request_id: {
      type: 'string',
      pattern: '^[A-Za-z0-9._-]{1,128}$',
      maxLength: 128,
      description: 'Id of the request, as it stands in the log.',
    },
    errors: {
      type: 'array',
      maxItems: mostErrors,
      description: 'Where the request is at fault.',
      items: { $ref: '#/components/schemas/Fault' },
    },
    required: {
      type: 'object',
      description: 'The permission that is missing.',
      required: ['resource', 'action'],
      properties: {
        resource: { type: 'string', maxLength: 20, description: 'The resource, such as `quotes`.' },
        action: { type: 'string', maxLength: 10, description: '`read`, `write` or `delete`.' },
        field: {
          type: 'string',
          maxLength: 100,
          description: 'The missing field, where the permission exists but lacks one.',
        },
      },
    },
    cause: {
      type: 'string',
      maxLength: 100,
      description: "The partner's own word for its refusal, for example `SLOT_UNAVAILABLE`.",
    },
    retry_after: {
      type: 'integer',
      format: 'int32',
      minimum: 0,
      maximum: 2_678_400,
      description: 'Seconds to wait before retrying.',
    },
    external_id: {
      type: 'string',
      format: 'uuid',
      maxLength: 36,
      description:
        'After a write without Idempotency-Key whose outcome is unknown: the record to look for before retrying.',
    },
  },
};

export const faultSchema = {
  type: 'object',
  title: 'Fault',
  description: 'A fault in the request, located by one of `pointer`, `parameter` and `header`.',
  required: ['message'],
  properties: {
    pointer: {
      type: 'string',
      maxLength: 2000,
      description:
        'The field of the body: a JSON Pointer as URI fragment (RFC 6901). Empty if an error of the CRM is about no field of this API.',
    },
    parameter: { type: 'string', maxLength: 200, description: 'Name of a path or query parameter.' },
    header: { type: 'string', maxLength: 200, description: 'Name of a header.' },
    message: { type: 'string', maxLength: 1000, description: 'Explanation of the fault, for people.' },
  },
};
