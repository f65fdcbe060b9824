import { inspect, styleText } from 'node:util';
import { escapeInvisible, escapeLines } from '../base/visible-text.ts';

interface Line {
  level: string;
  time: string;
  msg?: string;
  err?: { stack?: string; message?: string };
  [fact: string]: unknown;
}

const colours = { warn: 'yellow', error: 'red', fatal: 'red', debug: 'gray', trace: 'gray' } as const;

/** A line of the log for people: time, level, sentence, facts; the stack of an error below. For a terminal. */
export function readableLine(json: string): string {
  const { level, time, msg = '', err, ...facts } = JSON.parse(json) as Line;
  const colour = level in colours ? colours[level as keyof typeof colours] : 'green';
  const label = styleText(colour, level.toUpperCase().padEnd(5));
  const text = Object.entries(facts)
    .map(
      ([name, value]) =>
        ` ${name}=${typeof value === 'string' && !/\s/.test(value) ? escapeInvisible(value) : escapeInvisible(inspect(value, { breakLength: Infinity }))}`,
    )
    .join('');
  const stack = err ? `\n${escapeLines(err.stack ?? err.message ?? '')}` : '';
  return `${time.slice(11, 23)} ${label} ${escapeInvisible(msg)}${styleText('gray', text)}${stack}\n`;
}
