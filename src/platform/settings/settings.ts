import { readFileSync } from 'node:fs';
import { checkTogether } from './rules.ts';
import type { Earlier, Setting } from './setting.ts';
import { assembleSettings } from './sources.ts';
import { type RawSettings, type Settings, settingsTable } from './table.ts';
import { unknownVariables } from './variables.ts';

/** Everything that is wrong with the settings, one line a fault. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The settings are not valid:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

const defaultConfigFile = 'handoff.config.json';

/**
 * Reads the configuration file (if there is one, or if it was named) and the environment, checks everything, and
 * throws a `SettingsError` that names every fault at once.
 */
export function loadSettings(env: NodeJS.ProcessEnv = process.env, configFile?: string): Settings {
  const production = env['NODE_ENV'] === 'production';
  const { raw, set, faults } = assembleSettings(readConfigFile(configFile), env);
  const all = [...faults, ...unknownVariables(env), ...checkTogether({ raw, set, env, production })];
  if (all.length > 0) throw new SettingsError(all);
  return fillIn(raw, production);
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
    throw new SettingsError([`${path} is not JSON: ${(error as Error).message}`]);
  }
}

/** The settings with their defaults, nested by section. */
function fillIn(raw: RawSettings, production: boolean): Settings {
  const flat: Record<string, unknown> = { production };
  const nested: Record<string, unknown> = { production };
  for (const [key, { fallback, normalize }] of Object.entries<Setting>(settingsTable)) {
    const given = raw[key as keyof RawSettings];
    if (given !== undefined) flat[key] = normalize ? normalize(given) : given;
    else flat[key] = typeof fallback === 'function' ? fallback(flat as unknown as Earlier) : fallback;
    const [section = '', name] = key.split('.');
    if (name === undefined) nested[key] = flat[key];
    else nested[section] = { ...(nested[section] as object), [name]: flat[key] };
  }
  for (const value of Object.values(nested)) Object.freeze(value);
  return Object.freeze(nested) as Settings;
}
