import { Problem } from '../base/problem.ts';

/** PostgreSQL has ended a statement that took too long (query_canceled). */
const tooSlow = '57014';
const uniqueViolation = '23505';
/** A lock was not free within `lock_timeout` (lock_not_available). */
const locked = '55P03';
/** A write met a standby, or a server that takes no writes now (read_only_sql_transaction). */
const readOnly = '25006';

/** Network errors, and what PostgreSQL answers while it starts, stops, takes no writes or has no connection to spare. */
const passingCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EPIPE',
  'EHOSTUNREACH',
]);
const passingStates = /^(25006|57P0[1-3]|53300|08...)$/;

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && (error as { code?: string }).code === code;
}

/** Whether another row has a value that must be unique. */
export function isDuplicate(error: unknown): boolean {
  return hasCode(error, uniqueViolation);
}

/** Whether the database ended the statement at its time limit: one with fewer rows may succeed. */
export function isStatementTimeout(error: unknown): boolean {
  return hasCode(error, tooSlow);
}

/** Whether another transaction kept a row or a table for too long. */
export function isLocked(error: unknown): boolean {
  return hasCode(error, locked);
}

/** Whether the connection leads to a server that takes no writes: after a failover another one may. */
export function isReadOnly(error: unknown): boolean {
  return hasCode(error, readOnly);
}

/** Whether an error says that the database took too long: requests that wait beside this one would wait in vain too. */
export function isHung(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: string };
  return code === undefined ? /timeout/i.test(error.message) : code === tooSlow;
}

/** Whether an error says that the database can't be reached now, rather than that something is wrong for good. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.every(isUnavailable);
  if (isHung(error)) return true;
  const { code } = error as { code?: string };
  if (code !== undefined) return passingCodes.has(code) || passingStates.test(code);
  return /terminated/i.test(error.message);
}

interface StatementFacts {
  /** Subject for the message: `The database that … is not available`. */
  keeps: string;
  /** Seconds after which a repeat may help. */
  retryAfter?: number;
  /** The statement may have taken effect, and the work may go on later. */
  outcomeUnknown?: boolean;
  externalId?: string;
}

/** Does work at the database for a request. Throws `store_unavailable` where it fails, and what it refuses itself: a `Problem`. */
export async function orUnavailable<T>(
  work: () => Promise<T>,
  { keeps, retryAfter = 1, outcomeUnknown = false, ...facts }: StatementFacts,
): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof Problem) throw cause;
    const detail = `The database that ${keeps} isn't available.`;
    throw new Problem('store_unavailable', detail, { retryAfter, outcomeUnknown, ...facts, cause });
  }
}
