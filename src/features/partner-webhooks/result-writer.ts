import { createBatcher } from '../../platform/base/batching.ts';
import { sleep } from '../../platform/base/chance.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { DeliveryQueue, DeliveryResult } from './delivery-queue.ts';

const storedAtOnce = 200;
const pauseMs = 1000;
/** The embedded database works on this thread: without a pause it would keep other answers from being read. */
const gatherMs = 10;

interface ResultWriterOptions {
  queue: Pick<DeliveryQueue, 'finish'>;
  onFailing(endpointId: string): void;
  /** Aborted when results that cannot be stored are to be given up: their deliveries are sent again. */
  givingUp: AbortSignal;
  log: Log;
}

/**
 * Stores results, those that come meanwhile together; a result that cannot be stored is kept and tried again. Resolves when
 * the result is stored, or given up.
 */
export function createResultWriter(options: ResultWriterOptions): (result: DeliveryResult) => Promise<void> {
  return createBatcher({
    execute: async (results: DeliveryResult[]) => {
      for (const id of await write(results, options)) options.onFailing(id);
      return results.map(() => undefined);
    },
    inFlight: 1,
    batchSize: storedAtOnce,
    gatherMs,
    identity: ({ id }) => id,
    isShared: () => true,
    isHung: () => false,
  });
}

async function write(
  results: DeliveryResult[],
  { queue, givingUp, log }: ResultWriterOptions,
): Promise<string[]> {
  for (let tries = 1; ; tries++) {
    try {
      return await queue.finish(results);
    } catch (err) {
      // Once, not every second while the database is unavailable.
      if (tries === 1) log.warn({ err }, "couldn't store results of deliveries; keeping them");
      if (givingUp.aborted) return [];
      await sleep(pauseMs, { signal: givingUp }).catch(() => undefined);
    }
  }
}
