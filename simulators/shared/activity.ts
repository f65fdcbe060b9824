import { ControlError } from './control-error.ts';

export interface RequestRecord {
  at: string;
  method: string;
  /** Without the query of login paths, which may hold a token. */
  path: string;
  operation: string;
  /** null while the call is unanswered, 0 when its connection ended without an answer. */
  status: number | null;
}

export interface Activity {
  /** A call has arrived; returns its entry, whose status is filled in later. */
  arrive(call: Omit<RequestRecord, 'at' | 'status'>): RequestRecord;
  /** A data API call is in flight until the returned function runs. */
  enter(): () => void;
  addRows(count: number): void;
  addMetered(count: number): void;
  tokenIssued(): void;
  view(): object;
  whenArrived(operation: string, count: number, signal: AbortSignal): Promise<number>;
  reset(): void;
}

const KEPT_REQUESTS = 200;

interface Numbers {
  calls: Record<string, number>;
  metered: number;
  tokensIssued: number;
  rowsWritten: number;
  highestConcurrency: number;
}

function zero(): Numbers {
  return { calls: {}, metered: 0, tokensIssued: 0, rowsWritten: 0, highestConcurrency: 0 };
}

/** Counts what happens, for tests to look at and to wait for. */
export function createActivity(): Activity {
  let numbers = zero();
  let requests: RequestRecord[] = [];
  let inFlight = 0;
  const watchers = new Set<() => void>();

  const note = (request: RequestRecord): void => {
    requests.push(request);
    // Cut in blocks: taking the first element off on every call would move the whole list each time.
    if (requests.length >= 2 * KEPT_REQUESTS) requests = requests.slice(-KEPT_REQUESTS);
  };
  const countOf = (operation: string): number => numbers.calls[operation] ?? 0;

  return {
    arrive: (call) => {
      const request: RequestRecord = { at: new Date().toISOString(), ...call, status: null };
      note(request);
      numbers.calls[call.operation] = countOf(call.operation) + 1;
      for (const watcher of [...watchers]) watcher();
      return request;
    },
    enter: () => {
      inFlight += 1;
      numbers.highestConcurrency = Math.max(numbers.highestConcurrency, inFlight);
      return () => {
        inFlight -= 1;
      };
    },
    addRows: (count) => {
      numbers.rowsWritten += count;
    },
    addMetered: (count) => {
      numbers.metered += count;
    },
    tokenIssued: () => {
      numbers.tokensIssued += 1;
    },
    view: () => ({ ...numbers, inFlight, requests: requests.slice(-KEPT_REQUESTS) }),
    whenArrived: (operation, count, signal) =>
      new Promise((resolve, reject) => {
        const check = (): void => {
          if (countOf(operation) < count) return;
          watchers.delete(check);
          resolve(countOf(operation));
        };
        watchers.add(check);
        signal.addEventListener('abort', () => {
          watchers.delete(check);
          reject(new ControlError(408, `${countOf(operation)} of ${count} calls of ${operation} arrived`));
        });
        check();
      }),
    reset: () => {
      numbers = zero();
      requests = [];
    },
  };
}
