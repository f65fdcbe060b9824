export interface FaultMatch {
  method?: string;
  /** A part of the path or query. */
  path?: string;
  object?: string;
  /** An id or external id in the path or the body. */
  recordKey?: string;
  operation?: string;
}

export type FaultEffect =
  | { kind: 'latency'; ms: number }
  | { kind: 'error'; status: number; errorCode: string; message: string; contentType?: string }
  | { kind: 'recordError' | 'partError'; errorCode: string; message: string }
  | { kind: 'lockRow' }
  | { kind: 'tokenError'; error: string; description: string }
  | { kind: 'lateAnswer'; ms: number }
  | { kind: 'hold'; stage?: 'before' | 'after' }
  | { kind: 'loseAnswer' | 'hang' | 'reset' | 'dailyLimit' | 'concurrentLimit' | 'down' };

export type FaultKind = FaultEffect['kind'];

export interface FaultInput {
  match: FaultMatch;
  effect: FaultEffect;
  /** How many calls it strikes; without end when absent. */
  times?: number;
  /** From 0 to 1; 1 when absent. */
  probability?: number;
  /** Start of the row of random numbers behind `probability`; chosen anew for each fault when absent. */
  seed?: number;
}

/** A request to the control API that can't be understood. */
export class ControlError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

type Check = 'string' | 'number' | 'stage';
type Members = Record<string, { type: Check; optional?: true }>;

const TEXT = { type: 'string' } as const;
const NUMBER = { type: 'number' } as const;

const EFFECTS: Record<FaultKind, Members> = {
  latency: { ms: NUMBER },
  error: { status: NUMBER, errorCode: TEXT, message: TEXT, contentType: { type: 'string', optional: true } },
  recordError: { errorCode: TEXT, message: TEXT },
  partError: { errorCode: TEXT, message: TEXT },
  lockRow: {},
  tokenError: { error: TEXT, description: TEXT },
  lateAnswer: { ms: NUMBER },
  hold: { stage: { type: 'stage', optional: true } },
  loseAnswer: {},
  hang: {},
  reset: {},
  dailyLimit: {},
  concurrentLimit: {},
  down: {},
};

const MATCH: Members = Object.fromEntries(
  ['method', 'path', 'object', 'recordKey', 'operation'].map((name) => [
    name,
    { type: 'string', optional: true },
  ]),
);

function isType(value: unknown, type: Check): boolean {
  if (type === 'stage') return value === 'before' || value === 'after';
  if (type === 'number') return typeof value === 'number' && Number.isFinite(value) && value >= 0;
  return typeof value === 'string';
}

function asObject(value: unknown, name: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new ControlError(400, `${name} must be a JSON object`);
}

/** A misspelt member would arm a fault that strikes everything or nothing: it is refused by name. */
function checkMembers(value: Record<string, unknown>, members: Members, where: string): void {
  for (const name of Object.keys(value)) {
    if (!(name in members)) throw new ControlError(400, `${where}.${name} is unknown`);
  }
  for (const [name, { type, optional }] of Object.entries(members)) {
    if (value[name] === undefined && optional) continue;
    if (!isType(value[name], type)) throw new ControlError(400, `${where}.${name} must be a ${type}`);
  }
}

/** @throws ControlError 400 naming the member that is wrong. */
export function readFaultInput(body: unknown): FaultInput {
  const input = asObject(body, 'the fault');
  const members: Members = {
    times: { type: 'number', optional: true },
    probability: { type: 'number', optional: true },
    seed: { type: 'number', optional: true },
  };
  const { match = {}, effect, ...rest } = input;
  checkMembers(rest, members, 'fault');
  checkMembers(asObject(match, 'match'), MATCH, 'match');
  const { kind, ...details } = asObject(effect, 'effect');
  const expected = EFFECTS[kind as FaultKind] as Members | undefined;
  if (expected === undefined) {
    throw new ControlError(400, `effect.kind must be one of ${Object.keys(EFFECTS).join(', ')}`);
  }
  checkMembers(details, expected, 'effect');
  return { ...rest, match: match as FaultMatch, effect: effect as FaultEffect };
}
