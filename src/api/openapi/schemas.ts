import type { TSchema } from 'typebox';
import { currentSchema, noExample } from '../../platform/base/current-schema.ts';

export type JsonObject = Record<string, unknown>;

interface Keywords extends JsonObject {
  title?: string;
  type?: string;
  description?: string;
  enum?: readonly unknown[];
  anyOf?: Keywords[];
  items?: Keywords;
  properties?: Record<string, Keywords>;
  additionalProperties?: boolean | Keywords;
  examples?: unknown[];
}

type Side = 'request' | 'answer';

function ofToday({ [currentSchema]: current, ...schema }: Keywords): Keywords {
  if (typeof current !== 'function') return schema;
  return { ...schema, ...(current as () => Keywords)() };
}

export function createSchemaWriter() {
  const components: Record<string, JsonObject> = {};
  const write = (given: Keywords, side: Side): JsonObject => {
    const schema = ofToday(given);
    const written = writeKeywords(schema, side, (part) => write(part, side));
    if (schema.title === undefined) return written;
    const known = components[schema.title];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(written)) {
      throw new Error(`two schemas have the title ${schema.title} and differ`);
    }
    components[schema.title] = written;
    return { $ref: `#/components/schemas/${schema.title}` };
  };
  return {
    /** Closed, since unknown fields and values of requests are refused. */
    request: (schema: TSchema): JsonObject => write(schema as Keywords, 'request'),
    /** Open, since fields and values of answers may be added within a version. */
    answer: (schema: TSchema): JsonObject => write(schema as Keywords, 'answer'),
    components,
  };
}

export type SchemaWriter = ReturnType<typeof createSchemaWriter>;

export function inlineSchema(schema: TSchema): JsonObject {
  const { title: _, ...rest } = ofToday(schema as Keywords);
  return writeKeywords(rest, 'request', (part) => inlineSchema(part));
}

export function inlineAnswer(schema: TSchema): JsonObject {
  const { title: _, ...rest } = ofToday(schema as Keywords);
  return writeKeywords(rest, 'answer', (part) => inlineAnswer(part));
}

function writeKeywords(schema: Keywords, side: Side, write: (part: Keywords) => JsonObject): JsonObject {
  const { properties, items, additionalProperties, anyOf, ...rest } = schema;
  const written: JsonObject = side === 'answer' ? openEnum(typed(rest)) : typed(rest);
  if (items) written['items'] = write(items);
  if (anyOf) Object.assign(written, writeAnyOf(anyOf, write));
  if (properties) {
    const entries = Object.entries(properties).map(([name, part]) => [name, write(part)]);
    written['properties'] = Object.fromEntries(entries);
  }
  if (typeof additionalProperties === 'object') {
    written['additionalProperties'] = write(additionalProperties);
  } else if (additionalProperties || side === 'request') {
    Object.assign(written, additionalProperties === undefined ? {} : { additionalProperties });
  }
  return written;
}

function typed(schema: Keywords): Keywords {
  if (schema.enum) return { ...schema, type: schema.type ?? 'string' };
  return schema.type === 'integer' ? { format: 'int32', ...schema } : schema;
}

/** "This or null" is one type with a second name, which is easier to read, and to generate code from. */
function writeAnyOf(parts: Keywords[], write: (part: Keywords) => JsonObject): JsonObject {
  const [first, second] = parts.map(write);
  const isNullable = parts.length === 2 && second?.['type'] === 'null' && typeof first?.['type'] === 'string';
  return isNullable ? { ...first, type: [first['type'], 'null'] } : { anyOf: parts.map(write) };
}

/** The values that are known today: generated code must not fail at a new one. */
function openEnum({ enum: values, ...rest }: Keywords): JsonObject {
  if (values === undefined) return rest;
  const known = values.map((value) => `\`${String(value)}\``).join(', ');
  const text = `Known values: ${known}. Others may be added; treat an unknown one as such.`;
  return {
    ...rest,
    maxLength: 100,
    description: [rest.description, text].filter(Boolean).join(' '),
    examples: rest.examples ?? [values[0]],
    'x-extensible-enum': values,
  };
}

/**
 * A value that fits the schema, made of the examples of its parts. Parts without one are left out, and the check of the
 * examples reports them.
 */
export function exampleOf(schema: TSchema): unknown {
  const { examples, enum: values, anyOf, items, properties, type } = ofToday(schema as Keywords);
  if (examples) return examples[0];
  if (values) return values[0];
  if (anyOf?.[0]) return exampleOf(anyOf[0]);
  if (items) return [exampleOf(items)];
  if (properties) {
    const usual = Object.entries(properties).filter(([, part]) => !(noExample in part));
    const entries = usual.map(([name, part]) => [name, exampleOf(part)]);
    return Object.fromEntries(entries);
  }
  return type === 'boolean' ? true : undefined;
}
