import { formType } from '../pipeline/body.ts';
import type { JsonObject } from './schemas.ts';

export interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  example?: unknown;
}

type Content = Partial<Record<string, { example: unknown }>>;

export interface Operation extends JsonObject {
  operationId: string;
  parameters: Parameter[];
  security?: unknown[];
  requestBody?: { content: Content };
}

export type Parameters = Record<string, Parameter>;

interface Sample {
  lang: string;
  label: string;
  source: string;
}

const clientMethods: Readonly<Record<string, string>> = {
  handOff: 'handOff',
  handOffTrip: 'handOffTrip',
  getHandoff: 'handoffs.retrieve',
  listMembers: 'members.list',
  listQuotes: 'quotes.list',
  createQuote: 'quotes.create',
  getQuote: 'quotes.retrieve',
  changeQuote: 'quotes.update',
  createReservation: 'reservations.create',
  listEvents: 'events.list',
};

/**
 * The call in a shell, with the client, and in Python, made of the examples of the operation. Undefined where it is not one of
 * those that are used most.
 */
export function codeSamples(
  method: string,
  path: string,
  operation: Operation,
  shared: Parameters,
): Sample[] | undefined {
  const clientMethod = clientMethods[operation.operationId];
  if (clientMethod === undefined) return undefined;
  const parameters = resolved(operation, shared);
  const body = operation.requestBody?.content['application/json']?.example;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
  const call = { method, path, names, body };
  return [
    ...(shellSample(method, path, operation, shared) ?? []),
    { lang: 'TypeScript', label: 'TypeScript', source: typeScript(call, clientMethod) },
    { lang: 'Python', label: 'Python', source: python(call, isKeyed(parameters)) },
  ];
}

/** A signed request is no command that somebody could paste: then there is none. */
export function shellSample(
  method: string,
  path: string,
  operation: Operation,
  shared: Parameters,
): Sample[] | undefined {
  const parameters = resolved(operation, shared);
  if (parameters.some(({ name }) => name === 'webhook-id')) return undefined;
  return [{ lang: 'Shell', label: 'curl', source: command(method, path, operation, parameters) }];
}

function resolved({ parameters }: Operation, shared: Parameters): Parameter[] {
  return parameters.map(({ $ref, ...own }) =>
    $ref === undefined ? own : (shared[$ref.split('/').at(-1) as string] as Parameter),
  );
}

interface Call {
  method: string;
  path: string;
  names: readonly string[];
  body: unknown;
}

function typeScript({ names, body }: Call, clientMethod: string): string {
  const variables = names.map(variableOf);
  const given = [...variables, ...(body === undefined ? [] : [JSON.stringify(body, null, 2)])].join(', ');
  const page = clientMethod.endsWith('.list') ? '.page()' : '';
  const own = variables.map((name) => `, ${name} = ''`).join('');
  return [
    "import { HandoffClient } from '@handoff-gateway/client';",
    '',
    `const { HANDOFF_URL: baseUrl = '', HANDOFF_API_KEY: apiKey = '', HANDOFF_API_SECRET: apiSecret = ''${own} } = process.env;`,
    'const client = new HandoffClient({ baseUrl, apiKey, apiSecret });',
    `console.log(await client.${clientMethod}(${given})${page});`,
  ].join('\n');
}

function python({ method, path, names, body }: Call, keyed: boolean): string {
  const url = names.reduce(
    (text, name) => text.replace(`{${name}}`, `" + os.environ["${variableOf(name)}"] + "`),
    `url = os.environ["HANDOFF_URL"] + "${path}"`,
  );
  return [
    `import os${keyed ? ', uuid' : ''}`,
    'from urllib.request import Request, urlopen',
    '',
    'headers = {',
    '    "x-api-key": os.environ["HANDOFF_API_KEY"],',
    '    "x-api-secret": os.environ["HANDOFF_API_SECRET"],',
    '    "Content-Type": "application/json",',
    ...(keyed ? ['    "Idempotency-Key": str(uuid.uuid4()),'] : []),
    '}',
    ...(body === undefined ? [] : [`body = r"""${JSON.stringify(body, null, 2)}"""`]),
    url.replace(/ \+ ""$/, ''),
    `with urlopen(Request(url, ${body === undefined ? 'None' : 'body.encode()'}, headers, method="${method}"), timeout=30) as answer:`,
    '    print(answer.read().decode())',
  ].join('\n');
}

/** For a POSIX shell. Address and credentials come from its variables, as do the ids of what has to be made first. */
function command(method: string, path: string, operation: Operation, parameters: Parameter[]): string {
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
    ...(isKeyed(parameters)
      ? ['-H "Idempotency-Key: $(uuidgen 2>/dev/null || cat /proc/sys/kernel/random/uuid)"']
      : []),
    ...bodyOptions(requestBody?.content ?? {}),
  ];
  return lines.join(' \\\n  ');
}

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

function isKeyed(parameters: readonly Parameter[]): boolean {
  return parameters.some(({ name }) => name === 'Idempotency-Key');
}

function isEverywhere(path: string): boolean {
  return /^\/v1\/(members|problems)\//.test(path);
}

function exampleOf(name: string, parameters: readonly Parameter[]): string {
  return String(parameters.find((parameter) => parameter.name === name)?.example);
}

/** `{id}` becomes `ID`, `{deliveryId}` becomes `DELIVERY_ID`. */
function variableOf(name: string): string {
  return name
    .replace('external', '')
    .replaceAll(/\B[A-Z]/g, '_$&')
    .toUpperCase();
}

function target(path: string, parameters: Parameter[]): string {
  const named = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    isEverywhere(path) ? exampleOf(name, parameters) : `$${variableOf(name)}`,
  );
  const query = parameters.filter((parameter) => parameter.in === 'query' && parameter.required);
  const text = new URLSearchParams(
    Object.fromEntries(query.map(({ name, example }) => [name, String(example)])),
  );
  return query.length === 0 ? named : `${named}?${text.toString()}`;
}

function bodyText(body: unknown): string {
  return JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
}
