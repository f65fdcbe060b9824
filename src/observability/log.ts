import { pino } from 'pino';
import { formatTimestamp } from '../base/timestamp.ts';
import { createLineWriter } from './line-writer.ts';

/** The logger's interface for all modules: facts first, then a sentence. */
export interface Log {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

/**
 * JSON lines on standard output. Callers pass named facts only, never requests, headers or settings: what is not
 * passed cannot leak. Errors are reduced to name, message and stack. `facts` stand in every line.
 */
export function createLog(level: LogLevel, facts: object | null = null) {
  return pino(
    {
      level,
      base: facts,
      timestamp: () => `,"time":"${formatTimestamp(Date.now())}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
    },
    createLineWriter(),
  );
}

/** An error as the log shows it: no own properties, since libraries hang requests and headers on them. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const cause = error.cause === undefined ? {} : { cause: describeError(error.cause) };
  return { name: error.name, message: error.message, stack: error.stack, ...cause };
}
