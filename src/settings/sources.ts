import type { TSchema } from 'typebox';
import Value from 'typebox/value';
import { type RawSettings, type Setting, type SettingKey, settingsTable } from './table.ts';

const rows = Object.entries(settingsTable) as [SettingKey, Setting][];

/** What the file and the environment say, before anything is checked against anything else. */
export interface Assembled {
  raw: RawSettings;
  /** Keys that somebody set. */
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
  for (const [key, row] of rows) {
    const variable = env[row.env];
    const isFromEnv = variable !== undefined && variable !== '';
    if (!isFromEnv && !found.has(key)) continue;
    const value = isFromEnv ? parseVariable(variable, row.schema) : found.get(key);
    const where = isFromEnv ? `${key} (${row.env})` : key;
    if (accept(assembled, key, row, value, where)) assembled.set.add(key);
  }
  return assembled;
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

function accept(assembled: Assembled, key: SettingKey, row: Setting, value: unknown, where: string): boolean {
  if (!Value.Check(row.schema, value)) {
    assembled.faults.push(
      `${where}: ${row.secret ? 'the value' : JSON.stringify(value)} ${expected(row.schema)}`,
    );
    return false;
  }
  (assembled.raw as Record<string, unknown>)[key] = value;
  return true;
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
      else faults.push(`${prefix}${key}: there is no such setting`);
    }
  };
  walk(object, '');
  return found;
}

function parseVariable(text: string, schema: TSchema): unknown {
  const { type } = schema as { type?: string };
  if (type === 'array') return text.split(',').map((item) => item.trim());
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
  pattern?: string;
  minLength?: number;
}

/** The schema as the end of a sentence that starts with the wrong value. */
function expected(schema: TSchema): string {
  const { type, enum: choices, pattern, minLength, ...bounds } = schema as Bounds;
  if (choices) return `is not one of ${choices.join(', ')}`;
  if (type === 'integer') return `is not a whole number${range(bounds)}`;
  if (type === 'number') return `is not a number${range(bounds)}`;
  if (pattern !== undefined) return `does not match ${pattern}`;
  if (minLength !== undefined) return 'is not a text that holds something';
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
