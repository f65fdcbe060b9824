import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setImmediate as nextTick } from 'node:timers/promises';
import type { ItemOutcome, Operation } from '../../../src/crm/batching/operation.ts';
import { RetryBudget } from '../../../src/crm/rest/retry.ts';
import { ObjectSize } from '../../../src/crm/scheduling/request-kind.ts';
import { Scheduler } from '../../../src/crm/scheduling/scheduler.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { type Chance, replaceChance } from '../../../src/platform/base/chance.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';

/** A record of a parent. */
interface Item {
  name: string;
  parent: string;
}

/** Calls that are in flight until a test answers them. */
class HeldOperation implements Operation<Item, string> {
  readonly name = 'create';
  readonly effect = 'create';
  readonly calls: { names: string[]; answer: () => void }[] = [];

  size(): number {
    return 0;
  }

  parentOf({ parent }: Item): string {
    return parent;
  }

  async execute(items: readonly Item[]): Promise<ItemOutcome<string>[]> {
    const { promise, resolve: answer } = Promise.withResolvers<void>();
    this.calls.push({ names: items.map(({ name }) => name), answer });
    await promise;
    return items.map(({ name }) => ({ result: name }));
  }

  get sent(): string[][] {
    return this.calls.map(({ names }) => names);
  }

  answer(index: number): void {
    (this.calls[index] ?? assert.fail('there is no such call')).answer();
  }
}

/** The clock as it is so many milliseconds later. */
function ahead(ms: number): void {
  const before = replaceChance({} as Chance);
  replaceChance({ ...before, monotonicMs: () => before.monotonicMs() + ms });
}

async function settled(): Promise<void> {
  for (let count = 0; count < 10; count++) await nextTick();
}

function start() {
  const client = {
    permits: { enter: () => () => {}, acquire: async () => ({ release: () => {} }), replicas: 1 },
    retryBudget: new RetryBudget(1000, createMetrics()),
    shortestCallMs: 1000,
  };
  type Options = ConstructorParameters<typeof Scheduler>[0];
  const scheduler = new Scheduler({
    ...{ client: client as unknown as Options['client'], metrics: createMetrics() },
    ...{ timeoutMs: 10_000, forwarded: undefined },
  });
  const kindOf = (name: string, isShared = true) => {
    const operation = new HeldOperation();
    const common = { object: name, objectSize: new ObjectSize(), rows: name, isShared };
    const kind = scheduler.addKind<Item, string>({ ...common, name, batchKey: name, operation });
    const submit = (item: string, parent: string, ms = 25_000) =>
      scheduler.submit(kind, { name: item, parent }, startCall('test', 'a consumer', ms));
    return { operation, submit };
  };
  return {
    quotes: kindOf('quotes'),
    bookings: kindOf('bookings'),
    transactions: kindOf('transactions', false),
  };
}

describe('records of one parent', () => {
  // No wait ends by itself.
  let chance: Chance;
  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] });
    chance = replaceChance({} as Chance);
    replaceChance(chance);
  });
  afterEach(() => {
    mock.timers.reset();
    replaceChance(chance);
  });

  it('are never in two calls at once, whatever kinds they are of; others are not held up', async () => {
    const { quotes, bookings } = start();
    const first = quotes.submit('quote', 'marta');
    await settled();
    const second = bookings.submit('booking', 'marta');
    const third = bookings.submit('another booking', 'marta');
    await settled();
    assert.deepEqual([quotes.operation.sent, bookings.operation.sent], [[['quote']], []]);
    const other = bookings.submit('other', 'jan');
    await settled();
    assert.deepEqual(bookings.operation.sent, [['other']]);
    quotes.operation.answer(0);
    bookings.operation.answer(0);
    assert.deepEqual(await Promise.all([first, other]), ['quote', 'other']);
    await settled();
    // Together, in one call.
    assert.deepEqual(bookings.operation.sent, [['other'], ['booking', 'another booking']]);
    bookings.operation.answer(1);
    assert.deepEqual(await Promise.all([second, third]), ['booking', 'another booking']);
  });

  it('are in no call beside a transaction, which has a call to itself', async () => {
    const { quotes, transactions } = start();
    const first = transactions.submit('first', 'marta');
    const [second, other] = ['marta', 'jan'].map((parent) => transactions.submit(`of ${parent}`, parent));
    await settled();
    assert.deepEqual(transactions.operation.sent, [['first'], ['of jan']]);
    const quote = quotes.submit('quote', 'marta');
    await settled();
    assert.deepEqual(quotes.operation.sent, []);
    // The two that wait for their parent come one after the other.
    for (let round = 0; round < 3; round++) {
      for (const { answer } of [...transactions.operation.calls, ...quotes.operation.calls]) answer();
      await settled();
    }
    assert.deepEqual(await Promise.all([first, second, other, quote]), [
      'first',
      'of marta',
      'of jan',
      'quote',
    ]);
    assert.deepEqual(transactions.operation.sent, [['first'], ['of jan'], ['of marta']]);
  });

  it('do not wait for a call that takes much longer than usual', async () => {
    const { quotes, bookings } = start();
    const hung = quotes.submit('hung', 'marta');
    await settled();
    const next = bookings.submit('next', 'marta');
    await settled();
    assert.deepEqual(bookings.operation.sent, []);
    ahead(1000);
    mock.timers.tick(1000);
    await settled();
    assert.deepEqual(bookings.operation.sent, [['next']]);
    bookings.operation.answer(0);
    assert.equal(await next, 'next');
    quotes.operation.answer(0);
    await hung;
  });

  it('do not wait where they have little time', async () => {
    const { quotes, bookings } = start();
    const first = quotes.submit('first', 'marta');
    await settled();
    const hurried = bookings.submit('hurried', 'marta', 5000);
    await settled();
    bookings.operation.answer(0);
    assert.equal(await hurried, 'hurried');
    quotes.operation.answer(0);
    await first;
  });
});
