import { problemSchema } from '../../api/openapi/problem-schema.ts';
import { inlineAnswer, inlineSchema } from '../../api/openapi/schemas.ts';
import { isWrite, type Route, type Tool } from '../../api/route.ts';
import { type Consumer, needsApproval } from '../../identity/consumers/consumer.ts';
import { hasOneOf, type RequiredPermission } from '../../identity/consumers/permissions.ts';
import { modeOf } from '../../platform/base/call.ts';
import { isObject } from '../../platform/base/json-text.ts';
import { longestIntent } from './intent.ts';
import type { ToolWords } from './tool-words.ts';

export type ToolRoute = Route & { tool: Tool };

export type Tools = ReadonlyMap<string, ToolRoute>;

interface Properties {
  [name: string]: Record<string, unknown>;
}

interface ObjectSchema {
  properties?: Properties;
  required?: string[];
}

/** Records on a page, where the caller does not say, and at most: an answer has to fit what a model can take. */
export const usualLimit = 10;
export const largestLimit = 50;
export const detailsFrom = 'details_from';

export function toolsOf(routes: readonly Route[]): Tools {
  return new Map(routes.flatMap((route) => (route.tool ? [[route.tool.name, route as ToolRoute]] : [])));
}

export function isShownTo(consumer: Consumer, { permission, method, tool }: ToolRoute): boolean {
  if ('anyCredentials' in permission) return true;
  if ('none' in permission) return true;
  if ('anyOf' in permission)
    return permission.anyOf.some((one) => isHeld(consumer, one, decidesOnOthers(consumer, tool)));
  return isHeld(consumer, permission, method !== 'GET');
}

/** Test consumers decide on their own hand-offs, which need their approval. */
function decidesOnOthers({ id }: Consumer, { decides }: Tool): boolean {
  return decides === true && modeOf(id) === 'live';
}

function isHeld(consumer: Consumer, needed: RequiredPermission, isWithoutApproval: boolean): boolean {
  return hasOneOf(consumer, [needed]) && !(isWithoutApproval && needsApproval(consumer, needed.resource));
}

export function describeTool(route: ToolRoute, words: ToolWords): object {
  const { tool, summary, method } = route;
  return {
    name: tool.name,
    title: summary,
    description: words(tool.description),
    inputSchema: withWords(argumentsOf(route), words),
    outputSchema: withWords(resultsOf(route), words),
    annotations: {
      readOnlyHint: !isWrite(route),
      destructiveHint: tool.isDestructive ?? (method === 'PATCH' || method === 'DELETE'),
      // A write is done once, by its intent or its arguments.
      idempotentHint: true,
      openWorldHint: tool.isOpenWorld ?? false,
    },
  };
}

function argumentsOf(route: ToolRoute): object {
  const { params, query, body } = route.request;
  const parts = [params, query, body].map((part) => (part ? (inlineSchema(part) as ObjectSchema) : {}));
  const properties = Object.assign({}, ...parts.map((part) => part.properties)) as Properties;
  const { limit } = properties;
  if (limit)
    properties['limit'] = { ...limit, default: usualLimit, maximum: largestLimit, examples: [usualLimit] };
  if (showsDetails(route)) properties[detailsFrom] = detailsFromSchema;
  const { matches } = route.tool;
  if (matches) properties[matches.name] = { type: 'string', description: matches.description };
  if (isWrite(route)) Object.assign(properties, writing);
  // Either of both names will do, which a schema that every host takes can't say.
  const others = new Map([...otherNames(route)].filter(([name]) => name !== 'id'));
  for (const [name, other] of others) {
    properties[other] = { ...properties[name], description: `${describe(properties[name])} Needed.` };
    properties[name] = { ...properties[name], description: `Another name of ${other}.` };
  }
  const schema = {
    type: 'object',
    properties,
    required: parts.flatMap(({ required = [] }) => required).filter((name) => !others.has(name)),
    additionalProperties: false,
  };
  return rewritten(rewritten(schema, withDetailsAsText), withStandardFormat);
}

function describe(property: Record<string, unknown> = {}): string {
  return typeof property['description'] === 'string' ? property['description'] : '';
}

function resultsOf({ answers }: ToolRoute): object {
  const successes = Object.entries(answers).filter(([status]) => status.startsWith('2'));
  const schemas = successes.map(([, { schema }]) =>
    schema === undefined ? doneSchema : shape(inlineAnswer(schema)),
  );
  const distinct = new Map([...schemas, shape(problemSchema)].map((one) => [JSON.stringify(one), one]));
  return { type: 'object', anyOf: [...distinct.values()] };
}

const doneSchema = {
  type: 'object',
  properties: { done: { type: 'boolean', description: "It's done." } },
};

function shape(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(shape);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { type, description, properties, items, anyOf } = schema as Record<string, unknown>;
  return {
    ...(type !== undefined && { type }),
    ...(description !== undefined && { description }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties as Properties).map(([name, part]) => [
          name,
          name === 'details' ? detailsInResults : shape(part),
        ]),
      ),
    }),
    ...(items !== undefined && { items: shape(items) }),
    ...(anyOf !== undefined && { anyOf: shape(anyOf) }),
  };
}

const detailsInResults = {
  type: ['string', 'null'],
  description:
    'JSON text, digit for digit. Where it is cut, `details_length` tells how many characters it has.',
};

function withDetailsAsText(name: string, part: unknown): unknown {
  if (name !== 'details' || !isObject(part) || part['type'] === undefined) return part;
  const description = `${describe(part)} An object, or its JSON text as results have it.`;
  return { ...part, type: [part['type'], 'string'].flat(), description: description.trim() };
}

/** Clients may refuse a schema with a format that they do not know. */
function withStandardFormat(name: string, part: unknown): unknown {
  return name === 'format' && typeof part === 'string' && !standardFormats.has(part) ? undefined : part;
}

function withWords(schema: object, words: ToolWords): object {
  return rewritten(schema, (name, part) =>
    name === 'description' && typeof part === 'string' ? words(part) : part,
  );
}

/** The schema with each of its members as `write` returns it, without those for which that is undefined. */
function rewritten(schema: object, write: (name: string, part: unknown) => unknown): object {
  const inside = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inside);
    return isObject(value) ? rewritten(value, write) : value;
  };
  const entries = Object.entries(schema).map(([name, part]) => [name, write(name, inside(part))] as const);
  return Object.fromEntries(entries.filter(([, part]) => part !== undefined));
}

const detailsFromSchema = {
  type: 'integer',
  minimum: 0,
  description:
    'Long `details` are cut: `details_length` tells how many characters they have. This reads on from that character.',
};

const writing = {
  intent: {
    type: 'string',
    minLength: 1,
    maxLength: longestIntent,
    description:
      'A name for this action, which you choose: the same for every attempt at the same action, however often you call, another one ' +
      'for another action, and once you change its arguments. It is done once. Without it, a call with the same arguments within 10 ' +
      'minutes counts as the same action, whether that had a name or not.',
  },
  actor: {
    type: 'string',
    minLength: 1,
    maxLength: 255,
    description:
      'The person you act for, for example their e-mail address. It is recorded, unless your host already names the person.',
  },
};

export function showsDetails({ method, answers }: Route): boolean {
  const { properties = {} } = (answers[200]?.schema ?? {}) as ObjectSchema;
  const withDetails = Object.entries(properties).filter(([name, part]) =>
    JSON.stringify({ [name]: part }).includes('"details":'),
  );
  return method === 'GET' && withDetails.length > 0 && withDetails.every(([, { type }]) => type !== 'array');
}

const standardFormats = new Set(['date-time', 'date', 'time', 'email', 'uri', 'uuid']);

export function otherNames({ request }: Pick<Route, 'request'>): ReadonlyMap<string, string> {
  const { properties = {} } = (request.params ?? {}) as { properties?: object };
  const names = Object.keys(properties).map((name): [string, string] => [name, nameInResults(name)]);
  return new Map(names.filter(([name, other]) => name !== other));
}

function nameInResults(name: string): string {
  if (name === 'id') return 'external_id';
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
