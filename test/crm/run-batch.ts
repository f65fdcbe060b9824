import assert from 'node:assert/strict';
import type { ItemOutcome, Operation } from '../../src/crm/batching/operation.ts';
import { CrmFailure } from '../../src/crm/failure.ts';
import { RetryBudget } from '../../src/crm/rest/retry.ts';
import { BatchRun } from '../../src/crm/scheduling/batch-run.ts';
import { newRequest, ObjectSize, RequestKind } from '../../src/crm/scheduling/request-kind.ts';
import { startCall } from '../../src/platform/base/call.ts';
import { type Chance, replaceChance } from '../../src/platform/base/chance.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';

const metrics = createMetrics();

/** An object's size that reports what it learns. */
class ReportedSize extends ObjectSize {
  readonly #onSize: (records: number, of: number) => void;

  constructor(onSize: (records: number, of: number) => void) {
    super();
    this.#onSize = onSize;
  }

  override lower(records: number, of: number): void {
    this.#onSize(records, of);
    super.lower(records, of);
  }
}

class EndlessRetries extends RetryBudget {
  override pauseBeforeRepeat(...repeat: Parameters<RetryBudget['pauseBeforeRepeat']>): number | undefined {
    for (let calls = 0; calls < 10; calls++) this.earn();
    return super.pauseBeforeRepeat(...repeat);
  }
}

export interface BatchListener {
  /** Called with the index of each item, and how many records succeeded together of those that were too many. */
  onOutcome?: (index: number) => void;
  onSize?: (records: number, of: number) => void;
}

/** Executes a batch whose pauses take no time: one outcome for each item, in their order. */
export async function runBatch<Item, Result>(
  operation: Operation<Item, Result>,
  items: readonly Item[],
  { onOutcome = () => undefined, onSize = () => undefined }: BatchListener = {},
): Promise<ItemOutcome<Result>[]> {
  const objectSize = new ReportedSize(onSize);
  const options = { name: 'test', batchKey: 'test', object: 'Test__c', rows: undefined, objectSize };
  const kind = new RequestKind<Item, Result>({ ...options, operation });
  const requests = items.map((item, index) => {
    const request = newRequest(kind, item, startCall('test'));
    const { resolve, reject } = request;
    request.resolve = (result) => {
      onOutcome(index);
      resolve(result);
    };
    request.reject = (error) => {
      onOutcome(index);
      reject(error);
    };
    return request;
  });
  const settled = Promise.allSettled(requests.map((request) => request.settled));
  const chance = replaceChance({} as Chance);
  replaceChance({ ...chance, randomFraction: () => 0 });
  try {
    const run = new BatchRun({
      ...{ kind, requests, metrics },
      call: { ...startCall('test'), kind: 'test' },
      client: { retryBudget: new EndlessRetries(1000, metrics), shortestCallMs: 1000 },
      scheduler: { add: () => undefined },
    });
    await run.send({ token: undefined as never, release: () => undefined });
  } finally {
    replaceChance(chance);
  }
  return (await settled).map((outcome) => {
    if (outcome.status === 'fulfilled') return { result: outcome.value as Result };
    const failure: unknown = outcome.reason;
    assert.ok(failure instanceof CrmFailure, String(failure));
    return { failure };
  });
}
