import { isIPv6 } from 'node:net';
import type { FastifyReply } from 'fastify';
import { Problem } from '../../base/problem.ts';
import type { RateLimitResult } from '../../rate-limits/rate-counter.ts';
import type { RateLimit, RateLimits } from '../../rate-limits/rate-limits.ts';
import { windowSeconds } from '../../rate-limits/sliding-count.ts';

export type Limits = Pick<RateLimits, 'requests' | 'failures' | 'unauthenticated'>;

/**
 * Counts a request of a consumer or of a signing sender, and sets the headers with what is left. `own`: the caller's own
 * limit a minute. Throws `rate_limited`.
 */
export function countRequest(
  { requests }: Limits,
  caller: string,
  reply: FastifyReply,
  own?: number | null,
): void {
  const perMinute = own ?? requests.perMinute;
  if (perMinute === 0) return;
  const quota = requests.take(caller, perMinute);
  setHeaders(reply, { name: requests.name, perMinute }, quota);
  if (!quota.allowed) throw tooMany(`${perMinute} requests have come with these credentials`, quota);
}

/**
 * Counts a failed authentication. Throws `rate_limited` once there are too many from that address. Until then no header
 * shows what is left: unauthenticated callers need not know.
 */
export function countFailure({ failures }: Limits, address: string, reply: FastifyReply): void {
  if (failures === undefined) return;
  const quota = failures.take(networkOf(address));
  if (quota.allowed) return;
  setHeaders(reply, failures, quota);
  throw tooMany(`From this address ${failures.perMinute} authentications have failed`, quota);
}

/**
 * Counts a request without valid credentials or signature. Once there are too many from that address, returns a function
 * that throws `rate_limited`. The headers are as for failed authentications.
 */
export function countPublic(
  { unauthenticated }: Limits,
  address: string,
  reply: FastifyReply,
): (() => never) | undefined {
  if (unauthenticated === undefined) return undefined;
  const quota = unauthenticated.take(networkOf(address));
  if (quota.allowed) return undefined;
  return () => {
    setHeaders(reply, unauthenticated, quota);
    throw tooMany(
      `From this address ${unauthenticated.perMinute} requests have come without valid credentials`,
      quota,
    );
  };
}

/** Whether the next request without valid credentials from that address would be refused. */
export function isPublicLimitReached({ unauthenticated }: Limits, address: string): boolean {
  return unauthenticated?.isReached(networkOf(address)) === true;
}

/** RateLimit headers (draft-ietf-httpapi-ratelimit-headers-11): structured lists, whose names need no escaping here. */
function setHeaders(
  reply: FastifyReply,
  { name, perMinute }: Pick<RateLimit, 'name' | 'perMinute'>,
  quota: RateLimitResult,
): void {
  reply.header('ratelimit-policy', `"${name}";q=${perMinute};w=${windowSeconds}`);
  reply.header('ratelimit', `"${name}";r=${quota.remaining};t=${quota.resetSeconds}`);
}

function tooMany(what: string, { resetSeconds }: RateLimitResult): Problem {
  return new Problem('rate_limited', `${what} within a minute.`, { retryAfter: resetSeconds });
}

/**
 * What counts as one address: of IPv6 the first 64 bits, since the holder of one address of such a network has all of
 * them. IPv4 mapped to IPv6 is IPv4.
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  // From a trusted proxy it may be any text.
  if (!isIPv6(address)) return address.slice(0, 64);
  const [head = '', tail] = address.toLowerCase().replace(/%.*$/, '').split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const after = tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
    groups.push(...Array.from({ length: 8 - groups.length - after }, () => '0'), ...tail.split(':'));
  }
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':');
}
