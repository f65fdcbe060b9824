/** Network errors, and what PostgreSQL answers while it starts, stops or has no connection to spare. */
const passingCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EPIPE',
  'EHOSTUNREACH',
]);
const passingStates = /^(57P0[1-3]|53300|08...)$/;

/** Whether an error says that the database can't be reached now, rather than that something is wrong for good. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.every(isAway);
  const { code } = error as { code?: string };
  if (code !== undefined) return passingCodes.has(code) || passingStates.test(code);
  return /timeout|terminated/i.test(error.message);
}
