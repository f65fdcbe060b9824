import { features } from '../features.ts';
import { platformPart } from '../platform/settings/rules.ts';
import { readSettings, SettingsError, tableOf } from '../platform/settings/settings.ts';
import type { Settings } from '../platform/settings/table.ts';
import type { Resources } from '../records/mapping.ts';
import { MappingError, readResources } from '../records/mapping-file.ts';

const parts = [platformPart, ...features.flatMap(({ settings }) => settings ?? [])];

export const settingsTable = tableOf(parts);

/** Reads and checks all settings, as `readSettings` does, and the mapping file. Throws `SettingsError`. */
export function loadSettings(env: NodeJS.ProcessEnv = process.env, configFile?: string): Settings {
  const settings = readSettings(parts, env, configFile);
  resourcesFor(settings);
  return settings;
}

/** Throws `SettingsError` with all that is wrong in the mapping file. */
export function resourcesFor({ crm }: Pick<Settings, 'crm'>): Resources {
  try {
    return readResources(crm.mappingFile, crm.ownerMatch);
  } catch (error) {
    throw error instanceof MappingError ? new SettingsError([...error.faults]) : error;
  }
}
