import { monotonicMs } from '../base/chance.ts';
import { inTime } from '../base/waiting.ts';

export interface ConnectionState {
  connected: boolean;
  [fact: string]: unknown;
}

export interface HealthReport {
  status: 'ok' | 'unavailable';
  [resource: string]: ConnectionState | string;
}

export type Probe = () => Promise<ConnectionState>;

const probeTimeoutMs = 2000;

/**
 * Health of every configured resource, in the order given. The service is unavailable if and only if one of
 * `essential` is not connected; the others are only shown.
 */
export function createHealth(probes: Record<string, Probe>, essential: readonly string[]) {
  return async function report(): Promise<HealthReport> {
    const states = await Promise.all(
      Object.entries(probes).map(async ([name, probe]) => [name, await probe()] as const),
    );
    const isDown = states.some(([name, state]) => essential.includes(name) && !state.connected);
    return { status: isDown ? 'unavailable' : 'ok', ...Object.fromEntries(states) };
  };
}

/** How long one result of a probe is used, in milliseconds. */
interface ProbeLifetimes {
  goodForMs: number;
  /** Milliseconds for the result of a probe that failed. */
  badForMs: number;
}

/**
 * A probe whose result all callers share. The health endpoint is open to everybody: without this, it could be used to
 * load other systems, to spend their quota or to run up their bill. `now` is in milliseconds.
 */
export class SharedProbe<T> {
  readonly #probe: () => Promise<T>;
  readonly #lifetimes: ProbeLifetimes;
  readonly #now: () => number;
  #last: { result: Promise<T>; isGood: boolean; until: number } | undefined;

  constructor(probe: () => Promise<T>, lifetimes: ProbeLifetimes, now = () => monotonicMs()) {
    this.#probe = probe;
    this.#lifetimes = lifetimes;
    this.#now = now;
  }

  /** Resolves or throws as the probe does: one that runs now, or the last one while its result may be used. */
  async check(): Promise<T> {
    if (this.#last !== undefined && this.#now() < this.#last.until) return this.#last.result;
    // All callers wait for a probe that runs.
    const entry = { result: this.#probe(), isGood: false, until: Number.POSITIVE_INFINITY };
    this.#last = entry;
    const { goodForMs, badForMs } = this.#lifetimes;
    try {
      const result = await entry.result;
      entry.isGood = true;
      entry.until = this.#now() + goodForMs;
      return result;
    } catch (error) {
      entry.until = this.#now() + badForMs;
      throw error;
    }
  }

  /** A call has failed: the next check runs the probe again, even if the last one succeeded. */
  noteFailure(): void {
    if (this.#last?.isGood === true) this.#last = undefined;
  }
}

/** A probe for the health report: shared for 2 s, and not connected where it fails or takes more than 2 s. */
export function shareProbe(probe: Probe): Probe {
  const late = () => new Error('the probe took too long');
  const check = (): Promise<ConnectionState> =>
    inTime(probe(), probeTimeoutMs, late).catch(() => ({ connected: false }));
  const shared = new SharedProbe(check, { goodForMs: 2000, badForMs: 2000 });
  return () => shared.check();
}
