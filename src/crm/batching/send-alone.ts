import { type Call, remainingMs } from '../../platform/base/call.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { type BatchCall, countByConsumer } from '../rest/limiter.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { executeBatch } from './execute.ts';
import type { Operation } from './operation.ts';
import { isWrite } from './pending.ts';

interface SendAloneOptions<Item, Result> {
  /** Of the batcher. */
  name: string;
  operation: Operation<Item, Result>;
  client: Pick<CrmClient, 'admission' | 'acquire' | 'budget' | 'shortestCallMs'>;
  metrics: Metrics;
}

/**
 * Sends an item in a call of its own. It does not wait for other calls of the batcher, nor they for it. Throws `CrmFailure`
 * or `Problem`.
 */
export async function sendAlone<Item, Result>(
  item: Item,
  call: Call,
  { name, operation, client, metrics }: SendAloneOptions<Item, Result>,
): Promise<Result> {
  client.admission.enter(operation.effect, call);
  const own: BatchCall = { ...call, batcher: name };
  const kind = isWrite(operation, call) ? 'write' : 'read';
  const requests = countByConsumer([call.consumerId]);
  const who = { tenant: name, requesters: () => requests };
  const paid = await client.budget?.wait(kind, who, remainingMs(call) - client.shortestCallMs).paid;
  paid?.chargeTo(requests);
  const permit = await client.acquire(own, paid);
  try {
    metrics.crmBatchSize.observe({ operation: operation.name }, 1);
    const [outcome] = await executeBatch(operation, [item], own, { permit });
    if (outcome !== undefined && 'failure' in outcome) throw outcome.failure;
    return (outcome as { result: Result }).result;
  } finally {
    permit.release();
  }
}
