import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../platform/observability/log.ts';
import type { DeliveryQueue, Result } from './delivery-queue.ts';

/** Results that one statement stores. */
const storedAtOnce = 200;
const pauseMs = 1000;
/** How long the first result waits for others. */
const gatherMs = 10;

export interface ResultWriterOptions {
  queue: Pick<DeliveryQueue, 'finish'>;
  /** Called for each endpoint that has had nothing but failures for too long. */
  onFailing(endpointId: string): void;
  /** Aborted when results that cannot be stored are to be given up: their deliveries are sent again. */
  givingUp: AbortSignal;
  log: Log;
}

/** Stores results, those that come meanwhile together; a result that cannot be stored is kept and tried again. */
export class ResultWriter {
  readonly #options: ResultWriterOptions;
  #waiting: { result: Result; stored: () => void }[] = [];
  #isWriting = false;

  constructor(options: ResultWriterOptions) {
    this.#options = options;
  }

  /** Resolves when the result is stored, or given up. */
  store(result: Result): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push({ result, stored: resolve });
    if (!this.#isWriting) void this.#writeAll();
    return promise;
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      // The embedded database works on this thread: without a pause it would keep other answers from being read.
      await sleep(gatherMs);
      const batch = this.#waiting.splice(0, storedAtOnce);
      const failing = await this.#write(batch.map(({ result }) => result));
      for (const { stored } of batch) stored();
      for (const id of failing) this.#options.onFailing(id);
    }
    this.#isWriting = false;
  }

  async #write(results: Result[]): Promise<string[]> {
    const { queue, givingUp, log } = this.#options;
    for (let tries = 1; ; tries++) {
      try {
        return await queue.finish(results);
      } catch (err) {
        // Once, not every second while the database is unavailable.
        if (tries === 1) log.warn({ err }, 'results of deliveries could not be stored and are kept');
        if (givingUp.aborted) return [];
        await sleep(pauseMs, undefined, { signal: givingUp }).catch(() => undefined);
      }
    }
  }
}
