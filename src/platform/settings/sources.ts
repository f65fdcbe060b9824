import leven from 'leven';
import type { TSchema } from 'typebox';
import Value from 'typebox/value';
import { isObject } from '../base/json-text.ts';
import type { Setting } from './setting.ts';
import type { SettingsTable } from './table.ts';
import { isServiceLink } from './variables.ts';

interface Assembled {
  raw: Record<string, unknown>;
  set: Set<string>;
  faults: string[];
}

/**
 * Lays the environment's section of the file over its common part, and the environment variables over both. An
 * empty environment variable counts as not set.
 */
export function assembleSettings(table: SettingsTable, file: unknown, env: NodeJS.ProcessEnv): Assembled {
  const assembled: Assembled = { raw: {}, set: new Set(), faults: [] };
  if (!isObject(file)) {
    assembled.faults.push('the configuration file must hold an object');
    return assembled;
  }
  const found = valuesOfFile(table, file, env, assembled.faults);
  const secretsManager =
    variableIn(env, 'SECRETS_MANAGER') || found.get('secretsManager') || table['secretsManager']?.fallback;
  for (const [key, row] of Object.entries(table)) {
    if (row.onlyWith !== undefined && row.onlyWith !== secretsManager) continue;
    const variable = variableIn(env, row.env);
    if (variable) accept(assembled, { key, row }, parseVariable(variable, row.schema), `${key} (${row.env})`);
    else if (found.has(key)) accept(assembled, { key, row }, found.get(key), key);
  }
  return assembled;
}

/** Without white space at its ends; empty for what Kubernetes and Docker set for another service. */
function variableIn(env: NodeJS.ProcessEnv, name: string): string {
  const value = env[name]?.trim() ?? '';
  return isServiceLink(name, value) ? '' : value;
}

/** By key, with the section of the chosen environment laid over the common part. */
function valuesOfFile(
  table: SettingsTable,
  file: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
  faults: string[],
): Map<string, unknown> {
  const { environments, ...common } = file;
  const found = new Map(flatten(table, common, { prefix: '', faults }));
  const sections = readSections(table, environments, faults);
  const chosen =
    variableIn(env, 'HANDOFF_ENVIRONMENT') || found.get('environment') || table['environment']?.fallback;
  for (const [key, value] of sections.get(chosen) ?? []) found.set(key, value);
  return found;
}

function accept(
  { raw, set, faults }: Assembled,
  { key, row: { schema, secret } }: { key: string; row: Setting },
  value: unknown,
  where: string,
): void {
  set.add(key);
  if (Value.Check(schema, value)) raw[key] = value;
  else faults.push(`${where}: ${secret ? 'the value' : JSON.stringify(value)} ${expected(schema)}`);
}

/** The environment sections, each flattened and each checked for unknown keys, whichever of them is chosen. */
function readSections(
  table: SettingsTable,
  environments: unknown,
  faults: string[],
): Map<unknown, [string, unknown][]> {
  const sections = new Map<unknown, [string, unknown][]>();
  if (environments === undefined) return sections;
  if (!isObject(environments)) {
    faults.push('environments: must be an object with the keys dev, staging, prod');
    return sections;
  }
  for (const [name, section] of Object.entries(environments)) {
    const where = `environments.${name}`;
    if (!['dev', 'staging', 'prod'].includes(name))
      faults.push(`${where}: must be one of dev, staging, prod`);
    else if (!isObject(section)) faults.push(`${where}: must be an object`);
    else sections.set(name, flatten(table, section, { prefix: `${where}.`, faults }));
  }
  return sections;
}

function flatten(
  table: SettingsTable,
  object: Record<string, unknown>,
  { prefix, faults }: { prefix: string; faults: string[] },
): [string, unknown][] {
  const found: [string, unknown][] = [];
  const walk = (part: Record<string, unknown>, path: string) => {
    for (const [name, value] of Object.entries(part)) {
      const key = path === '' ? name : `${path}.${name}`;
      if (Object.hasOwn(table, key)) found.push([key, value]);
      else if (Object.keys(table).some((known) => known.startsWith(`${key}.`))) {
        if (isObject(value)) walk(value, key);
        else faults.push(`${prefix}${key}: must be an object`);
      } else faults.push(`${prefix}${key}: there is no such setting${suggest(table, key)}`);
    }
  };
  walk(object, '');
  return found;
}

function suggest(table: SettingsTable, unknown: string): string {
  const distances = Object.keys(table).map((key) => ({
    key,
    distance: leven(key.toLowerCase(), unknown.toLowerCase()),
  }));
  const [nearest] = distances.sort((a, b) => a.distance - b.distance);
  const isNear = nearest !== undefined && nearest.distance <= Math.max(2, unknown.length / 3);
  return isNear ? `; did you mean ${nearest.key}?` : '';
}

function parseVariable(text: string, schema: TSchema): unknown {
  const type = typeOf(schema);
  if (type === 'array') return parseList(text, schema);
  if (type === 'boolean') return text === 'true' || (text === 'false' ? false : text);
  if (type !== 'number' && type !== 'integer') return text;
  const number = Number(text);
  return text.trim() === '' || Number.isNaN(number) ? text : number;
}

function parseList(text: string, { items }: { items?: TSchema }): unknown {
  if (typeOf(items ?? {}) !== 'object') return text.split(',').map((item) => item.trim());
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Takes the type of the first one for a choice: a number may have a word beside it. */
function typeOf(schema: TSchema): string | undefined {
  const { anyOf, type } = schema as { type?: string; anyOf?: { type?: string }[] };
  return anyOf?.[0]?.type ?? type;
}

interface Bounds {
  type?: string;
  enum?: string[];
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  description?: string;
}

function expected(schema: TSchema): string {
  const { type, enum: choices, description, ...bounds } = schema as Bounds;
  if (choices) return `isn't one of ${choices.join(', ')}`;
  if (description !== undefined) return `isn't ${description}`;
  if (type === 'integer') return `isn't a whole number${range(bounds)}`;
  if (type === 'number') return `isn't a number${range(bounds)}`;
  if (type === 'array') return "isn't a list of texts";
  if (type === 'boolean') return "isn't true or false";
  return `isn't of type ${type}`;
}

function range({ minimum, exclusiveMinimum, maximum }: Bounds): string {
  const from = minimum === undefined ? '' : ` from ${minimum}`;
  const over = exclusiveMinimum === undefined ? '' : ` over ${exclusiveMinimum}`;
  const to = maximum === undefined ? '' : ` to ${maximum}`;
  return from + over + to;
}
