import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { EventTable, TakenEvent } from './event-table.ts';

/*
 * What becomes of a webhook whose signature is right and whose id is new:
 *
 *   ── of a known type ──> received ── applied ──> processed ──┐
 *   │                       ^  │                               │
 *   │            replay, by │  └── 12 attempts failed ──> dead │
 *   │           an operator └───────────────────────────── ┴───┘
 *   └── of any other type ──> ignored
 *
 *   received   stored, and acknowledged only then. Due at once, and again some time after each attempt that failed or
 *              whose process died.
 *   processed  applied: what it says has had its effect, on every replica.
 *   ignored    kept, without an effect. A final state.
 *   dead       given up; an operator looks at it.
 *
 * Order: of one member, only the earliest event that is received can be taken, by the time at which it happened. One that
 * arrives after a later one was applied is applied all the same, and marked as late: its effect, to drop what is cached,
 * undoes nothing, and leaving it out could leave something old. The time of the last applied event of a member is that
 * of its latest processed one.
 *
 * Once: taking an event counts its attempt and keeps all others away for 30 seconds, in one statement; only the owner of
 * the latest attempt finishes it.
 */

/** Together with the waits between them they take six minutes: longer than anything that was cached before can live. */
const maxAttempts = 12;
const longestWaitSeconds = 60;

export interface ProcessorOptions {
  table: Pick<EventTable, 'take' | 'finish' | 'fail'>;
  /** Has an effect on all replicas; may throw, and is then repeated. `receivedAt` in milliseconds since 1970. */
  apply(event: { memberId: string; receivedAt: number }): Promise<void>;
  log: Log;
  metrics: Pick<Metrics, 'webhooks'>;
}

export interface Processor {
  /** Has what is due processed soon, by this process. Never fails. */
  wake(): void;
  /** Processes all that is due. Throws what the database does; what is left then is due again later. */
  run(): Promise<void>;
  /** Lets what is under way finish. */
  stop(): Promise<void>;
}

export function createProcessor(options: ProcessorOptions): Processor {
  return new EventProcessor(options);
}

class EventProcessor implements Processor {
  readonly #options: ProcessorOptions;
  #running: Promise<void> | undefined;
  #isRunAgain = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: ProcessorOptions) {
    this.#options = options;
  }

  wake(): void {
    // Later, so that whoever wakes it answers first.
    setImmediate(() => {
      if (this.#isStopped) return;
      this.run().catch((err: unknown) =>
        this.#options.log.warn({ err }, 'received webhooks wait for the database'),
      );
    });
  }

  run(): Promise<void> {
    this.#isRunAgain = true;
    this.#running ??= this.#runAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#running?.catch(() => undefined);
    clearTimeout(this.#timer);
  }

  /** Until nothing is due; asked again meanwhile, it looks again. */
  async #runAll(): Promise<void> {
    while (this.#isRunAgain && !this.#isStopped) {
      this.#isRunAgain = false;
      const taken = await this.#options.table.take();
      if (taken.length === 0) continue;
      // Each is of another member. One that fails does not hold up the others.
      const outcomes = await Promise.allSettled(taken.map((event) => this.#process(event)));
      this.#isRunAgain = true;
      const failed = outcomes.find((outcome) => outcome.status === 'rejected');
      if (failed !== undefined) throw failed.reason as Error;
    }
  }

  async #process(event: TakenEvent): Promise<void> {
    const { table, apply, metrics } = this.#options;
    try {
      await apply({ memberId: event.member_id, receivedAt: event.received_at.getTime() });
    } catch (error) {
      return this.#fail(event, error);
    }
    if (await table.finish(event)) metrics.webhooks.inc({ result: 'processed' });
  }

  async #fail(event: TakenEvent, err: unknown): Promise<void> {
    const { table, log, metrics } = this.#options;
    const { webhook_id, attempts } = event;
    const facts = { err, webhook_id, attempts };
    const name = err instanceof Error ? err.name : 'unknown';
    if (attempts >= maxAttempts) {
      await table.fail(event, name, undefined);
      metrics.webhooks.inc({ result: 'dead' });
      log.error(facts, 'a webhook could not be processed and is given up; see handoff webhook list');
      return;
    }
    const seconds = Math.min(2 ** (attempts - 1), longestWaitSeconds);
    await table.fail(event, name, seconds);
    metrics.webhooks.inc({ result: 'failed' });
    log.warn({ ...facts, seconds }, 'a webhook could not be processed and is tried again');
    this.#wakeAfter(seconds);
  }

  /** Sooner than the job, which finds what this process leaves if it dies. */
  #wakeAfter(seconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.wake(), seconds * 1000 + 50);
    this.#timer.unref();
  }
}
