import cluster from 'node:cluster';
import { createApp } from '../../app/app.ts';
import { createAllMetrics } from '../../app/metrics.ts';
import { settingsTable } from '../../app/settings.ts';
import { orgSimulator } from '../../crm/simulated-org.ts';
import { features } from '../../features.ts';
import { lockDataDir } from '../../platform/base/files.ts';
import { createLog, type Log } from '../../platform/observability/log.ts';
import { createOperationsServer } from '../../platform/observability/operations-server.ts';
import { WorkerMetrics } from '../../platform/observability/worker-metrics.ts';
import { openSecretsManager } from '../../platform/secrets/secrets.ts';
import type { Settings } from '../../platform/settings/table.ts';
import type { Simulated } from '../../platform/simulators/simulator.ts';
import { banner } from '../banner.ts';
import {
  closeAndExit,
  endAtTheLatest,
  explainTaken,
  logFileOf,
  onSignals,
  openServiceLog,
  warnOfVariables,
} from '../process.ts';
import { type FromWorker, type ToWorker, WorkerGroup } from './worker-group.ts';

/**
 * Runs the service in several processes on one port. This one is their parent: it holds the data directory, answers at
 * the metrics port for all of them, runs the simulated org where there is no real one, and serves no request itself.
 * It hands new connections to the workers by turns; each is this same program with the same arguments. Throws what keeps
 * the service from starting or from going on.
 */
export async function serveWithWorkers(settings: Settings, workers: number): Promise<void> {
  if (cluster.isWorker) return runWorker(settings);
  const log = openServiceLog(settings, { pid: process.pid });
  warnOfVariables(settings, log);
  const opened = new AsyncDisposableStack();
  const env: NodeJS.ProcessEnv = {};
  const metrics = new WorkerMetrics();
  const group = new WorkerGroup({ count: workers, log, metrics, fork: () => cluster.fork(env) });
  let stopping = false;
  const stop = async (): Promise<boolean> => {
    stopping = true;
    const isClean = await group.stop();
    await opened.disposeAsync();
    return isClean;
  };
  onSignals(
    (signal) => {
      log.info({ signal }, 'stopping');
      endAtTheLatest(settings, () => group.kill());
      stop().then(
        (isClean) => process.exit(isClean ? 0 : 1),
        () => process.exit(1),
      );
    },
    () => group.kill(),
  );
  try {
    const lock = await lockDataDir(settings.dataDir, 'handoff serve');
    opened.defer(() => lock.release());
    const operationsUrl = await openOperationsPort(settings, group, metrics, opened);
    const { org, simulated } = await startSimulators(settings, log, opened);
    Object.assign(env, variablesFor(simulated));
    // As JSON, metrics that are not a number would arrive as something else.
    cluster.setupPrimary({ serialization: 'advanced' });
    const url = await group.start();
    log.info({ url, operations_url: operationsUrl, workers }, 'ready');
    const logFile = logFileOf(settings);
    if (logFile !== undefined || Object.keys(simulated).length > 0)
      process.stdout.write(`${banner({ url, operationsUrl, settings, org, simulated, logFile })}\n`);
    await group.failure;
  } catch (error) {
    if (stopping) return;
    endAtTheLatest(settings, () => group.kill());
    await stop();
    throw explainTaken(error);
  }
}

async function openOperationsPort(
  { metricsHost, metricsPort }: Settings,
  group: WorkerGroup,
  metrics: WorkerMetrics,
  opened: AsyncDisposableStack,
): Promise<string | undefined> {
  if (metricsPort === 0) return undefined;
  const source = {
    contentType: metrics.contentType,
    metrics: async () => {
      await group.collectMetrics();
      return metrics.metrics();
    },
  };
  const operations = createOperationsServer(source, () => group.isReady);
  opened.defer(() => operations.close());
  return operations.listen(metricsHost, metricsPort);
}

/** All workers share one of each: each of its own would hold other records. */
async function startSimulators(settings: Settings, log: Log, opened: AsyncDisposableStack) {
  const secrets = await openSecretsManager(settings, log);
  opened.defer(() => secrets.close());
  const org = await orgSimulator.start(settings, secrets, opened);
  const simulated: Record<string, Simulated> = org ? { crm: org } : {};
  for (const { simulator } of features) {
    const started = await simulator?.start(settings, secrets, opened);
    if (simulator && started) simulated[simulator.name] = started;
  }
  return { org, simulated };
}

function variablesFor(simulated: Readonly<Record<string, Simulated>>): NodeJS.ProcessEnv {
  const settings = Object.values(simulated).flatMap((one) => Object.entries(one.settings));
  return Object.fromEntries(
    settings.map(([key, value]): [string, string] => [
      settingsTable[key]?.env ?? '',
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}

/**
 * Runs the service in one of several processes, until the parent stops it. When the parent is gone, Node ends a worker of a
 * cluster at once. Throws what keeps it from starting.
 */
async function runWorker(settings: Settings): Promise<void> {
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
    void metrics.registry.getMetricsAsJSON().then((snapshot) => sendToParent({ type: 'metrics', snapshot }));
  });
  // Terminals and process managers send signals to the parent and its workers alike: the parent decides what they mean.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
  try {
    const { url } = await app.start();
    sendToParent({ type: 'ready', url });
  } catch (error) {
    if (stopping) return;
    await app.close();
    // The line to the parent alone would keep this process alive.
    process.channel?.unref();
    throw explainTaken(error);
  }
}

function sendToParent(message: FromWorker): void {
  process.send?.(message, undefined, undefined, () => {});
}
