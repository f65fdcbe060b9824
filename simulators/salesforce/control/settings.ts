import { ControlError } from '../../shared/control-error.ts';

/** What may be changed while the simulator runs. */
export interface Settings {
  /** Added to every data API call before it does anything, in milliseconds. */
  latencyMs: number;
  /** Data API calls that run at a time; the others wait. null: no limit. */
  maxConcurrent: number | null;
  dailyLimit: number;
  tokenLifetimeSeconds: number;
  maxPageSize: number;
}

const LOWEST: Record<keyof Settings, number> = {
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
  for (const [name, value] of Object.entries(changes)) {
    if (!(name in LOWEST)) throw new ControlError(400, `setting ${name} is unknown`);
    const lowest = LOWEST[name as keyof Settings];
    const unlimited = name === 'maxConcurrent' && value === null;
    if (!unlimited && !(typeof value === 'number' && value >= lowest)) {
      throw new ControlError(400, `${name} must be a number of at least ${lowest}`);
    }
  }
  return Object.assign(settings, changes);
}
