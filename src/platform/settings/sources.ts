import leven from 'leven';
import type { TSchema } from 'typebox';
import Value from 'typebox/value';
import { renamedSettings } from './renamed.ts';
import type { Setting } from './setting.ts';
import { type RawSettings, type SettingKey, settingsTable } from './table.ts';
import { isServiceLink } from './variables.ts';

const rows = Object.entries(settingsTable) as [SettingKey, Setting][];

/** The values of file and environment, before they are checked together. */
export interface Assembled {
  raw: RawSettings;
  /** Keys that are set, to a valid value or not. */
  set: Set<SettingKey>;
  faults: string[];
}

/**
 * Lays the environment's section of the file over its common part, and the environment variables over both. An
 * empty environment variable counts as not set.
 */
export function assembleSettings(file: unknown, env: NodeJS.ProcessEnv): Assembled {
  if (!isPlainObject(file))
    return { ...emptyAssembly(), faults: ['the configuration file must hold an object'] };
  const assembled = emptyAssembly();
  const found = valuesOfFile(file, env, assembled.faults);
  const { fallback } = settingsTable.secretsManager;
  const secretsManager = env['SECRETS_MANAGER'] || found.get('secretsManager') || fallback;
  for (const [key, row] of rows) {
    if (row.onlyWith !== undefined && row.onlyWith !== secretsManager) continue;
    const variable = variableIn(env, row.env);
    if (variable) accept(assembled, key, parseVariable(variable, row.schema), `${key} (${row.env})`);
    else if (found.has(key)) accept(assembled, key, found.get(key), key);
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
  file: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
  faults: string[],
): Map<string, unknown> {
  const { environments, ...common } = file;
  const found = new Map(flatten(common, '', faults));
  const sections = readSections(environments, faults);
  const chosen = env['HANDOFF_ENVIRONMENT'] || found.get('environment') || settingsTable.environment.fallback;
  for (const [key, value] of sections.get(chosen) ?? []) found.set(key, value);
  return found;
}

function emptyAssembly(): Assembled {
  const raw = Object.fromEntries(rows.map(([key]) => [key, undefined])) as RawSettings;
  return { raw, set: new Set(), faults: [] };
}

function accept({ raw, set, faults }: Assembled, key: SettingKey, value: unknown, where: string): void {
  const { schema, secret }: Setting = settingsTable[key];
  set.add(key);
  if (Value.Check(schema, value)) (raw as Record<string, unknown>)[key] = value;
  else faults.push(`${where}: ${secret ? 'the value' : JSON.stringify(value)} ${expected(schema)}`);
}

/** The environment sections, each flattened and each checked for unknown keys, whichever of them is chosen. */
function readSections(environments: unknown, faults: string[]): Map<unknown, [string, unknown][]> {
  const sections = new Map<unknown, [string, unknown][]>();
  if (environments === undefined) return sections;
  if (!isPlainObject(environments)) {
    faults.push('environments: must be an object with the keys dev, staging, prod');
    return sections;
  }
  for (const [name, section] of Object.entries(environments)) {
    const where = `environments.${name}`;
    if (!['dev', 'staging', 'prod'].includes(name))
      faults.push(`${where}: must be one of dev, staging, prod`);
    else if (!isPlainObject(section)) faults.push(`${where}: must be an object`);
    else sections.set(name, flatten(section, `${where}.`, faults));
  }
  return sections;
}

/** Turns `{crm: {loginUrl}}` into `[["crm.loginUrl", …]]`; what the table does not know becomes a fault. */
function flatten(object: Record<string, unknown>, prefix: string, faults: string[]): [string, unknown][] {
  const found: [string, unknown][] = [];
  const walk = (part: Record<string, unknown>, path: string) => {
    for (const [name, value] of Object.entries(part)) {
      const key = path === '' ? name : `${path}.${name}`;
      if (Object.hasOwn(settingsTable, key)) found.push([key, value]);
      else if (isPlainObject(value) && rows.some(([known]) => known.startsWith(`${key}.`))) walk(value, key);
      else faults.push(`${prefix}${key}: there is no such setting${suggest(key)}`);
    }
  };
  walk(object, '');
  return found;
}

/** The new or the most similar key, for the message about an unknown one; empty if none is similar. */
function suggest(unknown: string): string {
  const now = renamedSettings.find(({ formerKey }) => formerKey === unknown);
  if (now !== undefined) return `; it is ${now.key} now`;
  const distances = rows.map(([key]) => ({ key, distance: leven(key.toLowerCase(), unknown.toLowerCase()) }));
  const [nearest] = distances.sort((a, b) => a.distance - b.distance);
  const isNear = nearest !== undefined && nearest.distance <= Math.max(2, unknown.length / 3);
  return isNear ? `; did you mean ${nearest.key}?` : '';
}

function parseVariable(text: string, schema: TSchema): unknown {
  const { type } = schema as { type?: string };
  if (type === 'array') return text.split(',').map((item) => item.trim());
  if (type === 'boolean') return text === 'true' || (text === 'false' ? false : text);
  if (type !== 'number' && type !== 'integer') return text;
  const number = Number(text);
  return text.trim() === '' || Number.isNaN(number) ? text : number;
}

interface Bounds {
  type?: string;
  enum?: string[];
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  description?: string;
}

/** The schema as the end of a sentence that starts with the wrong value. */
function expected(schema: TSchema): string {
  const { type, enum: choices, description, ...bounds } = schema as Bounds;
  if (choices) return `is not one of ${choices.join(', ')}`;
  if (description !== undefined) return `is not ${description}`;
  if (type === 'integer') return `is not a whole number${range(bounds)}`;
  if (type === 'number') return `is not a number${range(bounds)}`;
  if (type === 'array') return 'is not a list of texts';
  if (type === 'boolean') return 'is not true or false';
  return `is not of type ${type}`;
}

function range({ minimum, exclusiveMinimum, maximum }: Bounds): string {
  const from = minimum === undefined ? '' : ` from ${minimum}`;
  const over = exclusiveMinimum === undefined ? '' : ` over ${exclusiveMinimum}`;
  const to = maximum === undefined ? '' : ` to ${maximum}`;
  return from + over + to;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
