import { randomUUID } from 'node:crypto';
import { ApiError } from '../org/api-error.ts';
import type { WriteGuard } from '../org/org.ts';
import type { Row } from '../org/schema.ts';
import { ControlError, type FaultEffect, type FaultInput, type FaultKind } from './fault-input.ts';
import {
  type FaultSubject,
  type FaultTarget,
  matches,
  matchesCall,
  matchesRecord,
} from './fault-matching.ts';
import { randomFrom } from './random.ts';

export interface FaultView extends FaultInput {
  id: string;
  /** Calls (or records) struck so far. */
  hits: number;
  /** Calls being held now. */
  held: number;
}

export interface Faults {
  arm(input: FaultInput): FaultView;
  list(): FaultView[];
  /** Takes a fault away; calls that it holds go on. */
  remove(id: string): void;
  clear(): void;
  /** Strikes with the first armed fault of these kinds that matches. */
  strike(subject: FaultSubject, kinds: ReadonlySet<FaultKind>): StruckFault | undefined;
  /** Strikes one part of a Composite or Batch call, and returns its error. */
  strikePart(part: FaultTarget): ApiError | undefined;
  /** All waiting times that are armed for this call, in milliseconds. */
  latency(subject: FaultSubject): number;
  /** Runs the synchronous work of a call, so that `guard` knows to which call a record belongs. */
  during<T>(subject: FaultSubject, work: () => T): T;
  guard: WriteGuard;
  release(id: string): number;
  /** Resolves when the fault has struck `count` times. */
  whenHit(id: string, count: number, signal: AbortSignal): Promise<FaultView>;
}

export interface StruckFault {
  effect: FaultEffect;
  /** For `hold`: resolves when the fault is released or taken away. */
  hold(): Promise<void>;
}

interface Armed extends FaultInput {
  id: string;
  hits: number;
  random: () => number;
  holds: Set<() => void>;
  watchers: Set<() => void>;
}

type Chooser = (wanted: (fault: Armed) => boolean) => Armed | undefined;

const RECORD_KINDS: ReadonlySet<FaultKind> = new Set(['lockRow', 'recordError']);

function isLive(fault: Armed): boolean {
  return fault.times === undefined || fault.hits < fault.times;
}

function isLucky(fault: Armed): boolean {
  return fault.probability === undefined || fault.random() < fault.probability;
}

function hit(fault: Armed): void {
  fault.hits += 1;
  for (const watcher of [...fault.watchers]) watcher();
}

function view({ holds, watchers: _watchers, random: _random, ...fault }: Armed): FaultView {
  return { ...fault, held: holds.size };
}

function recordError(effect: FaultEffect, row: Row): ApiError {
  if (effect.kind === 'recordError') return new ApiError(400, effect.errorCode, effect.message, []);
  const message = `unable to obtain exclusive access to this record or 1 records: ${row.Id}`;
  return new ApiError(400, 'UNABLE_TO_LOCK_ROW', message, []);
}

function releaseAll(fault: Armed): number {
  const held = [...fault.holds];
  fault.holds.clear();
  for (const go of held) go();
  return held.length;
}

function struck(fault: Armed): StruckFault {
  return {
    effect: fault.effect,
    hold: () =>
      new Promise((resolve) => {
        fault.holds.add(resolve);
        // Counted once the call is really held: whoever waited for the hit may then kill or release it.
        hit(fault);
      }),
  };
}

/** Strikes single records, while the call that they belong to runs. */
function createRecordGuard(choose: Chooser): Pick<Faults, 'during' | 'guard'> {
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
      const fault = choose(
        (each) =>
          RECORD_KINDS.has(each.effect.kind) && matchesCall(each, call) && matchesRecord(each, type, row),
      );
      if (fault === undefined) return undefined;
      hit(fault);
      return recordError(fault.effect, row);
    },
  };
}

function strikePart(choose: Chooser, part: FaultTarget): ApiError | undefined {
  const subject = { ...part, body: '' };
  const fault = choose((each) => each.effect.kind === 'partError' && matches(each, subject));
  if (fault?.effect.kind !== 'partError') return undefined;
  hit(fault);
  return new ApiError(400, fault.effect.errorCode, fault.effect.message, []);
}

/** The armed faults, struck in the order in which they were armed. */
export function createFaults(): Faults {
  const armed = new Map<string, Armed>();

  const find = (id: string): Armed => {
    const fault = armed.get(id);
    if (fault === undefined) throw new ControlError(404, `no fault ${id}`);
    return fault;
  };
  const choose: Chooser = (wanted) => {
    for (const fault of armed.values()) {
      if (isLive(fault) && wanted(fault) && isLucky(fault)) return fault;
    }
    return undefined;
  };
  const remove = (id: string): void => {
    const fault = find(id);
    armed.delete(id);
    releaseAll(fault);
  };

  return {
    arm: (input) => {
      const fault: Armed = {
        ...input,
        id: randomUUID(),
        hits: 0,
        random: input.seed === undefined ? Math.random : randomFrom(input.seed),
        holds: new Set(),
        watchers: new Set(),
      };
      armed.set(fault.id, fault);
      return view(fault);
    },
    list: () => [...armed.values()].map(view),
    remove,
    clear: () => {
      for (const id of [...armed.keys()]) remove(id);
    },
    strike: (subject, kinds) => {
      if (armed.size === 0) return undefined;
      const fault = choose((each) => kinds.has(each.effect.kind) && matches(each, subject));
      if (fault === undefined) return undefined;
      if (fault.effect.kind !== 'hold') hit(fault);
      return struck(fault);
    },
    strikePart: (part) => (armed.size === 0 ? undefined : strikePart(choose, part)),
    latency: (subject) => {
      let total = 0;
      for (const fault of armed.values()) {
        if (fault.effect.kind !== 'latency' || !isLive(fault) || !matches(fault, subject)) continue;
        if (!isLucky(fault)) continue;
        hit(fault);
        total += fault.effect.ms;
      }
      return total;
    },
    ...createRecordGuard(choose),
    release: (id) => releaseAll(find(id)),
    whenHit: (id, count, signal) => watch(find(id), count, signal),
  };
}

function watch(fault: Armed, count: number, signal: AbortSignal): Promise<FaultView> {
  return new Promise((resolve, reject) => {
    const check = (): void => {
      if (fault.hits < count) return;
      fault.watchers.delete(check);
      resolve(view(fault));
    };
    fault.watchers.add(check);
    signal.addEventListener('abort', () => {
      fault.watchers.delete(check);
      reject(new ControlError(408, `the fault has struck ${fault.hits} of ${count} times`));
    });
    check();
  });
}
