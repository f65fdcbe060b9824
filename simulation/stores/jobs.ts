import type { createJobQueue, Job } from '../../src/platform/jobs/job-queue.ts';
import type { World } from '../virtual/world.ts';

const minuteMs = 60_000;

/** Jobs of all replicas: what pg-boss does in the database, each due job by one replica, and again where that one dies. */
export class CommonJobs {
  readonly #doneAt = new Map<string, number>();
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** For one replica. */
  createFor(): typeof createJobQueue {
    return ({ jobs, log }) => {
      const stopping = new AbortController();
      let timer: NodeJS.Timeout | undefined;
      const perform = async (job: Job) => {
        for (const [step, run] of Object.entries(job.steps)) {
          await run(stopping.signal).catch((err: unknown) =>
            log.warn({ err, job: job.name, step }, 'a job failed'),
          );
        }
      };
      const check = () => {
        const due = jobs.find((job) => this.#take(job));
        if (due !== undefined) void perform(due);
      };
      return {
        start: async () => {
          timer = setInterval(check, this.#world.random.whole(4000, 6000));
        },
        stop: async () => {
          stopping.abort();
          clearInterval(timer);
        },
        runSoon: async (name) => {
          this.#doneAt.delete(name);
        },
      };
    };
  }

  #take({ name, cron }: Job): boolean {
    const { elapsed } = this.#world;
    if (elapsed - (this.#doneAt.get(name) ?? 0) < everyMs(cron)) return false;
    this.#doneAt.set(name, elapsed);
    return true;
  }
}

/** Knows the forms that our jobs have: each minute, each ten minutes, each hour. */
function everyMs(cron: string): number {
  const [minute = '*'] = cron.split(' ');
  if (minute === '*') return minuteMs;
  return minute.startsWith('*/') ? Number(minute.slice(2)) * minuteMs : 60 * minuteMs;
}
