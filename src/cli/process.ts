import { resolve } from 'node:path';
import type { App } from '../app/app.ts';
import { settingsTable } from '../app/settings.ts';
import { monotonicMs, setTimeout } from '../platform/base/chance.ts';
import { FileLockHeld } from '../platform/base/files.ts';
import { createLog, type Log } from '../platform/observability/log.ts';
import type { Settings } from '../platform/settings/table.ts';
import { similarVariables } from '../platform/settings/variables.ts';

/** Where the log is written while a person watches the terminal; undefined: to standard output. */
export function logFileOf({ dataDir, production }: Settings): string | undefined {
  return process.stdout.isTTY && !production ? resolve(dataDir, 'service.log') : undefined;
}

export function openServiceLog(settings: Settings, facts?: object): Log {
  const file = logFileOf(settings);
  if (file !== undefined) process.stdout.write(`Starting… (log: ${file})\n`);
  return createLog(settings.logLevel, facts, file);
}

/** npm repeats a signal that the terminal has sent too: the same one within this time is no second signal. */
const sameSignalMs = 200;

/** Calls `first` at the first SIGTERM or SIGINT; a second one calls `atOnce` and ends the process with code 1. */
export function onSignals(first: (signal: NodeJS.Signals) => void, atOnce: () => void = () => {}): void {
  let firstAt: number | undefined;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (firstAt === undefined) {
        firstAt = monotonicMs();
        first(signal);
      } else if (monotonicMs() - firstAt > sameSignalMs) {
        atOnce();
        process.exit(1);
      }
    });
  }
}

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

export function explainTaken(error: unknown): unknown {
  if (error instanceof FileLockHeld) {
    error.message += '. Stop it, or give this gateway another folder with DATA_DIR.';
    return error;
  }
  const { code, port } = error as { code?: string; port?: number };
  if (code !== 'EADDRINUSE') return error;
  return new Error(
    `Port ${port} is already in use, perhaps by another gateway. Stop it, or choose other ports with PORT and METRICS_PORT.`,
    { cause: error },
  );
}

export function warnOfVariables({ secretsManager }: Pick<Settings, 'secretsManager'>, log: Log): void {
  for (const { name, nearest } of similarVariables(settingsTable, process.env, secretsManager)) {
    log.warn(
      { variable: name, nearest },
      "an environment variable isn't a setting, but its name is similar to one",
    );
  }
  const fixed = process.env['COMPOSE_FIXED_SETTINGS']?.trim();
  if (fixed)
    log.warn(
      { variables: fixed.split(/\s+/) },
      "these settings are fixed in the container; compose.yaml doesn't pass them on",
    );
}
