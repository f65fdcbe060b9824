import * as crypto from 'node:crypto';
import * as timers from 'node:timers/promises';

/** Lint forbids the globals of clocks, timers and randomness in the rest of `src`. */
export interface Chance {
  /** Milliseconds since 1970, as the wall clock says; it may be set back. */
  wallMs(): number;
  /** Milliseconds since some moment; never goes back, and stands still while the machine is suspended. */
  monotonicMs(): number;
  now(): number;
  setTimeout(callback: () => void, ms?: number): NodeJS.Timeout;
  clearTimeout(timer: NodeJS.Timeout | undefined): void;
  setInterval(callback: () => void, ms?: number): NodeJS.Timeout;
  clearInterval(timer: NodeJS.Timeout | undefined): void;
  setImmediate(callback: () => void): void;
  /** Rejects with an `AbortError` when the signal is aborted. */
  sleep(ms: number, options?: { signal?: AbortSignal; ref?: boolean }): Promise<void>;
  nextTurn(): Promise<void>;
  /** Aborted after this many milliseconds. */
  timeoutSignal(ms: number): AbortSignal;
  /** From 0 up to, not including, 1. Anyone can guess the next one. */
  randomFraction(): number;
  randomUUID(): string;
  randomBytes(length: number): Buffer<ArrayBuffer>;
}

/** Differences below this, in milliseconds, are jitter, or a clock that is being adjusted. */
const noticeableMs = 250;

/**
 * Milliseconds since some moment, for leases and deadlines. The monotonic clock of a process stands still while its
 * machine is suspended (Linux, CLOCK_MONOTONIC), and others' leases run out meanwhile. So what the wall clock has gained
 * on it is added; a wall clock that is set back changes nothing.
 */
export function createClock(monotonic: () => number, wall: () => number): () => number {
  let difference = wall() - monotonic();
  let gained = 0;
  return () => {
    const time = monotonic();
    const change = wall() - time - difference;
    if (Math.abs(change) > noticeableMs) {
      difference += change;
      gained += Math.max(0, change);
    }
    return time + gained;
  };
}

let chance: Chance = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  now: createClock(
    () => performance.now(),
    () => Date.now(),
  ),
  setTimeout: (callback, ms) => globalThis.setTimeout(callback, ms),
  clearTimeout: (timer) => globalThis.clearTimeout(timer),
  setInterval: (callback, ms) => globalThis.setInterval(callback, ms),
  clearInterval: (timer) => globalThis.clearInterval(timer),
  setImmediate: (callback) => void globalThis.setImmediate(callback),
  sleep: (ms, options) => timers.setTimeout(ms, undefined, options),
  nextTurn: () => timers.setImmediate(),
  timeoutSignal: (ms) => AbortSignal.timeout(ms),
  randomFraction: () => Math.random(),
  randomUUID: () => crypto.randomUUID(),
  randomBytes: (length) => crypto.randomBytes(length),
};

export function replaceChance(other: Chance): Chance {
  const before = chance;
  chance = other;
  return before;
}

export const wallMs: Chance['wallMs'] = () => chance.wallMs();
export const monotonicMs: Chance['monotonicMs'] = () => chance.monotonicMs();
export const now: Chance['now'] = () => chance.now();
export const setTimeout: Chance['setTimeout'] = (callback, ms) => chance.setTimeout(callback, ms);
export const clearTimeout: Chance['clearTimeout'] = (timer) => chance.clearTimeout(timer);
export const setInterval: Chance['setInterval'] = (callback, ms) => chance.setInterval(callback, ms);
export const clearInterval: Chance['clearInterval'] = (timer) => chance.clearInterval(timer);
export const setImmediate: Chance['setImmediate'] = (callback) => chance.setImmediate(callback);
export const sleep: Chance['sleep'] = (ms, options) => chance.sleep(ms, options);
export const nextTurn: Chance['nextTurn'] = () => chance.nextTurn();
export const timeoutSignal: Chance['timeoutSignal'] = (ms) => chance.timeoutSignal(ms);
export const randomFraction: Chance['randomFraction'] = () => chance.randomFraction();
export const randomUUID: Chance['randomUUID'] = () => chance.randomUUID();
export const randomBytes: Chance['randomBytes'] = (length) => chance.randomBytes(length);
