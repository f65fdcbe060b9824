import { createApp } from '../../app.ts';
import { createLog } from '../../observability/log.ts';
import { createMetrics } from '../../observability/metrics.ts';
import type { Settings } from '../../settings/settings.ts';
import { closeAndExit } from '../signals.ts';
import { explainTakenPort } from '../taken-port.ts';
import type { FromWorker, ToWorker } from './messages.ts';

/**
 * Runs the service in one of several processes, until the parent says stop. When the parent is gone, Node ends a worker
 * of a cluster at once: no worker outlives it. Throws what keeps it from starting.
 */
export async function runWorker(settings: Settings): Promise<void> {
  const log = createLog(settings.logLevel, { pid: process.pid });
  const metrics = createMetrics();
  const app = createApp(settings, log, { workerMetrics: metrics });
  let stopping = false;
  const stop = () => {
    stopping = true;
    closeAndExit(app, settings, log);
  };
  process.on('message', (message: ToWorker) => {
    if (message.type === 'stop') return stop();
    void metrics.registry.getMetricsAsJSON().then((snapshot) => tell({ type: 'metrics', snapshot }));
  });
  // Terminals and process managers send signals to the parent and its workers alike: the parent decides what they mean.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
  try {
    const { url } = await app.start();
    tell({ type: 'ready', url });
  } catch (error) {
    if (stopping) return;
    await app.close();
    // The line to the parent alone would keep this process alive.
    process.channel?.unref();
    throw explainTakenPort(error);
  }
}

/** A parent that has gone hears nothing, and ends this process anyway. */
function tell(message: FromWorker): void {
  process.send?.(message, undefined, undefined, () => {});
}
