import { readFileSync } from 'node:fs';
import type { Earlier } from './setting.ts';
import { assembleSettings } from './sources.ts';
import type { Settings, SettingsPart, SettingsTable } from './table.ts';
import { unknownVariables } from './variables.ts';

export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The settings aren't valid:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

const defaultConfigFile = 'handoff.config.json';

/**
 * Reads the configuration file (if there is one, or if it was named) and the environment, checks everything, and
 * throws a `SettingsError` that names every fault at once.
 */
export function readSettings(
  parts: readonly SettingsPart[],
  env: NodeJS.ProcessEnv,
  configFile: string | undefined,
): Settings {
  const production = env['NODE_ENV'] === 'production';
  const table = tableOf(parts);
  const { raw, set, faults } = assembleSettings(table, readConfigFile(configFile), env);
  const named = (key: string) => `${key} (${table[key]?.env})`;
  const together = parts.flatMap(({ check }) => check?.({ raw, set, env, production, named }) ?? []);
  const all = [...faults, ...unknownVariables(table, env), ...together];
  if (all.length > 0) throw new SettingsError(all);
  return fillIn(table, raw, production);
}

export function tableOf(parts: readonly SettingsPart[]): SettingsTable {
  return Object.assign({}, ...parts.map(({ table }) => table)) as SettingsTable;
}

function readConfigFile(named: string | undefined): unknown {
  const path = named ?? defaultConfigFile;
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (named === undefined && (error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new SettingsError([`${path} can't be read: ${(error as Error).message}`]);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8 quotes the text around the fault, which may be a secret.
    const fault = (error as Error).message.replace(/, (?:\.{3})?".*$/s, '');
    throw new SettingsError([`${path} isn't JSON: ${fault}`]);
  }
}

function fillIn(table: SettingsTable, raw: Record<string, unknown>, production: boolean): Settings {
  const flat: Record<string, unknown> = { production };
  const nested: Record<string, unknown> = { production };
  for (const [key, { fallback, normalize }] of Object.entries(table)) {
    const given = raw[key];
    if (given !== undefined) flat[key] = normalize ? normalize(given) : given;
    else flat[key] = typeof fallback === 'function' ? fallback(flat as Earlier) : fallback;
    const [section = '', name] = key.split('.');
    if (name === undefined) nested[key] = flat[key];
    else nested[section] = { ...(nested[section] as object), [name]: flat[key] };
  }
  for (const value of Object.values(nested)) Object.freeze(value);
  return Object.freeze(nested) as Settings;
}
