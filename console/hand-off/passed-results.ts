import { isObject } from '../shared/json-text.ts';
import { pageFacts } from '../shared/page-facts.ts';
import { type Result, readUsable } from './results.ts';

/*
 * Results that a search program passes: its page opens the console, waits for `handoff-ready`, and answers with
 * `handoff-results`, both by postMessage. Only pages of the origins in `console.resultOrigins` are listened to.
 */

export interface Passed {
  /** Of the page that passed them. */
  origin: string;
  results: Result[];
  tripId: string | undefined;
  memberId: string | undefined;
  /** What is wrong with those that are left out, or with all of it. */
  faults: string[];
}

const { result_origins: origins } = pageFacts;

let passed: Passed | undefined;
let follow: (() => void) | undefined;

/** The page that opened this one, where it can still be spoken to. */
const page = opener as Window | null;

/** Begins to listen, and notifies the page that opened this one. Called once, before anybody signs in. */
export function listenForResults(): void {
  if (origins.length === 0) return;
  addEventListener('message', ({ origin, data }: MessageEvent<unknown>) => {
    if (!origins.includes(origin) || !isObject(data) || data['type'] !== 'handoff-results') return;
    passed = read(origin, data);
    follow?.();
  });
  // It says no more than that the console is here.
  page?.postMessage({ type: 'handoff-ready' }, '*');
}

/** How results come, where this page was opened for them; `cut off`: the browser lets nothing through. */
export function passing(): 'none' | 'expected' | 'cut off' {
  if (!/[?&]results=/.test(location.hash)) return 'none';
  return page === null || origins.length === 0 ? 'cut off' : 'expected';
}

/** Calls `follower` whenever there is something new; returns what ends that. */
export function followPassed(follower: () => void): () => void {
  follow = follower;
  return () => {
    follow = undefined;
  };
}

/** What was passed since this was last called. */
export function takePassed(): Passed | undefined {
  const found = passed;
  passed = undefined;
  return found;
}

function read(origin: string, { results, trip_id, member_id }: Record<string, unknown>): Passed {
  const head = { origin, tripId: idOrNone(trip_id), memberId: idOrNone(member_id) };
  try {
    return { ...head, ...readUsable(jsonOf(results)) };
  } catch (error) {
    return { ...head, results: [], faults: [(error as Error).message] };
  }
}

/** A window can pass what JSON does not have. */
function jsonOf(results: unknown): string {
  if (!Array.isArray(results)) throw new Error('"results" isn\'t a list.');
  try {
    return JSON.stringify(results);
  } catch (error) {
    throw new Error(`The results can't be written as JSON: ${(error as Error).message}`, { cause: error });
  }
}

/** What is no UUID is shown in its field, with what is wrong. */
function idOrNone(value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, 36) : undefined;
}
