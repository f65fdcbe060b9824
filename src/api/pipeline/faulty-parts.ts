import type { TSchema } from 'typebox';
import { eachField, eachItem, startOfValue } from '../../platform/base/json-text.ts';
import type { Route } from '../route.ts';
import { maxFaults } from './framework-errors.ts';
import type { Step } from './step.ts';

interface Schema {
  properties?: Record<string, Schema>;
  additionalProperties?: unknown;
  items?: Schema;
  maxItems?: number;
  maxLength?: number;
}

const mostUnknown = maxFaults + 1;
/** Characters of a body; the faults of a shorter one cost little to find. */
const smallBody = 16 * 1024;

export function boundFaults({ request: { body: schema } }: Route): Step {
  return (request) => {
    if (schema !== undefined) request.body = cutFaultyParts(schema, request.body, request.bodyText);
  };
}

/**
 * Bounds the cost of a check that finds all faults. Of unknown fields, and of items and characters beyond those that the
 * schema allows, only so many are kept that the body is still refused. A body without such faults is returned as it is.
 * The fields are read from the text: to list the names of an object of 100,000 fields takes longer.
 */
export function cutFaultyParts(schema: TSchema, body: unknown, bodyText: string): unknown {
  if (bodyText.length <= smallBody) return body;
  return cut({ json: bodyText, at: startOfValue(bodyText) }, schema, body);
}

interface Place {
  json: string;
  at: number;
}

function cut(place: Place, schema: Schema, value: unknown): unknown {
  if (typeof value === 'string') return cutText(schema, value);
  const opening = place.json[place.at];
  if (Array.isArray(value)) return opening === '[' ? cutItems(place, schema, value) : value;
  const isObject = typeof value === 'object' && value !== null && opening === '{';
  return isObject ? cutFields(place, schema, value as Record<string, unknown>) : value;
}

/** A character takes two UTF-16 units at most. */
function cutText({ maxLength = Number.POSITIVE_INFINITY }: Schema, text: string): string {
  const units = 2 * (maxLength + 1);
  return text.length > units ? text.slice(0, units) : text;
}

function cutItems({ json, at }: Place, { items, maxItems }: Schema, value: unknown[]): unknown[] {
  if (items === undefined || maxItems === undefined) return value;
  const kept = value.length > maxItems ? value.slice(0, maxItems + 1) : value;
  const parts: unknown[] = [];
  eachItem(json, at, kept.length, (item) => {
    parts.push(cut({ json, at: item }, items, value[parts.length]));
  });
  return parts.every((part, index) => part === value[index]) ? kept : parts;
}

function cutFields({ json, at }: Place, schema: Schema, value: Record<string, unknown>): object {
  const { properties, additionalProperties } = schema;
  const isFree = additionalProperties !== false;
  if (properties === undefined || (isFree && Object.keys(properties).length === 0)) return value;
  const unknown = new Set<string>();
  const known = new Map<string, number>();
  eachField(json, at, (name, field) => {
    if (Object.hasOwn(properties, name)) known.set(name, field);
    else if (!isFree) unknown.add(name);
    return unknown.size < mostUnknown;
  });
  if (unknown.size < mostUnknown) {
    const parts = [...known].map(
      ([name, field]) => [name, cut({ json, at: field }, properties[name] ?? {}, value[name])] as const,
    );
    const isWhole = parts.every(([name, part]) => part === value[name]);
    return isWhole ? value : { ...value, ...Object.fromEntries(parts) };
  }
  // These fill the report; of the known fields it only lists those that are missing.
  const present = Object.keys(properties).filter((name) => Object.hasOwn(value, name));
  return Object.fromEntries([...unknown, ...present].map((name) => [name, null]));
}
