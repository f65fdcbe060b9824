import { type ArmedFaults, createArmedFaults, type StruckFault } from '../../shared/armed-faults.ts';
import { ApiError } from '../org/api-error.ts';
import type { WriteGuard } from '../org/org.ts';
import type { Row } from '../org/schema.ts';
import type { FaultEffect, FaultInput, FaultKind } from './fault-input.ts';
import {
  type FaultSubject,
  type FaultTarget,
  matches,
  matchesCall,
  matchesRecord,
} from './fault-matching.ts';

export interface Faults extends Omit<ArmedFaults<FaultInput>, 'strike' | 'latency'> {
  /** Strikes with the first armed fault of these kinds that matches. */
  strike(subject: FaultSubject, kinds: ReadonlySet<FaultKind>): StruckFault<FaultInput> | undefined;
  /** Strikes one part of a Composite or Batch call, and returns its error. */
  strikePart(part: FaultTarget): ApiError | undefined;
  /** All waiting times that are armed for this call, in milliseconds. */
  latency(subject: FaultSubject): number;
  /** Runs the synchronous work of a call, so that `guard` knows to which call a record belongs. */
  during<T>(subject: FaultSubject, work: () => T): T;
  guard: WriteGuard;
}

const RECORD_KINDS: ReadonlySet<FaultKind> = new Set(['lockRow', 'recordError']);

function recordError(effect: FaultEffect, row: Row): ApiError {
  if (effect.kind === 'recordError') return new ApiError(400, effect.errorCode, effect.message, []);
  const message = `unable to obtain exclusive access to this record or 1 records: ${row.Id}`;
  return new ApiError(400, 'UNABLE_TO_LOCK_ROW', message, []);
}

/** Strikes single records, while the call that they belong to runs. */
function createRecordGuard(armed: ArmedFaults<FaultInput>): Pick<Faults, 'during' | 'guard'> {
  let current: FaultSubject | undefined;
  return {
    during: (subject, work) => {
      current = subject;
      try {
        return work();
      } finally {
        current = undefined;
      }
    },
    guard: (type, row) => {
      // Outside of a call it is the simulator's own work, such as the seed: that is never struck.
      if (current === undefined) return undefined;
      const call = current;
      const fault = armed.strike(
        (each) =>
          RECORD_KINDS.has(each.effect.kind) && matchesCall(each, call) && matchesRecord(each, type, row),
      );
      return fault && recordError(fault.effect, row);
    },
  };
}

function strikePart(armed: ArmedFaults<FaultInput>, part: FaultTarget): ApiError | undefined {
  const subject = { ...part, body: '' };
  const fault = armed.strike((each) => each.effect.kind === 'partError' && matches(each, subject));
  if (fault?.effect.kind !== 'partError') return undefined;
  return new ApiError(fault.effect.status ?? 400, fault.effect.errorCode, fault.effect.message, []);
}

/** The faults that an org can be asked for: of whole calls, and of single records. */
export function createFaults(): Faults {
  const armed = createArmedFaults<FaultInput>();
  return {
    ...armed,
    strike: (subject, kinds) => armed.strike((each) => kinds.has(each.effect.kind) && matches(each, subject)),
    strikePart: (part) => strikePart(armed, part),
    latency: (subject) => armed.latency((each) => matches(each, subject)),
    ...createRecordGuard(armed),
  };
}
