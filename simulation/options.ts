import { parseArgs } from 'node:util';

/** What `npm run simulate` was asked for. */
export interface Options {
  seeds: number[];
  steps: number;
  replicas: number;
  workers: number;
  /** Whether each seed runs twice, to see that the same happens. */
  isTwice: boolean;
  /** Name of a known fix that is taken back, to see that it is missed. */
  undo: string | undefined;
  /** Numbers of the steps that are played; all where it is undefined. */
  only: number[] | undefined;
}

const usage = `npm run simulate -- [--seeds 200] [--from 1] [--seed N] [--steps 500] [--replicas 3] [--workers 2]
  [--once] [--undo NAME] [--only 1,2,3]`;

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
      seeds: { type: 'string', default: '200' },
      from: { type: 'string', default: '1' },
      seed: { type: 'string' },
      steps: { type: 'string', default: '500' },
      replicas: { type: 'string', default: '3' },
      workers: { type: 'string', default: '2' },
      once: { type: 'boolean', default: false },
      undo: { type: 'string' },
      only: { type: 'string' },
    },
  });
  const { seed, from, only, undo } = values;
  const count = seed === undefined ? wholeOf('seeds', values.seeds) : 1;
  const first = wholeOf('seed', seed ?? from);
  return {
    seeds: Array.from({ length: count }, (_, at) => first + at),
    steps: wholeOf('steps', values.steps),
    replicas: wholeOf('replicas', values.replicas),
    workers: wholeOf('workers', values.workers),
    isTwice: !values.once,
    undo,
    only: only?.split(',').map((number) => wholeOf('only', number)),
  };
}

function wholeOf(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0)
    throw new Error(`--${name} must be a whole number, not ${text}`);
  return number;
}
