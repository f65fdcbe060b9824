interface Running {
  url: string;
  close(): Promise<void>;
}

/**
 * Runs a simulator until it is asked to stop, and says where it listens. Where `start` throws, the fault and the usage
 * are shown, and the program ends with 2.
 */
export async function runProgram(
  name: string,
  usage: string,
  start: (args: string[]) => Promise<Running>,
): Promise<void> {
  const args = process.argv.slice(2);
  if (args.includes('--help')) return void process.stdout.write(`${usage}\n`);
  try {
    const running = await start(args);
    process.stdout.write(`${name} listening on ${running.url}\n`);
    const stop = (): void => void running.close();
    process.once('SIGTERM', stop);
    process.once('SIGINT', stop);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${usage}\n`);
    process.exitCode = 2;
  }
}

/** The number that an argument gives; undefined where it is not there. @throws Error for anything else. */
export function numberOf<Name extends string>(
  given: { [name in Name]?: string | undefined },
  name: Name,
): number | undefined {
  const text = given[name];
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text === '' || !(value >= 0)) throw new Error(`--${name} must be a number of at least 0`);
  return value;
}

type Present<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** Leaves out what is not given, so that the defaults of the simulator hold. */
export function present<T extends object>(values: T): Present<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Present<T>;
}
