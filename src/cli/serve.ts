import { availableParallelism } from 'node:os';
import { createApp } from '../app/app.ts';
import type { Settings } from '../platform/settings/table.ts';
import { banner } from './banner.ts';
import {
  closeAndExit,
  explainTaken,
  logFileOf,
  onSignals,
  openServiceLog,
  warnOfVariables,
} from './process.ts';

const mostWorkers = 64;

/**
 * Runs the service until SIGTERM or SIGINT, then stops gracefully and exits 0; a second signal ends at once, with
 * code 1. Throws what keeps it from starting.
 */
export async function serve(settings: Settings): Promise<void> {
  const divided = divideAmongWorkers(settings, availableParallelism());
  if (divided.workers === 1) return serveAlone(settings);
  // Only here: what several processes need is not loaded for one.
  const { serveWithWorkers } = await import('./workers/serve-with-workers.ts');
  return serveWithWorkers(divided, divided.workers);
}

/**
 * The settings of each worker, and how many there are. `auto`: as many as processors, and the CRM's concurrency is that of
 * all together; one where the stores are embedded, which live in one process.
 */
export function divideAmongWorkers(settings: Settings, processors: number): Settings & { workers: number } {
  const { workers, databaseUrl, redisUrl, crm } = settings;
  if (workers !== 'auto') return { ...settings, workers };
  if (databaseUrl === undefined || redisUrl === undefined) return { ...settings, workers: 1 };
  const count = Math.min(processors, crm.maxConcurrency, mostWorkers);
  const maxConcurrency = Math.floor(crm.maxConcurrency / count);
  return { ...settings, workers: count, crm: { ...crm, maxConcurrency } };
}

async function serveAlone(settings: Settings): Promise<void> {
  const log = openServiceLog(settings);
  warnOfVariables(settings, log);
  const app = createApp(settings, log);
  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    log.info({ signal }, 'stopping');
    stopping = true;
    closeAndExit(app, settings, log);
  };
  onSignals(stop);
  try {
    const started = await app.start();
    log.info({ url: started.url, operations_url: started.operationsUrl }, 'ready');
    // On standard output where nothing is simulated, the log is for machines.
    const logFile = logFileOf(settings);
    if (logFile !== undefined || Object.keys(started.simulated).length > 0)
      process.stdout.write(`${banner({ ...started, settings, logFile })}\n`);
  } catch (error) {
    if (stopping) return;
    await app.close();
    throw explainTaken(error);
  }
}
