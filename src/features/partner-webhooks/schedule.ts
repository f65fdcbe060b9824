import { randomFraction, wallMs } from '../../platform/base/chance.ts';

/** Seconds from a failed attempt to the next one. */
const delays = [5, 60, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];

/**
 * Share of a delay by which it is shortened or lengthened at most, so that repeats do not come all at once. A fifth is
 * promised; the rest is for a machine that is busy.
 */
const jitter = 0.15;

const longestRetryAfter = 3600;

/**
 * Seconds until the next attempt after so many that failed; undefined where there is none. `retryAfter` is the header of
 * the last answer. `random` is from 0 to 1, `now` in milliseconds since 1970.
 */
export function delayAfter(
  failed: number,
  retryAfter: string | undefined,
  { random = randomFraction(), now = wallMs() } = {},
): number | undefined {
  const delay = delays[failed - 1];
  if (delay === undefined) return undefined;
  const usual = delay * (1 + jitter * (2 * random - 1));
  return Math.max(usual, Math.min(secondsOf(retryAfter, now), longestRetryAfter));
}

/** The header Retry-After as seconds from now: a number of them, or a date (RFC 9110 section 10.2.3). */
function secondsOf(header: string | undefined, now: number): number {
  if (header === undefined) return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const date = header.endsWith(' GMT') ? Date.parse(header) : Number.NaN;
  return Number.isNaN(date) ? 0 : (date - now) / 1000;
}
