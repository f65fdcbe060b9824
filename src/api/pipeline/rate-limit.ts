import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AttemptSum } from '../../identity/audit/attempt.ts';
import type { Caller } from '../../identity/consumers/scopes.ts';
import type { AllowanceOwner, Allowances } from '../../identity/rate-limits/allowances.ts';
import type { RateLimitResult } from '../../identity/rate-limits/rate-counter.ts';
import type { RateLimit, RateLimits } from '../../identity/rate-limits/rate-limits.ts';
import { windowSeconds } from '../../identity/rate-limits/sliding-count.ts';
import { networkOf } from '../../platform/base/networks.ts';
import { Problem } from '../../platform/base/problem.ts';
import { copyOfText } from '../../platform/base/text.ts';

declare module 'fastify' {
  interface FastifyRequest {
    isCounted: boolean;
    limitRefusal: Problem | undefined;
  }
}

export interface Headed {
  header(name: string, value: string): unknown;
}

/** Characters of a header that an address in it may keep in memory. */
const maxHeaderKept = 255;

export interface Limits extends Pick<RateLimits, 'requests' | 'failures' | 'unauthenticated' | 'refusals'> {
  allowances: Pick<Allowances, 'take' | 'secondsUntil'>;
}

export function countCaller(
  caller: Caller,
  request: FastifyRequest,
  reply: FastifyReply,
  limits: Limits,
): void {
  if (request.isCounted) return;
  request.isCounted = true;
  request.limitRefusal =
    countRequest(limits, caller.id, reply, caller.rateLimitPerMinute) ?? countAllowance(limits, caller);
}

/** Counts by the address; of an attempt that is over the limit only the sum is stored. `isWrong`: credentials or a signature were sent. */
export function countStranger(
  request: FastifyRequest,
  reply: FastifyReply,
  limits: Limits,
  isWrong: boolean,
): void {
  if (request.isCounted) return;
  request.isCounted = true;
  const address = addressOf(request);
  request.limitRefusal = (isWrong ? countFailure : countPublic)(limits, address, reply);
  if (request.limitRefusal && request.attempt) request.attempt.sum = sumOf(address);
}

/** Counts and stores like a failure: who has stolen credentials must not use up their owner's limit. It refuses nothing itself. */
export function countElsewhere(request: FastifyRequest, limits: Limits): void {
  if (request.isCounted) return;
  request.isCounted = true;
  const address = addressOf(request);
  if (request.attempt && !isFailureWithinLimit(limits, address)) request.attempt.sum = sumOf(address);
}

function sumOf(address: string): AttemptSum {
  return { by: 'network', name: networkOf(address) };
}

/**
 * Counts a request of a consumer or of a signing sender, and sets the headers with what is left. `own`: the caller's own
 * limit a minute. Returns the refusal of one that is over it.
 */
export function countRequest(
  { requests }: Limits,
  caller: string,
  reply: Headed,
  own?: number | null,
): Problem | undefined {
  const perMinute = own ?? requests.perMinute;
  if (perMinute === 0) return undefined;
  const quota = requests.take(caller, perMinute);
  setHeaders(reply, { name: requests.name, perMinute }, quota);
  if (quota.allowed) return undefined;
  return tooMany(`${perMinute} requests came with these credentials`, quota);
}

function countAllowance({ allowances }: Limits, caller: AllowanceOwner): Problem | undefined {
  const state = allowances.take(caller);
  if (state === undefined || state.allowed) return undefined;
  const { requests, per, resets_at } = state;
  const detail = `All ${requests} requests for this ${per} are used up. There are more from ${resets_at} on.`;
  return new Problem('allowance_exhausted', detail, { retryAfter: allowances.secondsUntil(state) });
}

/**
 * Counts a failed authentication. Returns the refusal once there are too many from that address. Until then no header shows
 * what is left: unauthenticated callers need not know.
 */
function countFailure({ failures }: Limits, address: string, reply: Headed): Problem | undefined {
  return countFrom(failures, address, reply, (most) => `${most} authentications failed`);
}

function isFailureWithinLimit({ failures }: Limits, address: string): boolean {
  return failures === undefined || failures.take(networkOf(address)).allowed;
}

export function countPublic(
  { unauthenticated }: Pick<Limits, 'unauthenticated'>,
  address: string,
  reply: Headed,
): Problem | undefined {
  const what = (most: number) => `${most} requests came without credentials`;
  return countFrom(unauthenticated, address, reply, what);
}

function countFrom(
  limit: RateLimit | undefined,
  address: string,
  reply: Headed,
  what: (most: number) => string,
): Problem | undefined {
  if (limit === undefined) return undefined;
  const quota = limit.take(networkOf(address));
  if (quota.allowed) return undefined;
  setHeaders(reply, limit, quota);
  return tooMany(`From this address, ${what(limit.perMinute)}`, quota);
}

function setHeaders(
  reply: Headed,
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
 * The caller's; empty where its connection has ended and nobody has asked for it before. The framework cuts it out of the
 * header, which would stay in memory with it.
 */
export function addressOf({
  ip,
  headers,
}: Pick<FastifyRequest, 'headers'> & { ip: string | undefined }): string {
  const isCut = String(headers['x-forwarded-for'] ?? '').length > maxHeaderKept;
  return isCut ? copyOfText(ip ?? '') : (ip ?? '');
}
