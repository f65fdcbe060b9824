import { ControlError } from './control-error.ts';

type Check = 'string' | 'number' | 'boolean' | 'stage';

/** What an object of a request to the control API may hold. */
export type Members = Record<string, { type: Check; optional?: true }>;

function isType(value: unknown, type: Check): boolean {
  if (type === 'stage') return value === 'before' || value === 'after';
  if (type === 'number') return typeof value === 'number' && Number.isFinite(value) && value >= 0;
  return typeof value === type;
}

/** @throws ControlError 400 for what is none. */
export function asObject(value: unknown, name: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new ControlError(400, `${name} must be a JSON object`);
}

/** A misspelt member would arm a fault that strikes everything or nothing: it is refused by name. */
export function checkMembers(value: Record<string, unknown>, members: Members, where: string): void {
  for (const name of Object.keys(value)) {
    if (!(name in members)) throw new ControlError(400, `${where}.${name} is unknown`);
  }
  for (const [name, { type, optional }] of Object.entries(members)) {
    if (value[name] === undefined && optional) continue;
    if (!isType(value[name], type)) throw new ControlError(400, `${where}.${name} must be a ${type}`);
  }
}

const STRENGTH: Members = {
  times: { type: 'number', optional: true },
  probability: { type: 'number', optional: true },
  seed: { type: 'number', optional: true },
  seconds: { type: 'number', optional: true },
  name: { type: 'string', optional: true },
};

/**
 * Reads `{match, effect, times, probability, seed, seconds, name}`. @throws ControlError 400 naming the member that is wrong.
 * @param match what the fault may be matched against, all of it optional.
 * @param effects each kind of effect, with its members.
 */
export function readFault(
  body: unknown,
  match: readonly string[],
  effects: Record<string, Members>,
): unknown {
  const { match: given = {}, effect, ...rest } = asObject(body, 'the fault');
  checkMembers(rest, STRENGTH, 'fault');
  const optional = match.map((name) => [name, { type: 'string', optional: true }] as const);
  checkMembers(asObject(given, 'match'), Object.fromEntries(optional), 'match');
  const { kind, ...details } = asObject(effect, 'effect');
  const expected = effects[kind as string];
  if (expected === undefined) {
    throw new ControlError(400, `effect.kind must be one of ${Object.keys(effects).join(', ')}`);
  }
  checkMembers(details, expected, 'effect');
  return { ...rest, match: given, effect };
}
