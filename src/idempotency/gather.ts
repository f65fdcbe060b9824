/** Carries many requests out in one go; the results are in their order. */
export type CarryOut<Request, Result> = (requests: Request[]) => Promise<Result[]>;

export interface GatherOptions<Request> {
  /** So many go on at once; what arrives meanwhile is gathered. */
  atOnce: number;
  /** So many requests in one go at most. */
  most: number;
  /** Two requests with the same identity never go together. */
  identity: (request: Request) => string;
}

/**
 * Lets requests share the way to the database and back: what arrives in one turn of the event loop goes together, and
 * what arrives while others are under way goes as soon as one of them is back. (The embedded database works on this
 * very thread: nothing arrives while it does, but much has when it is done.) Where a shared go fails, each request goes
 * alone, so that it meets its own fate only; unless `isShared` says that the failure is everybody's.
 */
export function gather<Request, Result>(
  carryOut: CarryOut<Request, Result>,
  isShared: (error: unknown) => boolean,
  { atOnce, most, identity }: GatherOptions<Request>,
): (request: Request) => Promise<Result> {
  let waiting: Waiter<Request, Result>[] = [];
  let underWay = 0;
  let isPlanned = false;

  /** At the end of the turn: all requests that have come by then are in it. */
  function planNext(): void {
    if (isPlanned || waiting.length === 0) return;
    isPlanned = true;
    setImmediate(() => {
      isPlanned = false;
      sendNext();
    });
  }

  function sendNext(): void {
    while (underWay < atOnce && waiting.length > 0) {
      const seen = new Set<string>();
      const going: Waiter<Request, Result>[] = [];
      const staying: Waiter<Request, Result>[] = [];
      for (const waiter of waiting) {
        const id = identity(waiter.request);
        const stays = going.length >= most || seen.has(id);
        (stays ? staying : going).push(waiter);
        seen.add(id);
      }
      waiting = staying;
      underWay += 1;
      void go(going).finally(() => {
        underWay -= 1;
        planNext();
      });
    }
  }

  async function go(going: Waiter<Request, Result>[]): Promise<void> {
    try {
      const results = await carryOut(going.map(({ request }) => request));
      for (const [at, { resolve }] of going.entries()) resolve(results[at] as Result);
    } catch (error) {
      if (going.length === 1 || isShared(error)) for (const { reject } of going) reject(error);
      else for (const waiter of going) await go([waiter]);
    }
  }

  return (request) =>
    new Promise((resolve, reject) => {
      waiting.push({ request, resolve, reject });
      planNext();
    });
}

interface Waiter<Request, Result> {
  request: Request;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}
