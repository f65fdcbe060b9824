import type { App } from '../app.ts';
import type { Log } from '../observability/log.ts';
import type { Settings } from '../settings/settings.ts';

/** npm passes on a signal that the terminal has sent already: the same one within this time is no second signal. */
const sameSignalMs = 200;

/** Calls `first` at the first SIGTERM or SIGINT; a second one calls `atOnce` and ends the process with code 1. */
export function onSignals(first: (signal: NodeJS.Signals) => void, atOnce: () => void = () => {}): void {
  let firstAt: number | undefined;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (firstAt === undefined) {
        firstAt = performance.now();
        first(signal);
      } else if (performance.now() - firstAt > sameSignalMs) {
        atOnce();
        process.exit(1);
      }
    });
  }
}

/** What is still running when the time of a stop is over is cut off. */
export function endAtTheLatest(
  { drainSeconds, shutdownSeconds }: Settings,
  cutOff: () => void = () => {},
): void {
  const end = () => {
    cutOff();
    process.exit(1);
  };
  setTimeout(end, Math.max(shutdownSeconds, drainSeconds + 1) * 1000).unref();
}

/** Stops the app and ends the process: 0 when all was given back in time, else 1. */
export function closeAndExit(app: Pick<App, 'close'>, settings: Settings, log: Log): void {
  endAtTheLatest(settings);
  app.close().then(
    () => process.exit(0),
    (error: unknown) => {
      log.error({ err: error }, 'the stop failed');
      process.exit(1);
    },
  );
}
