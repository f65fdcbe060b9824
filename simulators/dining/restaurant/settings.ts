import { ControlError } from '../../shared/control-error.ts';
import { QUIRKS, type Quirk } from '../protocol/quirks.ts';

/** What may be changed while the partner runs. */
export interface Settings {
  /** Added to every call before it does anything, in milliseconds. */
  latencyMs: number;
  /** Guests that a service seats at a time. */
  seats: number;
  /** Standing bookings in the future that one user may have. */
  bookingsPerUser: number;
  /** A booking can't be cancelled or changed later than this many minutes before its start. */
  cancellationMinutes: number;
  /** Whether the merchant decides later: bookings are made PENDING_MERCHANT_CONFIRMATION. */
  asynchronous: boolean;
  quirks: readonly Quirk[];
}

export function initialSettings(): Settings {
  return {
    latencyMs: 0,
    seats: 100,
    bookingsPerUser: 1000,
    cancellationMinutes: 60,
    asynchronous: false,
    quirks: [],
  };
}

/** @throws ControlError 400 naming a setting that is unknown or wrong; then nothing is changed. */
export function changeSettings(settings: Settings, changes: unknown): Settings {
  if (typeof changes !== 'object' || changes === null || Array.isArray(changes)) {
    throw new ControlError(400, 'settings must be a JSON object');
  }
  for (const [name, value] of Object.entries(changes)) checkSetting(settings, name, value);
  return Object.assign(settings, changes);
}

function checkSetting(settings: Settings, name: string, value: unknown): void {
  if (!Object.hasOwn(settings, name)) throw new ControlError(400, `setting ${name} is unknown`);
  if (name === 'quirks') return checkQuirks(value);
  const type = name === 'asynchronous' ? 'boolean' : 'number';
  const isRight = typeof value === type && (type === 'boolean' || (value as number) >= 0);
  if (!isRight)
    throw new ControlError(400, `${name} must be a ${type}${type === 'number' ? ' of at least 0' : ''}`);
}

function checkQuirks(value: unknown): void {
  const isRight = Array.isArray(value) && value.every((each) => Object.hasOwn(QUIRKS, String(each)));
  if (!isRight) throw new ControlError(400, `quirks must be a list of ${Object.keys(QUIRKS).join(', ')}`);
}
