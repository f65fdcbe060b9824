/** The keywords of schemas in our OpenAPI document that say something about a type. */
interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  const?: unknown;
  enum?: unknown[];
  'x-extensible-enum'?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
}

interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema: Schema;
}

interface Document {
  paths: Record<string, Record<string, { operationId: string; summary: string; parameters?: Parameter[] }>>;
  components: { schemas: Record<string, Schema> };
}

const head = `// Made from the OpenAPI document by scripts/generate-openapi.ts: npm run openapi
`;

/** The client's types: one for each schema of the document, and one for the query of each list. */
export function clientTypes(document: object): string {
  const { paths, components } = document as Document;
  const schemas = Object.entries(components.schemas).map(([name, schema]) => declaration(name, schema));
  const queries = Object.values(paths)
    .flatMap((operations) => Object.values(operations))
    .filter(({ parameters = [] }) => parameters.some((parameter) => parameter.in === 'query'))
    .map(({ operationId, summary, parameters = [] }) => {
      const name = `${operationId[0]?.toUpperCase()}${operationId.slice(1)}Query`;
      return declaration(name, querySchema(summary, parameters));
    });
  const text = [...schemas, events(components.schemas['Event'] ?? {}), ...queries].join('\n');
  const imports = ['JsonObject', 'JsonValue'].filter((name) => new RegExp(`\\b${name}\\b`).test(text));
  return `${head}import type { ${imports.join(', ')} } from './json.ts';\n\n${text}`;
}

/** What the data of an event is, by its resource; of deleted ones it is the id. */
const eventData: Record<string, string> = {
  quote: 'Quote',
  booking: 'Booking',
  member: 'Member',
  handoff: "Omit<AcceptedHandoff, 'id'>",
  reservation: 'Reservation',
  webhook_endpoint: 'WebhookEndpoint',
};

/** `Event` as one of its kinds: `type` says what `data` is. */
function events({ properties }: Schema): string {
  const types = (properties?.['type']?.['x-extensible-enum'] ?? []) as string[];
  const kinds = Map.groupBy(types, (type) => {
    const [resource = ''] = type.split('.');
    const data = type.endsWith('.deleted') ? '{ id: string }' : (eventData[resource] ?? 'JsonObject');
    return `'${resource}', ${data}`;
  });
  const lines = [...kinds].map(
    ([kind, names]) => `  | EventOf<${names.map(literal).join(' | ')}, ${kind}>\n`,
  );
  return `interface EventOf<Type extends string, ResourceType extends string, Data>
  extends Omit<Event, 'type' | 'resource' | 'data'> {
  type: Type;
  resource: { type: ResourceType; id: string };
  data: Data;
  /** In webhooks only: the same as \`occurred_at\`. */
  timestamp?: string;
}

/** Something that happened, by any caller. Other types may be added: ignore those that you do not know. */
export type GatewayEvent =
${lines.join('')}  | EventOf<'ping', string, JsonObject>;
`;
}

function querySchema(summary: string, parameters: Parameter[]): Schema {
  const ofQuery = parameters.filter((parameter) => parameter.in === 'query');
  return {
    type: 'object',
    description: `${summary}: what can be asked for.`,
    required: ofQuery.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(
      ofQuery.map(({ name, description, schema }) => [
        name,
        description ? { ...schema, description } : schema,
      ]),
    ),
  };
}

function declaration(name: string, schema: Schema): string {
  const isInterface = schema.properties !== undefined && Object.keys(schema.properties).length > 0;
  const text = typeText(schema, '');
  const code = isInterface ? `export interface ${name} ${text}` : `export type ${name} = ${text};`;
  return `${comment(schema, '')}${code}\n`;
}

function comment({ description }: Schema, indent: string): string {
  if (description === undefined) return '';
  return `${indent}/** ${description.replaceAll('*/', '* /').replaceAll(/\s*\n\s*/g, ' ')} */\n`;
}

function typeText(schema: Schema, indent: string): string {
  if (schema.$ref !== undefined) return schema.$ref.replace('#/components/schemas/', '');
  if ('const' in schema) return literal(schema.const);
  if (schema.enum) return schema.enum.map(literal).join(' | ');
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return [...new Set(options.map((option) => typeText(option, indent)))].join(' | ');
  const types = [schema.type ?? 'any'].flat();
  return types.map((type) => typeOf(type, schema, indent)).join(' | ');
}

function typeOf(type: string, schema: Schema, indent: string): string {
  if (type === 'array') return arrayText(schema.items ?? {}, indent);
  if (type === 'object') return objectText(schema, indent);
  if (type === 'integer') return 'number';
  if (type === 'any') return 'JsonValue';
  const known = type === 'string' ? schema['x-extensible-enum'] : undefined;
  // Other values may be added: the known ones are suggested, and any text is accepted.
  return known ? `${known.map(literal).join(' | ')} | (string & {})` : type;
}

function arrayText(items: Schema, indent: string): string {
  const text = typeText(items, indent);
  return /^\w+$/.test(text) ? `${text}[]` : `(${text})[]`;
}

function objectText(
  { properties = {}, required = [], additionalProperties }: Schema,
  indent: string,
): string {
  const inner = `${indent}  `;
  const fields = Object.entries(properties).map(([name, schema]) => {
    const text = typeText(schema, inner);
    const isRequired = required.includes(name);
    const field = /^[A-Za-z_]\w*$/.test(name) ? name : literal(name);
    return `${comment(schema, inner)}${inner}${field}${isRequired ? '' : '?'}: ${text}${isRequired ? '' : ' | undefined'};\n`;
  });
  if (fields.length > 0) return `{\n${fields.join('')}${indent}}`;
  if (typeof additionalProperties !== 'object') return 'JsonObject';
  return `Record<string, ${typeText(additionalProperties, indent)}>`;
}

function literal(value: unknown): string {
  return typeof value === 'string'
    ? `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
    : String(value);
}
