import { hourMs } from '../../platform/base/moment.ts';
import { Problem } from '../../platform/base/problem.ts';
import { type Consumer, expiryOf, isExpired, momentOfChange, type StoredCredential } from './consumer.ts';
import { isStillListed } from './consumer-view.ts';

/** Pairs in a record, the new one included: it must fit what secrets managers hold (AWS: 64 KiB). */
const maxPairs = 150;
/** Pairs valid at once; the rest is for expired ones, which stay listed. */
const maxValid = 120;

/** Longest grace window, a hundred years: dates beyond may be none. */
export const maxGraceWindowHours = 876_000;

/**
 * The consumer with a new active pair. Every pair that was active becomes rotated and expires after the grace window
 * (0: at once); one that was rotated before keeps its own expiry or takes the new one, whichever is earlier. Expired
 * pairs stay for as long as they are listed, the newest of them where there are too many. Throws `Problem` conflict where
 * too many pairs would stay valid.
 */
export function rotateCredentials(
  consumer: Consumer,
  replacement: StoredCredential,
  now: number,
  graceWindowHours: number,
): Consumer {
  const expiresAt = now + Math.round(graceWindowHours * hourMs);
  const rotated = consumer.credentials.map((pair) => expireBy(pair, expiresAt));
  const valid = rotated.filter((pair) => !isExpired(pair, now));
  if (valid.length >= maxValid) throw tooMany(valid.length);
  const expired = rotated
    .filter((pair) => isExpired(pair, now) && isStillListed(pair, now))
    .sort((a, b) => expiryOf(b) - expiryOf(a))
    .slice(0, maxPairs - 1 - valid.length);
  const at = momentOfChange(consumer, now);
  return { ...consumer, updatedAt: at, rotatedAt: at, credentials: [replacement, ...valid, ...expired] };
}

function expireBy(pair: StoredCredential, expiresAt: number): StoredCredential {
  const earlier = Math.min(expiryOf(pair), expiresAt);
  return { ...pair, state: 'rotated', expiresAt: new Date(earlier).toISOString() };
}

function tooMany(count: number): Problem {
  return new Problem(
    'conflict',
    `The consumer has ${count} pairs that are still valid. Wait until some have expired, or rotate with a shorter ` +
      'grace window, which shortens theirs too.',
  );
}
