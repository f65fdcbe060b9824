import { createApp } from '../../app/app.ts';
import { createAllMetrics } from '../../app/metrics.ts';
import { createLog } from '../../platform/observability/log.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { closeAndExit, explainTaken, logFileOf } from '../process.ts';
import type { FromWorker, ToWorker } from './worker-group.ts';

/**
 * Runs the service in one of several processes, until the parent stops it. When the parent is gone, Node ends a worker of a
 * cluster at once. Throws what keeps it from starting.
 */
export async function runWorker(settings: Settings): Promise<void> {
  const log = createLog(settings.logLevel, { pid: process.pid }, logFileOf(settings));
  const metrics = createAllMetrics();
  const app = createApp(settings, log, { workerMetrics: metrics });
  let stopping = false;
  const stop = () => {
    stopping = true;
    closeAndExit(app, settings, log);
  };
  process.on('message', (message: ToWorker) => {
    if (message.type === 'stop') return stop();
    void metrics.registry.getMetricsAsJSON().then((snapshot) => send({ type: 'metrics', snapshot }));
  });
  // Terminals and process managers send signals to the parent and its workers alike: the parent decides what they mean.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
  try {
    const { url } = await app.start();
    send({ type: 'ready', url });
  } catch (error) {
    if (stopping) return;
    await app.close();
    // The line to the parent alone would keep this process alive.
    process.channel?.unref();
    throw explainTaken(error);
  }
}

function send(message: FromWorker): void {
  process.send?.(message, undefined, undefined, () => {});
}
