import { PgBoss } from 'pg-boss';
import { clearInterval, monotonicMs, setInterval, timeoutSignal } from '../base/chance.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Database } from '../store/database.ts';
import { isUnavailable } from '../store/failures.ts';

/** The signal is aborted at the time limit of the step, or when the process stops: the next run does what is left. */
type JobStep = (signal: AbortSignal) => Promise<unknown>;

export interface Job {
  name: string;
  /** Cron expression of five fields, UTC. */
  cron: string;
  /**
   * Steps by name, done one after the other. One that throws does not stop the next; the job is then repeated, after 1
   * to 2 seconds, 2 to 4, 4 to 8 and so on.
   */
  steps: Readonly<Record<string, JobStep>>;
  /** How often at most; 3 when not given. */
  retries?: number;
}

interface JobQueueOptions {
  database: Database;
  log: Log;
  metrics: Pick<Metrics, 'jobQueueDepth' | 'jobFailures'>;
  jobs: readonly Job[];
}

const depthSeconds = 15;

const keepSeconds = 24 * 3600;

/** Time limit of a step: together the steps of a job stay below the 15 minutes after which pg-boss considers it dead. */
const stepMs = 120_000;

/** How often each replica asks whether a job is due; schedules have a grain of a minute. */
const pollSeconds = 5;

/** Jobs through pg-boss: each is done by exactly one replica, and a replica that dies leaves it to another. */
export function createJobQueue({ database, log, metrics, jobs }: JobQueueOptions) {
  const failures = new QueueFailures(log);
  const boss = new PgBoss({
    db: { executeSql: (text, values) => failures.watch(() => database.execute(text, values)) },
    backend: database.kind,
  });
  boss.on('error', (error) => failures.report(error));
  const stopping = new AbortController();
  let starting: Promise<void> | undefined;
  let counting: NodeJS.Timeout | undefined;

  async function start(): Promise<void> {
    await boss.start();
    for (const { name, cron, steps, retries = 3 } of jobs) {
      // `short`: one waiting at most, so that jobs do not pile up while the database is unavailable.
      const queue = {
        policy: 'short',
        retryLimit: retries,
        retryBackoff: true,
        deleteAfterSeconds: keepSeconds,
      };
      await boss.createQueue(name, queue);
      await boss.work(name, { pollingIntervalSeconds: pollSeconds }, () =>
        perform(name, steps, { log, metrics, stopping: stopping.signal }),
      );
      await boss.schedule(name, cron);
    }
    await removeOtherSchedules(boss, jobs);
    await showDepth();
    counting = setInterval(() => void showDepth(), depthSeconds * 1000).unref();
  }

  /** One small query for all queues: pg-boss keeps the counts. Unknown while the database is unavailable. */
  async function showDepth(): Promise<void> {
    const queues = await boss.getQueues(jobs.map(({ name }) => name)).catch(() => []);
    metrics.jobQueueDepth.reset();
    for (const { name: queue, readyCount, deferredCount, activeCount, failedCount } of queues) {
      const counts = { ready: readyCount, deferred: deferredCount, active: activeCount, failed: failedCount };
      for (const [state, count] of Object.entries(counts)) metrics.jobQueueDepth.set({ queue, state }, count);
    }
  }

  return {
    start: (): Promise<void> => {
      starting ??= start().catch(async (error: unknown) => {
        // Another start would forget the timers of one that failed halfway; they would keep the process alive.
        await boss.stop({ graceful: false, close: false }).catch(() => {});
        starting = undefined;
        throw error;
      });
      return starting;
    },
    stop: async (): Promise<void> => {
      stopping.abort();
      await starting?.catch(() => {});
      clearInterval(counting);
      await boss.stop({ graceful: true, close: false, timeout: 10_000 });
    },
    runSoon: async (name: string): Promise<void> => void (await boss.send(name)),
  };
}

const repeatMs = 60_000;

class QueueFailures {
  readonly #log: Log;
  #outage: { error: unknown; isLogged: boolean } | undefined;
  #last = { message: '', at: Number.NEGATIVE_INFINITY };

  constructor(log: Log) {
    this.#log = log;
  }

  /** Runs a statement. Throws what it does. */
  async watch<T>(execute: () => Promise<T>): Promise<T> {
    try {
      const answer = await execute();
      this.#outage = undefined;
      return answer;
    } catch (error) {
      if (isUnavailable(error)) this.#outage ??= { error, isLogged: false };
      throw error;
    }
  }

  report(failure: Error): void {
    const { message } = failure;
    const isRepeated = message === this.#last.message && monotonicMs() - this.#last.at < repeatMs;
    if (this.#outage?.isLogged ?? isRepeated) return;
    if (this.#outage) this.#outage.isLogged = true;
    this.#last = { message, at: monotonicMs() };
    this.#log.warn({ err: this.#outage?.error ?? failure }, 'the job queue failed');
  }
}

/** Runs every step. Throws the error of the first one that failed. */
async function perform(
  name: string,
  steps: Job['steps'],
  { log, metrics, stopping }: Pick<JobQueueOptions, 'log' | 'metrics'> & { stopping: AbortSignal },
): Promise<void> {
  const failures: unknown[] = [];
  for (const [step, run] of Object.entries(steps)) {
    if (stopping.aborted) break;
    try {
      await run(AbortSignal.any([stopping, timeoutSignal(stepMs)]));
    } catch (err) {
      failures.push(err);
      metrics.jobFailures.inc({ queue: name, step });
      log.warn({ err, job: name, step }, 'a job failed; will try again later');
    }
  }
  if (failures.length > 0) throw failures[0];
  log.debug({ job: name }, 'the job is done');
}

async function removeOtherSchedules(boss: PgBoss, jobs: readonly Job[]): Promise<void> {
  const names = new Set(jobs.map(({ name }) => name));
  for (const { name } of await boss.getSchedules()) if (!names.has(name)) await boss.unschedule(name);
}
