import type { FaultBase } from '../../shared/armed-faults.ts';
import { type Members, readFault } from '../../shared/fault-members.ts';

export type FaultEffect =
  | { kind: 'latency' | 'lateAnswer'; ms: number }
  | { kind: 'error'; status: number; message?: string; retryAfter?: number; stage?: 'before' | 'after' }
  | { kind: 'failure'; cause: string; description?: string }
  | { kind: 'answer'; status: number; body: string; contentType?: string }
  | { kind: 'hold'; stage?: 'before' | 'after' }
  | { kind: 'loseAnswer' | 'hang' | 'reset' };

export type FaultKind = FaultEffect['kind'];

export interface FaultInput extends FaultBase {
  match: {
    /** Name of a method of the protocol. */
    operation?: string;
    /** A part of the body. */
    body?: string;
  };
  effect: FaultEffect;
}

const TEXT = { type: 'string' } as const;
const NUMBER = { type: 'number' } as const;
const STAGE = { type: 'stage', optional: true } as const;
const optional = <M extends object>(member: M) => ({ ...member, optional: true }) as const;

const EFFECTS: Record<FaultKind, Members> = {
  latency: { ms: NUMBER },
  lateAnswer: { ms: NUMBER },
  error: { status: NUMBER, message: optional(TEXT), retryAfter: optional(NUMBER), stage: STAGE },
  failure: { cause: TEXT, description: optional(TEXT) },
  answer: { status: NUMBER, body: TEXT, contentType: optional(TEXT) },
  hold: { stage: STAGE },
  loseAnswer: {},
  hang: {},
  reset: {},
};

/** @throws ControlError 400 naming the member that is wrong. */
export function readFaultInput(body: unknown): FaultInput {
  return readFault(body, ['operation', 'body'], EFFECTS) as FaultInput;
}
