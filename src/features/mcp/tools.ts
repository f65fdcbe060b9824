import { inlineSchema } from '../../api/openapi/schemas.ts';
import type { Route, Tool } from '../../api/route.ts';
import { type Consumer, needsApproval } from '../../identity/consumers/consumer.ts';
import { hasOneOf, type RequiredPermission } from '../../identity/consumers/permissions.ts';
import { modeOf } from '../../platform/base/mode.ts';
import { longestIntent } from './intent.ts';

/** A route that is a tool. */
export type ToolRoute = Route & { tool: Tool };

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
/** With what the rest of long details is read. */
export const detailsFrom = 'details_from';

/** The tools among these routes, by name, in their order. */
export function toolsOf(routes: readonly Route[]): ReadonlyMap<string, ToolRoute> {
  return new Map(routes.flatMap((route) => (route.tool ? [[route.tool.name, route as ToolRoute]] : [])));
}

/** Whether the tool is shown to the caller. What it may do is decided when it calls. */
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

/** The tool as `tools/list` shows it. */
export function describeTool(route: ToolRoute): object {
  const { tool, summary, method } = route;
  const isRead = method === 'GET';
  return {
    name: tool.name,
    title: summary,
    description: tool.description,
    inputSchema: argumentsOf(route),
    annotations: {
      readOnlyHint: isRead,
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
  if (route.method !== 'GET') Object.assign(properties, writing);
  return withStandardFormats({
    type: 'object',
    properties,
    required: parts.flatMap(({ required = [] }) => required),
    additionalProperties: false,
  });
}

const detailsFromSchema = {
  type: 'integer',
  minimum: 0,
  description:
    'Long `details` are cut: `details_length` tells how many characters they have. This reads on from that character.',
};

/** The arguments of every tool that writes. */
const writing = {
  intent: {
    type: 'string',
    minLength: 1,
    maxLength: longestIntent,
    description:
      'A name for this action, which you choose: the same for every attempt at the same action, however often you call, another one ' +
      'for another action, and once you change its arguments. It is done once. Without it, a call with the same arguments within 10 ' +
      'minutes counts as the same action.',
  },
  actor: {
    type: 'string',
    minLength: 1,
    maxLength: 255,
    description:
      'The person you act for, for example their e-mail address. It is recorded, unless your host already names the person.',
  },
};

/** Whether one record is read, with its details. */
export function showsDetails({ method, answers, request }: Route): boolean {
  return (
    method === 'GET' &&
    request.query === undefined &&
    JSON.stringify(answers[200]?.schema ?? {}).includes('"details":')
  );
}

const standardFormats = new Set(['date-time', 'date', 'time', 'email', 'uri', 'uuid']);

/** Clients may refuse a schema with a format that they do not know. */
function withStandardFormats<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withStandardFormats) as T;
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(
    ([name, part]) => name !== 'format' || typeof part !== 'string' || standardFormats.has(part),
  );
  return Object.fromEntries(entries.map(([name, part]) => [name, withStandardFormats(part)])) as T;
}
