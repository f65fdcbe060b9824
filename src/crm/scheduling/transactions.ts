import type { ItemOutcome, Operation } from '../batching/operation.ts';
import type { BatchCall, CrmAnswer, CrmRequest, Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { ObjectSize, type RequestKind } from './request-kind.ts';
import type { Scheduler } from './scheduler.ts';

export interface Transaction {
  request: CrmRequest;
  parent: string | undefined;
}

class Transact implements Operation<Transaction, CrmAnswer> {
  readonly name = 'together';
  readonly effect = 'create';
  readonly #client: Pick<CrmClient, 'execute'>;

  constructor(client: Pick<CrmClient, 'execute'>) {
    this.#client = client;
  }

  size(): number {
    return 0;
  }

  parentOf({ parent }: Transaction): string | undefined {
    return parent;
  }

  async execute(
    transactions: readonly Transaction[],
    call: BatchCall,
    permit?: Permit,
  ): Promise<ItemOutcome<CrmAnswer>[]> {
    const [{ request }] = transactions as [Transaction];
    return [{ result: await this.#client.execute(request, call, permit) }];
  }
}

export function addTransactions(
  scheduler: Scheduler,
  client: CrmClient,
): RequestKind<Transaction, CrmAnswer> {
  return scheduler.addKind({
    ...{ name: 'transaction', batchKey: 'transaction', operation: new Transact(client) },
    ...{ object: 'several', objectSize: new ObjectSize(), rows: undefined, isShared: false },
  });
}
