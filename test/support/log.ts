import type { Log } from '../../src/platform/observability/log.ts';

export interface LogLine {
  level: string;
  facts: Record<string, unknown>;
  message: string;
}

/** A log that keeps its lines; errors among the facts stand there as name, message and stack. */
export function recordLog(): { log: Log; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const write = (level: string) => (facts: object, message: string) => {
    lines.push({ level, facts: Object.fromEntries(Object.entries(facts).map(showError)), message });
  };
  return {
    log: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
    lines,
  };
}

function showError([name, value]: [string, unknown]): [string, unknown] {
  if (!(value instanceof Error)) return [name, value];
  return [name, { name: value.name, message: value.message, stack: value.stack, ...showCause(value.cause) }];
}

function showCause(cause: unknown): object {
  return cause === undefined ? {} : { cause: showError(['cause', cause])[1] };
}
