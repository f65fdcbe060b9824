import { formType } from '../pipeline/framework-errors.ts';
import type { JsonObject } from './schemas.ts';

interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  example?: unknown;
}

type Content = Partial<Record<string, { example: unknown }>>;

interface Operation extends JsonObject {
  parameters: Parameter[];
  security?: unknown[];
  requestBody?: { content: Content };
}

interface Document extends JsonObject {
  paths: Record<string, Record<string, Operation>>;
  components: { parameters: Record<string, Parameter> };
}

/** The key that the examples of the document show; the page puts a new one in its place whenever it sends. */
export function exampleKey(document: object): unknown {
  return (document as Document).components.parameters['Idempotency-Key']?.example;
}

/**
 * The OpenAPI document as the readable page shows it: with a command for each operation, and with everything that is not
 * required switched off where a request is made up from the examples.
 */
export function pageDocument(document: object): JsonObject {
  const { paths, components, ...rest } = document as Document;
  const parameters = mapValues(components.parameters, withoutExampleUnlessRequired);
  const find = ({ $ref, ...own }: Parameter): Parameter =>
    $ref === undefined ? own : (components.parameters[$ref.split('/').at(-1) as string] as Parameter);
  const show = (method: string, path: string, operation: Operation): JsonObject => ({
    ...operation,
    parameters: operation.parameters.map(withoutExampleUnlessRequired),
    ...sample(method, path, operation, operation.parameters.map(find)),
  });
  return {
    ...rest,
    paths: Object.fromEntries(
      Object.entries(paths).map(([path, operations]) => [
        path,
        mapValues(operations, (operation, method) => show(method.toUpperCase(), path, operation)),
      ]),
    ),
    components: { ...components, parameters },
  };
}

function mapValues<T, R>(
  record: Record<string, T>,
  change: (value: T, name: string) => R,
): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]));
}

/** The name is Scalar's: it sends what has an example, unless that is said to be disabled. */
function withoutExampleUnlessRequired({ example, ...parameter }: Parameter): object {
  if (example === undefined) return parameter;
  return parameter.required
    ? { ...parameter, example }
    : { ...parameter, examples: { example: { value: example, 'x-disabled': true } } };
}

/** A signed request is no command that somebody could paste. */
function sample(method: string, path: string, operation: Operation, parameters: Parameter[]): JsonObject {
  if (parameters.some(({ name }) => name === 'webhook-id')) return {};
  const source = command(method, path, operation, parameters);
  return { 'x-codeSamples': [{ lang: 'Shell', label: 'curl', source }] };
}

/** For a POSIX shell. Address and credentials come from its variables, as do the ids of what has to be made first. */
function command(method: string, path: string, operation: Operation, parameters: Parameter[]): string {
  const isKeyed = parameters.some(({ name, required }) => name === 'Idempotency-Key' && required);
  const { requestBody, security } = operation;
  // With a body, curl takes POST by itself.
  const usual = requestBody === undefined ? 'GET' : 'POST';
  const option = method === usual ? '' : `-X ${method} `;
  const isForm = requestBody !== undefined && formType in requestBody.content;
  const lines = [
    `curl -sS ${option}"$HANDOFF_URL${target(path, parameters)}"`,
    ...(security?.length === 0 || isForm
      ? []
      : ['-H "x-api-key: $HANDOFF_API_KEY" -H "x-api-secret: $HANDOFF_API_SECRET"']),
    // macOS has uuidgen, a small Linux has only the file.
    ...(isKeyed ? ['-H "Idempotency-Key: $(uuidgen 2>/dev/null || cat /proc/sys/kernel/random/uuid)"'] : []),
    ...bodyOptions(requestBody?.content ?? {}),
  ];
  return lines.join(' \\\n  ');
}

/** A form holds its caller's credentials, or comes with them. */
function bodyOptions({ 'application/json': json, [formType]: form }: Content): string[] {
  if (form !== undefined) {
    const fields = Object.entries(form.example as Record<string, string>);
    return [
      '-u "$HANDOFF_API_KEY:$HANDOFF_API_SECRET"',
      ...fields.map(([name, value]) => `-d '${name}=${value}'`),
    ];
  }
  return json === undefined ? [] : ["-H 'Content-Type: application/json'", `-d '${bodyText(json.example)}'`];
}

/** What every installation has stands there itself; `{id}` becomes `$ID`, `{deliveryId}` becomes `$DELIVERY_ID`. */
function target(path: string, parameters: Parameter[]): string {
  const isThere = /^\/v1\/(members|problems)\//.test(path);
  const named = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    isThere
      ? String(parameters.find((parameter) => parameter.name === name)?.example)
      : `$${name
          .replace('external', '')
          .replaceAll(/\B[A-Z]/g, '_$&')
          .toUpperCase()}`,
  );
  const query = parameters.filter((parameter) => parameter.in === 'query' && parameter.required);
  const text = new URLSearchParams(
    Object.fromEntries(query.map(({ name, example }) => [name, String(example)])),
  );
  return query.length === 0 ? named : `${named}?${text.toString()}`;
}

/** Inside single quotes of a shell. */
function bodyText(body: unknown): string {
  return JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
}
