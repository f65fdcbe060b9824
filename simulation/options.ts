import { parseArgs } from 'node:util';
import { type Theme, themes } from './workload/themes.ts';

/** Options of `npm run simulate`. */
export interface Options {
  /** The first seed, and how many there are at most. */
  first: number;
  count: number;
  /** Seeds in place of those from the first on. */
  named: number[] | undefined;
  /** No seed begins later than so many minutes after the first. */
  minutes: number;
  steps: number;
  replicas: number;
  workers: number;
  /** Whether each seed runs twice, to see that the same happens. */
  isTwice: boolean;
  /** Name of a known fix that is taken back, to see that it is missed. */
  undo: string | undefined;
  /** Numbers of the steps that are played; all where it is undefined. */
  only: number[] | undefined;
  /** Seeds of other themes are passed over. */
  theme: Theme | undefined;
}

const usage = `npm run simulate -- [--seeds 200] [--from 1] [--seed N,N] [--minutes N] [--steps 500] [--replicas 3]
  [--workers 2] [--once] [--undo NAME] [--only 1,2,3] [--theme ${Object.keys(themes).join('|')}]`;

/** Throws for what it doesn't know, with the usage. */
export function readOptions(args: readonly string[]): Options {
  try {
    return parse(args);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${usage}`, { cause: error });
  }
}

function parse(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: 'string' },
      minutes: { type: 'string' },
      from: { type: 'string', default: '1' },
      seed: { type: 'string' },
      steps: { type: 'string', default: '500' },
      replicas: { type: 'string', default: '3' },
      workers: { type: 'string', default: '2' },
      once: { type: 'boolean', default: false },
      undo: { type: 'string' },
      only: { type: 'string' },
      theme: { type: 'string' },
    },
  });
  const { seed, seeds, from, only, undo, minutes, theme } = values;
  if (theme !== undefined && !(theme in themes)) throw new Error(`--theme knows no ${theme}`);
  const named = seed?.split(',').map((one) => wholeOf('seed', one));
  const most = minutes === undefined ? 200 : Number.POSITIVE_INFINITY;
  return {
    first: wholeOf('from', from),
    count: named?.length ?? (seeds === undefined ? most : wholeOf('seeds', seeds)),
    named,
    minutes: minutes === undefined ? Number.POSITIVE_INFINITY : wholeOf('minutes', minutes),
    steps: wholeOf('steps', values.steps),
    replicas: wholeOf('replicas', values.replicas),
    workers: wholeOf('workers', values.workers),
    isTwice: !values.once,
    undo,
    only: only?.split(',').map((number) => wholeOf('only', number)),
    theme: theme as Theme | undefined,
  };
}

function wholeOf(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0)
    throw new Error(`--${name} must be a whole number, not ${text}`);
  return number;
}
