import { SettingsError } from '../platform/settings/settings.ts';
import type { Settings } from '../platform/settings/table.ts';
import type { Resources } from '../records/mapping.ts';
import { MappingError, readResources } from '../records/read-mapping.ts';

/** Throws `SettingsError` with all that is wrong in the mapping file. */
export function resourcesFor({ crm }: Pick<Settings, 'crm'>): Resources {
  try {
    return readResources(crm.mappingFile, crm.ownerMatch);
  } catch (error) {
    throw error instanceof MappingError ? new SettingsError([...error.faults]) : error;
  }
}
