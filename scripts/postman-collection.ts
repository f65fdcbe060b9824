interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  example?: unknown;
  required?: boolean;
}

interface Operation {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  security?: object[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { example?: unknown }> };
}

interface Document {
  info: { title: string; version: string };
  paths: Record<string, Record<string, Operation>>;
}

interface PostmanRequest {
  method: string;
  path: string;
  headers?: Record<string, string>;
  query?: { key: string; value: string; disabled?: true }[];
  variables?: { key: string; value: string }[];
  body?: unknown;
  form?: Record<string, string>;
  description?: string;
}

/** The collection for Postman (format 2.1), and whatever else reads it: every operation, and a journey with tests. */
export function postmanCollection(document: object): object {
  const { info, paths } = document as Document;
  const folders = new Map<string, object[]>();
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const [tag = ''] = operation.tags;
      const known = folders.get(tag) ?? [];
      folders.set(tag, [...known, operationItem(method.toUpperCase(), path, operation)]);
    }
  }
  return {
    info: {
      name: info.title,
      description:
        'Set apiKey and apiSecret, those of a test consumer at first, then run the folder Journey. Each send makes a new Idempotency-Key.',
      schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
    },
    variable: [
      { key: 'baseUrl', value: 'http://127.0.0.1:8080' },
      { key: 'apiKey', value: '' },
      { key: 'apiSecret', value: '' },
    ],
    item: [
      { name: 'Journey', item: journey() },
      ...[...folders].map(([name, items]) => ({ name, item: items })),
    ],
  };
}

function operationItem(method: string, path: string, operation: Operation): object {
  const { summary, description, parameters = [] } = operation;
  const names = parameters.map(({ $ref, name }) => $ref?.split('/').at(-1) ?? name);
  return item(summary, {
    method,
    path: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    headers: {
      ...credentialsOf(operation),
      ...(names.includes('Idempotency-Key') && { 'Idempotency-Key': '{{$guid}}' }),
    },
    query: parameters.filter((parameter) => parameter.in === 'query').map(queryParameter),
    variables: parameters.filter((parameter) => parameter.in === 'path').map(keyAndValue),
    ...bodyOf(operation),
    ...(description !== undefined && { description }),
  });
}

function bodyOf({ requestBody }: Operation): Pick<PostmanRequest, 'body' | 'form'> {
  const { 'application/json': json, [formType]: form } = requestBody?.content ?? {};
  if (form === undefined) return json === undefined ? {} : { body: json.example };
  // A form holds the credentials itself.
  return { form: { ...(form.example as object), client_id: '{{apiKey}}', client_secret: '{{apiSecret}}' } };
}

function credentialsOf({ security, requestBody }: Operation): Record<string, string> {
  const isForm = requestBody?.content[formType] !== undefined;
  return security?.length === 0 || isForm ? {} : credentials;
}

const formType = 'application/x-www-form-urlencoded';
const credentials = { 'x-api-key': '{{apiKey}}', 'x-api-secret': '{{apiSecret}}' };

function keyAndValue({ name, example }: Parameter) {
  return { key: name, value: typeof example === 'string' ? example : JSON.stringify(example ?? '') };
}

/** Filters are there to be switched on. */
function queryParameter(parameter: Parameter) {
  return { ...keyAndValue(parameter), ...(parameter.required ? {} : { disabled: true as const }) };
}

function item(name: string, request: PostmanRequest, test: readonly string[] = []): object {
  const { method, headers = credentials, body, form, description } = request;
  const header = { ...headers, ...(body !== undefined && { 'Content-Type': 'application/json' }) };
  return {
    name,
    ...(test.length > 0 && { event: [{ listen: 'test', script: { type: 'text/javascript', exec: test } }] }),
    request: {
      method,
      header: Object.entries(header).map(([key, value]) => ({ key, value })),
      url: address(request),
      ...(body !== undefined && {
        body: { mode: 'raw', raw: JSON.stringify(body, null, 2), options: { raw: { language: 'json' } } },
      }),
      ...(form && {
        body: {
          mode: 'urlencoded',
          urlencoded: Object.entries(form).map(([key, value]) => ({ key, value })),
        },
      }),
      ...(description !== undefined && { description }),
    },
  };
}

function address({ path, query = [], variables = [] }: PostmanRequest): object {
  const enabled = query.filter(({ disabled }) => !disabled).map(({ key, value }) => `${key}=${value}`);
  return {
    raw: `{{baseUrl}}${path}${enabled.length > 0 ? `?${enabled.join('&')}` : ''}`,
    host: ['{{baseUrl}}'],
    path: path.split('/').slice(1),
    ...(query.length > 0 && { query }),
    ...(variables.length > 0 && { variable: variables }),
  };
}

const has = (status: number) =>
  `pm.test('the status is ${status}', () => pm.response.to.have.status(${status}));`;
const keep = (name: string, value: string) => `pm.collectionVariables.set('${name}', ${value});`;

/** The first calls of a partner, each with what it needs of those before. */
function journey(): object[] {
  const trip = { trip_id: '{{tripId}}', member_id: '{{memberId}}' };
  const hotel = { name: 'Hotel Miramar', source: 'hotelbeds', details: { net: '612.40', currency: 'EUR' } };
  const keyed = { ...credentials, 'Idempotency-Key': '{{key}}' };
  const make = { method: 'POST', path: '/v1/quotes', headers: keyed, body: { ...trip, ...hotel } };
  return [
    item('Find a member', { method: 'GET', path: '/v1/members', query: [{ key: 'limit', value: '1' }] }, [
      has(200),
      keep('memberId', 'pm.response.json().data[0].id'),
      keep('tripId', "pm.variables.replaceIn('{{$guid}}')"),
      keep('key', "pm.variables.replaceIn('{{$guid}}')"),
    ]),
    item(
      'Hand a search result off',
      { method: 'POST', path: '/api/v1/handoff', body: { type: 'quote', ...trip, result: hotel } },
      [has(201), keep('quoteId', 'pm.response.json().external_id')],
    ),
    item('Read it back', { method: 'GET', path: '/v1/quotes/{{quoteId}}' }, [
      has(200),
      `pm.test('it is as it was sent', () => pm.expect(pm.response.json().name).to.equal('${hotel.name}'));`,
    ]),
    item(
      'List the quotes of the trip',
      { method: 'GET', path: '/v1/quotes', query: [{ key: 'trip_id', value: '{{tripId}}' }] },
      [has(200), "pm.test('there is one', () => pm.expect(pm.response.json().data.length).to.equal(1));"],
    ),
    item('Make a quote', make, [has(201), keep('madeId', 'pm.response.json().id')]),
    item('Send it again under its key', make, [
      has(201),
      "pm.test('it is a replay', () => pm.expect(pm.response.headers.get('Idempotent-Replayed')).to.equal('true'));",
      "pm.test('it is the same quote', () => pm.expect(pm.response.json().id).to.equal(pm.collectionVariables.get('madeId')));",
    ]),
  ];
}
