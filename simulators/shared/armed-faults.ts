import { randomUUID } from 'node:crypto';
import { ControlError } from './control-error.ts';
import { randomFrom } from './random.ts';

/** What every kind of fault has; a simulator adds what it is matched against, and its effects. */
export interface FaultBase {
  effect: { kind: string; ms?: number };
  /** How many calls it strikes; without end when absent. */
  times?: number;
  /** From 0 to 1; 1 when absent. */
  probability?: number;
  /** Start of the row of random numbers behind `probability`; a new one for each fault when absent. */
  seed?: number;
  /** After so many seconds it is removed; never when absent. */
  seconds?: number;
  /** A name that the list shows. */
  name?: string;
}

export type FaultView<Input extends FaultBase> = Input & {
  id: string;
  /** Calls (or records) struck so far. */
  hits: number;
  /** Calls being held now. */
  held: number;
  /** RFC 3339; there for a fault with `seconds`. */
  endsAt?: string;
};

type Wanted<Input> = (fault: Input) => boolean;

export interface ArmedFaults<Input extends FaultBase> {
  arm(input: Input): FaultView<Input>;
  list(): FaultView<Input>[];
  /** Removes a fault; calls that it holds go on. */
  remove(id: string): void;
  clear(): void;
  /** Strikes with the first armed fault that is wanted; undefined where there is none. */
  strike(wanted: Wanted<Input>): StruckFault<Input> | undefined;
  /** All waiting times that are armed, in milliseconds. */
  latency(wanted: Wanted<Input>): number;
  release(id: string): number;
  /** Resolves when the fault has struck `count` times. */
  whenHit(id: string, count: number, signal: AbortSignal): Promise<FaultView<Input>>;
}

export interface StruckFault<Input extends FaultBase> {
  effect: Input['effect'];
  /** For `hold`: resolves when the fault is released or removed. */
  hold(): Promise<void>;
}

interface Armed<Input> {
  input: Input;
  id: string;
  hits: number;
  random: () => number;
  holds: Set<() => void>;
  watchers: Set<() => void>;
  /** It was removed: a call that it struck before is held no more. */
  isGone: boolean;
  end?: { at: string; timer: NodeJS.Timeout };
}

function isLive({ input, hits }: Armed<FaultBase>): boolean {
  return input.times === undefined || hits < input.times;
}

function isLucky({ input, random }: Armed<FaultBase>): boolean {
  return input.probability === undefined || random() < input.probability;
}

function hit(fault: Armed<FaultBase>): void {
  fault.hits += 1;
  for (const watcher of [...fault.watchers]) watcher();
}

function view<Input extends FaultBase>({ input, id, hits, holds, end }: Armed<Input>): FaultView<Input> {
  return { ...input, id, hits, held: holds.size, ...(end && { endsAt: end.at }) };
}

function releaseAll(fault: Armed<FaultBase>): number {
  const held = [...fault.holds];
  fault.holds.clear();
  for (const go of held) go();
  return held.length;
}

function struck<Input extends FaultBase>(fault: Armed<Input>): StruckFault<Input> {
  return {
    effect: fault.input.effect,
    hold: () =>
      new Promise((resolve) => {
        if (fault.isGone) return resolve();
        fault.holds.add(resolve);
        // Counted once the call is really held: a test that waited for the hit may then kill or release it.
        hit(fault);
      }),
  };
}

/** The armed faults, struck in the order in which they were armed. */
export function createArmedFaults<Input extends FaultBase>(): ArmedFaults<Input> {
  const armed = new Map<string, Armed<Input>>();

  const find = (id: string): Armed<Input> => {
    const fault = armed.get(id);
    if (fault === undefined) throw new ControlError(404, `no fault ${id}`);
    return fault;
  };
  const remove = (id: string): void => {
    const fault = find(id);
    armed.delete(id);
    clearTimeout(fault.end?.timer);
    fault.isGone = true;
    releaseAll(fault);
  };

  return {
    arm: (input) => {
      const id = randomUUID();
      const fault = {
        input,
        id,
        hits: 0,
        random: input.seed === undefined ? Math.random : randomFrom(input.seed),
        holds: new Set<never>(),
        watchers: new Set<never>(),
        isGone: false,
        ...(input.seconds !== undefined && { end: endIn(input.seconds, () => remove(id)) }),
      };
      armed.set(fault.id, fault);
      return view(fault);
    },
    list: () => [...armed.values()].map(view),
    remove,
    clear: () => {
      for (const id of [...armed.keys()]) remove(id);
    },
    strike: (wanted) => {
      for (const fault of armed.values()) {
        if (!isLive(fault) || !wanted(fault.input) || !isLucky(fault)) continue;
        if (fault.input.effect.kind !== 'hold') hit(fault);
        return struck(fault);
      }
      return undefined;
    },
    latency: (wanted) => {
      let total = 0;
      for (const fault of armed.values()) {
        const { kind, ms = 0 } = fault.input.effect;
        if (kind !== 'latency' || !isLive(fault) || !wanted(fault.input) || !isLucky(fault)) continue;
        hit(fault);
        total += ms;
      }
      return total;
    },
    release: (id) => releaseAll(find(id)),
    whenHit: (id, count, signal) => watch(find(id), count, signal),
  };
}

function endIn(seconds: number, remove: () => void): NonNullable<Armed<FaultBase>['end']> {
  const ms = seconds * 1000;
  return { at: new Date(Date.now() + ms).toISOString(), timer: setTimeout(remove, ms).unref() };
}

function watch<Input extends FaultBase>(
  fault: Armed<Input>,
  count: number,
  signal: AbortSignal,
): Promise<FaultView<Input>> {
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
