import type { FaultBase } from '../../shared/armed-faults.ts';
import { type Members, readFault } from '../../shared/fault-members.ts';

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
  | { kind: 'recordError'; errorCode: string; message: string }
  | { kind: 'partError'; status?: number; errorCode: string; message: string }
  | { kind: 'lockRow' }
  | { kind: 'tokenError'; error: string; description: string }
  | { kind: 'lateAnswer' | 'lateCommit'; ms: number }
  | { kind: 'hold'; stage?: 'before' | 'after' }
  | { kind: 'loseAnswer' | 'hang' | 'reset' | 'dailyLimit' | 'concurrentLimit' | 'down' };

export type FaultKind = FaultEffect['kind'];

export interface FaultInput extends FaultBase {
  match: FaultMatch;
  effect: FaultEffect;
}

const TEXT = { type: 'string' } as const;
const NUMBER = { type: 'number' } as const;

const EFFECTS: Record<FaultKind, Members> = {
  latency: { ms: NUMBER },
  error: { status: NUMBER, errorCode: TEXT, message: TEXT, contentType: { type: 'string', optional: true } },
  recordError: { errorCode: TEXT, message: TEXT },
  partError: { status: { type: 'number', optional: true }, errorCode: TEXT, message: TEXT },
  lockRow: {},
  tokenError: { error: TEXT, description: TEXT },
  lateAnswer: { ms: NUMBER },
  lateCommit: { ms: NUMBER },
  hold: { stage: { type: 'stage', optional: true } },
  loseAnswer: {},
  hang: {},
  reset: {},
  dailyLimit: {},
  concurrentLimit: {},
  down: {},
};

const MATCH = ['method', 'path', 'object', 'recordKey', 'operation'];

/** @throws ControlError 400 naming the member that is wrong. */
export function readFaultInput(body: unknown): FaultInput {
  return readFault(body, MATCH, EFFECTS) as FaultInput;
}
