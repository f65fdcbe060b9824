import { Problem } from '../base/problem.ts';
import type { Consumer, StoredCredential } from './consumer.ts';

/** Pairs that may be valid at once: the record must fit what secrets managers hold (AWS: 64 KiB). */
const maxValid = 120;
/** Expired pairs that are kept, so that the audit can say whose they were. */
const maxExpired = 20;

/** Longest grace window, a year; the setting has the same bound. */
export const maxGraceWindowHours = 8760;

/**
 * The consumer with a new active pair. Every pair that was active becomes rotated and expires after the grace window
 * (0: at once); one that was rotated before keeps its own expiry or takes the new one, whichever is earlier. Throws
 * `Problem` conflict where too many pairs would stay valid.
 */
export function rotateCredentials(
  consumer: Consumer,
  replacement: StoredCredential,
  now: number,
  graceWindowHours: number,
): Consumer {
  const expiresAt = now + Math.round(graceWindowHours * 3_600_000);
  const rotated = consumer.credentials.map((pair) => expireBy(pair, expiresAt));
  const valid = rotated.filter((pair) => expiryOf(pair) > now);
  if (valid.length >= maxValid) throw tooMany(valid.length);
  const expired = rotated
    .filter((pair) => expiryOf(pair) <= now)
    .sort((a, b) => expiryOf(b) - expiryOf(a))
    .slice(0, maxExpired);
  const at = new Date(now).toISOString();
  return { ...consumer, updatedAt: at, rotatedAt: at, credentials: [replacement, ...valid, ...expired] };
}

function expireBy(pair: StoredCredential, expiresAt: number): StoredCredential {
  const earlier = Math.min(expiryOf(pair), expiresAt);
  return { ...pair, state: 'rotated', expiresAt: new Date(earlier).toISOString() };
}

/** Milliseconds since 1970; a rotated pair that names no expiry has expired, as the directory has it. */
function expiryOf({ state, expiresAt }: StoredCredential): number {
  if (expiresAt !== null) return Date.parse(expiresAt);
  return state === 'active' ? Number.POSITIVE_INFINITY : 0;
}

function tooMany(count: number): Problem {
  return new Problem(
    'conflict',
    `The consumer has ${count} pairs that are still valid. Wait until some have expired, or rotate with a shorter ` +
      'grace window, which shortens theirs too.',
  );
}
