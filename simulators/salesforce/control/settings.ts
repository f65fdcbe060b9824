import { ControlError } from '../../shared/control-error.ts';
import { LANGUAGES, type Language } from '../org/translate.ts';

/** What may be changed while the simulator runs. */
export interface Settings {
  /** Added to every data API call before it does anything, in milliseconds. */
  latencyMs: number;
  /** Data API calls that run at a time; the others wait. null: no limit. */
  maxConcurrent: number | null;
  dailyLimit: number;
  tokenLifetimeSeconds: number;
  maxPageSize: number;
  /** Fields that the org does not have, or does not show to the user: `Quote__c.Actor__c`, say. */
  missingFields: string[];
  /** The language of error texts. */
  language: Language;
}

const LOWEST: Record<Exclude<keyof Settings, 'missingFields' | 'language'>, number> = {
  latencyMs: 0,
  maxConcurrent: 1,
  dailyLimit: 0,
  tokenLifetimeSeconds: 0,
  maxPageSize: 1,
};

/** @throws ControlError 400 naming a setting that is unknown or out of range. */
export function changeSettings(settings: Settings, changes: unknown): Settings {
  if (typeof changes !== 'object' || changes === null)
    throw new ControlError(400, 'settings must be a JSON object');
  for (const [name, value] of Object.entries(changes)) checkSetting(name, value);
  return Object.assign(settings, changes);
}

function checkSetting(name: string, value: unknown): void {
  switch (name) {
    case 'missingFields':
      if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return;
      throw new ControlError(400, 'missingFields must be a list of texts');
    case 'language':
      if (LANGUAGES.some((language) => language === value)) return;
      throw new ControlError(400, `language must be one of ${LANGUAGES.join(', ')}`);
    default:
      checkNumber(name, value);
  }
}

function checkNumber(name: string, value: unknown): void {
  if (!(name in LOWEST)) throw new ControlError(400, `setting ${name} is unknown`);
  const lowest = LOWEST[name as keyof typeof LOWEST];
  const unlimited = name === 'maxConcurrent' && value === null;
  if (!unlimited && !(typeof value === 'number' && value >= lowest)) {
    throw new ControlError(400, `${name} must be a number of at least ${lowest}`);
  }
}
