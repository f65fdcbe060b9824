import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { generatedOpenApi } from '../../scripts/generate-openapi.ts';
import type { RequestOptions } from '../support/gateway.ts';

type Json = Record<string, unknown>;

interface Header {
  schema: object;
  required?: boolean;
}

interface Parameter extends Header {
  name: string;
  in: 'path' | 'query' | 'header';
}

type Content = Record<string, { schema: object }>;

interface Operation {
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, { headers?: Record<string, Header>; content?: Content }>;
}

/** Headers of HTTP itself and of every answer alike, which the document does not repeat for each operation. */
const commonHeaders = new Set([
  'connection',
  'content-encoding',
  // Of the page that people read.
  'content-security-policy',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'strict-transport-security',
  'transfer-encoding',
  'x-content-type-options',
]);

const document = resolveReferences(JSON.parse(generatedOpenApi()) as Json);
const paths = document['paths'] as Record<string, Record<string, Operation>>;
const webhooks = document['webhooks'] as Record<string, Record<string, Operation>>;
const ajv = new Ajv2020({ strict: false, allErrors: true });
(addFormats as unknown as (target: Ajv2020) => void)(ajv);

/**
 * Fails where an answer does not fit the OpenAPI document (undeclared statuses, headers, content types and fields
 * included), or where the service accepted a request that does not.
 */
export async function assertFitsDocument(
  path: string,
  options: RequestOptions,
  response: Response,
): Promise<void> {
  const { method = options.body === undefined ? 'GET' : 'POST' } = options;
  const faults = [
    ...(await faultsOfAnswer(method, path, response)),
    ...(response.status < 400 ? faultsOfRequest(method, path, options) : []),
  ];
  assert.deepEqual(faults, [], `${method} ${path} ${response.status}`);
}

/** Fails where what was sent to an endpoint does not fit what the document says of its type. */
export function assertWebhookFitsDocument(body: { type: string }): void {
  const webhook = webhooks[body.type]?.['post'];
  const schema = webhook?.requestBody?.content['application/json']?.schema;
  assert.ok(schema, `the webhook ${body.type} is not declared`);
  assert.deepEqual(faultsOf('body', closed(schema), body), [], body.type);
}

/** What is wrong with an answer, by the document; HEAD is answered like GET, without a body. */
async function faultsOfAnswer(method: string, path: string, response: Response): Promise<string[]> {
  const { status, headers } = response;
  const declared = declaredAnswer(method, path, status);
  if (declared === undefined) return [`the status ${status} ${STATUS_CODES[status]} is not declared`];
  const faults = faultsOfHeaders(declared.headers ?? {}, response);
  if (method === 'HEAD') return faults;
  const body = await response.clone().text();
  return [...faults, ...faultsOfBody(declared.content, headers.get('content-type'), body)];
}

/** A known path answers a method that it does not have as each of its operations says. */
function declaredAnswer(method: string, path: string, status: number) {
  const { operations = {} } = findPath(path);
  const operation = operations[method === 'HEAD' ? 'get' : method.toLowerCase()];
  if (operation === undefined && status !== 405) return undefined;
  return (operation ?? Object.values(operations)[0])?.responses[status];
}

function faultsOfHeaders(declared: Record<string, Header>, { headers }: Response): string[] {
  const known = new Set(Object.keys(declared).map((name) => name.toLowerCase()));
  const unknown = [...headers.keys()].filter((name) => !known.has(name) && !commonHeaders.has(name));
  return [
    ...unknown.map((name) => `the header ${name} is not declared`),
    ...Object.entries(declared).flatMap(([name, header]) =>
      faultsOfText(`header ${name}`, header, headers.get(name)),
    ),
  ];
}

function faultsOfBody(content: Content | undefined, type: string | null, body: string): string[] {
  if (content === undefined) return body === '' ? [] : ['the answer has a body'];
  const mediaType = type?.split(';')[0] ?? '';
  const schema = content[mediaType]?.schema;
  if (schema === undefined) return [`the content type ${type} is not declared`];
  if (!/[/+]json$/.test(mediaType)) return [];
  return faultsOf('body', closed(schema), JSON.parse(body));
}

function faultsOfRequest(method: string, path: string, { headers = {}, body }: RequestOptions): string[] {
  const { operations, params } = findPath(path);
  const operation = operations?.[method.toLowerCase()];
  if (operation === undefined) return [];
  const sent = new Headers(headers);
  const query = new URLSearchParams(path.split('?')[1]);
  const parameters = operation.parameters ?? [];
  const valueOf = ({ in: location, name, schema }: Parameter): string | string[] | null => {
    if (location === 'header') return sent.get(name);
    if (location === 'path') return params[name] ?? null;
    const isRepeatable = (schema as { type?: string }).type === 'array';
    return isRepeatable && query.has(name) ? query.getAll(name) : query.get(name);
  };
  const known = parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name);
  return [
    ...[...query.keys()]
      .filter((name) => !known.includes(name))
      .map((name) => `the query ${name} is not declared`),
    ...parameters.flatMap((parameter) =>
      faultsOfText(`${parameter.in} ${parameter.name}`, parameter, valueOf(parameter)),
    ),
    ...faultsOfRequestBody(operation, body),
  ];
}

const formType = 'application/x-www-form-urlencoded';

function faultsOfRequestBody({ requestBody }: Operation, body: RequestOptions['body']): string[] {
  if (body === undefined) return requestBody?.required ? ['the request has no body'] : [];
  const [[type, media] = []] = Object.entries(requestBody?.content ?? {});
  if (media === undefined) return ['the request has a body'];
  const { schema } = media;
  const sent = typeof body === 'object' && !(body instanceof Uint8Array) ? body : readBody(type, body);
  return faultsOf('request body', schema, sent);
}

function readBody(type: string | undefined, body: string | Uint8Array): unknown {
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body);
  return type === formType ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);
}

/** A header or a parameter is text; where a number is declared, the number that it spells. */
function faultsOfText(what: string, { schema, required }: Header, text: string | string[] | null): string[] {
  if (text === null) return required ? [`the ${what} is missing`] : [];
  const { type } = schema as { type?: string };
  return faultsOf(what, schema, type === 'integer' || type === 'number' ? Number(text) : text);
}

function faultsOf(what: string, schema: object, value: unknown): string[] {
  const validate = ajv.compile(schema);
  if (validate(value)) return [];
  return (validate.errors as ErrorObject[]).map(
    ({ instancePath, message, params }) => `${what}${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

/** The operations at a path, and the values of its parameters. */
function findPath(path: string): {
  operations: Record<string, Operation> | undefined;
  params: Record<string, string>;
} {
  const asked = (path.split('?')[0] ?? '').split('/');
  for (const [pattern, operations] of Object.entries(paths)) {
    const parts = pattern.split('/');
    const isParameter = (part: string) => part.startsWith('{');
    if (parts.length !== asked.length) continue;
    if (!parts.every((part, at) => isParameter(part) || part === asked[at])) continue;
    const params = parts.flatMap((part, at) =>
      isParameter(part) ? [[part.slice(1, -1), decodeURIComponent(asked[at] ?? '')]] : [],
    );
    return { operations, params: Object.fromEntries(params) };
  }
  return { operations: undefined, params: {} };
}

const closedSchemas = new WeakMap<object, object>();

/** A schema as today's service keeps it: with no field and no value beyond those that are named. */
function closed(schema: object): object {
  let found = closedSchemas.get(schema);
  if (found === undefined) {
    found = close(schema) as object;
    closedSchemas.set(schema, found);
  }
  return found;
}

function close(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(close);
  if (typeof node !== 'object' || node === null) return node;
  const entries = Object.entries(node).map(([key, value]) => [
    key,
    /^examples?$/.test(key) ? value : close(value),
  ]);
  const schema = Object.fromEntries(entries) as Json;
  const { 'x-extensible-enum': known, type } = schema as { 'x-extensible-enum'?: unknown[]; type?: unknown };
  if (known) schema['enum'] = [type].flat().includes('null') ? [...known, null] : known;
  if (schema['properties'] && type !== undefined) schema['additionalProperties'] ??= false;
  return schema;
}

/** The document with what each `$ref` refers to in its place; what stands beside a `$ref` is kept. */
function resolveReferences(root: Json): Json {
  const target = (reference: string): unknown =>
    reference
      .slice('#/'.length)
      .split('/')
      .reduce<unknown>((node, key) => (node as Json)[key.replaceAll('~1', '/').replaceAll('~0', '~')], root);
  const resolve = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(resolve);
    if (typeof node !== 'object' || node === null) return node;
    const { $ref, ...rest } = node as { $ref?: string };
    const entries = Object.entries(rest).map(([key, value]) => [key, resolve(value)]);
    const resolved = Object.fromEntries(entries) as Json;
    return $ref === undefined ? resolved : { ...(resolve(target($ref)) as Json), ...resolved };
  };
  return resolve(root) as Json;
}
