import { createApp } from '../app.ts';
import { banner } from '../embedded/banner.ts';
import { createLog } from '../observability/log.ts';
import { loadSettings, type Settings } from '../settings/settings.ts';

/** npm passes on a signal that the terminal has sent already: the same one within this time is no second signal. */
const sameSignalMs = 200;

/**
 * Runs the service until SIGTERM or SIGINT, then stops gracefully and exits 0; a second signal ends at once, with
 * code 1. Throws what keeps it from starting.
 */
export async function serve(configFile: string | undefined): Promise<void> {
  const settings = loadSettings(process.env, configFile);
  const log = createLog(settings.logLevel);
  if (settings.withoutEffect.length > 0) {
    log.warn({ settings: settings.withoutEffect }, 'these settings have no effect in this version yet');
  }
  const app = createApp(settings, log);
  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    log.info({ signal }, 'stopping');
    stopping = true;
    endAtTheLatest(settings);
    app.close().then(
      () => process.exit(0),
      (error) => {
        log.error({ err: error }, 'the stop failed');
        process.exit(1);
      },
    );
  };
  onSignals(stop);
  try {
    const started = await app.start();
    log.info({ url: started.url, operations_url: started.operationsUrl }, 'ready');
    // Where nothing is simulated, the log is for machines.
    const isSimulated = started.org !== undefined || started.diningPartner !== undefined;
    if (isSimulated) process.stdout.write(`${banner({ ...started, settings })}\n`);
  } catch (error) {
    if (stopping) return;
    await app.close();
    throw explainTakenPort(error);
  }
}

/** A port that is in use, in terms of the settings. */
function explainTakenPort(error: unknown): unknown {
  const { code, port } = error as { code?: string; port?: number };
  if (code !== 'EADDRINUSE') return error;
  return new Error(`Port ${port} is in use: choose others with PORT and METRICS_PORT.`, { cause: error });
}

function onSignals(first: (signal: NodeJS.Signals) => void): void {
  let firstAt: number | undefined;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (firstAt === undefined) {
        firstAt = performance.now();
        first(signal);
      } else if (performance.now() - firstAt > sameSignalMs) {
        process.exit(1);
      }
    });
  }
}

/** What is still running when the time is over is cut off. */
function endAtTheLatest({ drainSeconds, shutdownSeconds }: Settings): void {
  setTimeout(() => process.exit(1), Math.max(shutdownSeconds, drainSeconds + 1) * 1000).unref();
}
