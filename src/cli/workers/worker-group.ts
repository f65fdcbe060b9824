import type { Worker } from 'node:cluster';
import { once } from 'node:events';
import { clearTimeout, monotonicMs, setTimeout, timeoutSignal } from '../../platform/base/chance.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { MetricsSnapshot, WorkerMetrics } from '../../platform/observability/worker-metrics.ts';

/*
 * The workers of one gateway. Each is in one of these states:
 *
 *   starting ── is ready ────> serving ── stop of all ──> stopping ──> ended
 *      │                          │
 *      └───────── ends ───────────┴──> ended; another one starts after a pause
 *
 * The first starts alone: it brings the schema up to date and makes the first consumers, and what keeps it from
 * starting is logged once. If it ends before it is ready, others would too, and the group fails. Later the group fails when
 * too many end within a minute, so that the failure is visible from outside.
 */

export type ToWorker = { type: 'stop' } | { type: 'metrics' };

export type FromWorker = { type: 'ready'; url: string } | { type: 'metrics'; snapshot: MetricsSnapshot };

const tooManyEnds = 10;
const periodMs = 60_000;
/** Before the first replacement within a minute, in milliseconds. */
const pauses = { first: 100, most: 2000 };
/** Milliseconds; the last metrics are shown of a worker that takes longer. */
const metricsWithinMs = 1000;

export interface WorkerGroupOptions {
  count: number;
  log: Log;
  metrics: WorkerMetrics;
  fork: () => Worker;
}

export class WorkerGroup {
  readonly #options: WorkerGroupOptions;
  readonly #running = new Set<Worker>();
  readonly #serving = new Set<Worker>();
  readonly #replacements = new Set<NodeJS.Timeout>();
  readonly #complete = Promise.withResolvers<string>();
  readonly #failed = Promise.withResolvers<never>();
  readonly #ended = Promise.withResolvers<void>();
  #ends: number[] = [];
  #state: 'first' | 'others' | 'complete' | 'stopping' = 'first';
  #endedWell = true;

  constructor(options: WorkerGroupOptions) {
    this.#options = options;
    // A rejection without a caller that waits must not end the process.
    this.#complete.promise.catch(() => {});
    this.#failed.promise.catch(() => {});
  }

  /** Starts all workers and resolves to the URL that they share, once all are ready. Rejects when the group fails. */
  start(): Promise<string> {
    this.#launch();
    return Promise.race([this.#complete.promise, this.#failed.promise]);
  }

  get failure(): Promise<never> {
    return this.#failed.promise;
  }

  get isReady(): boolean {
    return this.#state === 'complete' && this.#serving.size > 0;
  }

  /** Asks all to drain and to end. Resolves when they have, to whether all of them ended well. */
  async stop(): Promise<boolean> {
    this.#state = 'stopping';
    for (const replacement of this.#replacements) clearTimeout(replacement);
    for (const worker of this.#running) send(worker, { type: 'stop' });
    if (this.#running.size > 0) await this.#ended.promise;
    return this.#endedWell;
  }

  kill(): void {
    for (const worker of this.#running) worker.process.kill('SIGKILL');
  }

  /** The last metrics are shown of a worker that does not answer in time. */
  async collectMetrics(): Promise<void> {
    await Promise.all([...this.#serving].map(askForMetrics));
  }

  #launch(): void {
    const { fork, log } = this.#options;
    const worker = fork();
    const { pid } = worker.process;
    this.#running.add(worker);
    log.info({ worker_pid: pid }, 'a worker starts');
    worker.on('message', (message: FromWorker) => this.#onMessage(worker, message));
    worker.once('exit', (code, signal) => this.#onExit(worker, code, signal));
    // Its exit is logged as well.
    worker.on('error', (error) => log.debug({ worker_pid: pid, err: error }, "can't reach a worker"));
  }

  #onMessage(worker: Worker, message: FromWorker): void {
    const { metrics, log, count } = this.#options;
    const pid = worker.process.pid as number;
    if (message.type === 'metrics') return metrics.take(pid, message.snapshot);
    log.info({ worker_pid: pid }, 'a worker is ready');
    this.#serving.add(worker);
    metrics.group.workers.set(this.#serving.size);
    if (this.#state === 'first') {
      this.#state = 'others';
      for (let more = 1; more < count; more++) this.#launch();
    }
    if (this.#state !== 'others' || this.#serving.size < count) return;
    this.#state = 'complete';
    this.#complete.resolve(message.url);
  }

  #onExit(worker: Worker, code: number, signal: string): void {
    const { metrics } = this.#options;
    const pid = worker.process.pid as number;
    this.#running.delete(worker);
    this.#serving.delete(worker);
    metrics.group.workers.set(this.#serving.size);
    metrics.keep(pid);
    if (this.#state === 'stopping') {
      // A worker without its handler yet was ended by the signal itself.
      this.#endedWell &&= code === 0 || signal === 'SIGTERM' || signal === 'SIGINT';
      if (this.#running.size === 0) this.#ended.resolve();
      return;
    }
    metrics.group.workerEnds.inc();
    this.#replace({ worker_pid: pid, code, signal });
  }

  #replace(facts: { worker_pid: number; code: number; signal: string }): void {
    const { log } = this.#options;
    if (this.#state === 'first') {
      return this.#failed.reject(new Error("The gateway can't start. See the message above."));
    }
    const now = monotonicMs();
    this.#ends = [...this.#ends, now].filter((end) => now - end < periodMs);
    if (this.#ends.length >= tooManyEnds) {
      log.error(facts, 'a worker ended');
      return this.#failed.reject(new Error(`${tooManyEnds} workers exited within a minute. See the log.`));
    }
    const pauseMs = pauseAfter(this.#ends.length, pauses);
    log.error({ ...facts, replaced_in_ms: pauseMs }, 'a worker ended; starting another one');
    const replacement = setTimeout(() => {
      this.#replacements.delete(replacement);
      this.#launch();
    }, pauseMs);
    this.#replacements.add(replacement);
  }
}

async function askForMetrics(worker: Worker): Promise<void> {
  const done = new AbortController();
  const signal = AbortSignal.any([done.signal, timeoutSignal(metricsWithinMs)]);
  const answered = Promise.race([once(worker, 'message', { signal }), once(worker, 'exit', { signal })]);
  send(worker, { type: 'metrics' });
  await answered.catch(() => {});
  done.abort();
}

function send(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.process.send(message, undefined, undefined, () => {});
}
