import { features } from '../features.ts';
import { platformPart } from '../platform/settings/rules.ts';
import { readSettings, tableOf } from '../platform/settings/settings.ts';
import type { Settings } from '../platform/settings/table.ts';
import { resourcesFor } from './mapping.ts';

const parts = [platformPart, ...features.flatMap(({ settings }) => settings ?? [])];

export const settingsTable = tableOf(parts);

/** Reads and checks all settings, as `readSettings` does, and the mapping file. Throws `SettingsError`. */
export function loadSettings(env: NodeJS.ProcessEnv = process.env, configFile?: string): Settings {
  const settings = readSettings(parts, env, configFile);
  resourcesFor(settings);
  return settings;
}
