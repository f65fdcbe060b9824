import { setImmediate, setTimeout } from './chance.ts';
export interface BatcherOptions<Request, Result> {
  execute: (requests: Request[]) => Promise<Result[]>;
  /** Batches in flight at most; requests that arrive meanwhile wait. */
  inFlight: number;
  /** Requests in a batch at most. */
  batchSize: number;
  /** Milliseconds that the first request of a batch waits for others; until the turn of the event loop ends if left out. */
  gatherMs?: number;
  /** Two requests with the same identity are never in one batch. */
  identity: (request: Request) => string;
  isShared: (error: unknown) => boolean;
  /** Whether a failure came so late that the requests that wait must wait no longer. */
  isHung: (error: unknown) => boolean;
}

interface Waiter<Request, Result> {
  request: Request;
  isAlone: boolean;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/**
 * Gathers requests into batches: what arrives in one turn of the event loop is one batch, and what
 * arrives while others are in flight is sent as soon as one of them is answered. (The embedded database works on this
 * thread: nothing arrives while it does, but much has when it is done.) Where a batch fails, each request is executed
 * alone, unless the failure would meet all.
 */
export function createBatcher<Request, Result>(
  options: BatcherOptions<Request, Result>,
): (request: Request) => Promise<Result> {
  const { execute, batchSize, gatherMs, identity, isShared, isHung } = options;
  let waiting: Waiter<Request, Result>[] = [];
  let inFlight = 0;
  let isPlanned = false;

  function planNext(): void {
    if (isPlanned || waiting.length === 0) return;
    isPlanned = true;
    const go = () => {
      isPlanned = false;
      sendNext();
    };
    if (gatherMs === undefined) setImmediate(go);
    else setTimeout(go, gatherMs);
  }

  function sendNext(): void {
    while (inFlight < options.inFlight && waiting.length > 0) {
      const batch = drawBatch();
      inFlight += 1;
      void send(batch).finally(() => {
        inFlight -= 1;
        planNext();
      });
    }
  }

  function drawBatch(): Waiter<Request, Result>[] {
    const seen = new Set<string>();
    const batch: Waiter<Request, Result>[] = [];
    const staying: Waiter<Request, Result>[] = [];
    for (const waiter of waiting) {
      const id = identity(waiter.request);
      const isFull = batch.length >= (batch[0]?.isAlone ? 1 : batchSize);
      const stays = isFull || seen.has(id) || (waiter.isAlone && batch.length > 0);
      (stays ? staying : batch).push(waiter);
      seen.add(id);
    }
    waiting = staying;
    return batch;
  }

  async function send(batch: Waiter<Request, Result>[]): Promise<void> {
    try {
      const results = await execute(batch.map(({ request }) => request));
      for (const [at, { resolve }] of batch.entries()) resolve(results[at] as Result);
    } catch (error) {
      if (batch.length > 1 && !isShared(error)) {
        waiting.unshift(...batch.map((waiter) => ({ ...waiter, isAlone: true })));
        return;
      }
      const failed = isHung(error) ? [...batch, ...waiting.splice(0)] : batch;
      for (const { reject } of failed) reject(error);
    }
  }

  return (request) =>
    new Promise((resolve, reject) => {
      waiting.push({ request, isAlone: false, resolve, reject });
      planNext();
    });
}
