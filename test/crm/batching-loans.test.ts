import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Batcher, type BatcherOptions } from '../../src/crm/batching/batcher.ts';
import type { Company, Loan } from '../../src/crm/batching/company.ts';
import { ObjectSize } from '../../src/crm/batching/object-size.ts';
import type { ItemOutcome, Operation } from '../../src/crm/batching/operation.ts';
import type { PaidCall } from '../../src/crm/budget/call-budget.ts';
import { CrmFailure } from '../../src/crm/rest/failure.ts';
import { type Call, startCall } from '../../src/platform/base/call.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';

const paced = () => new CrmFailure('paced', 'no call is left', { retryAfter: 1 });

/** A budget that has no call until a test gives one. */
class TestBudget {
  readonly maxWaitMs = 2000;
  readonly replicas = 2;
  readonly stop = new AbortController();
  readonly stopping = this.stop.signal;
  readonly #waiting = new Set<(paid: PaidCall | undefined) => void>();

  get waiting(): number {
    return this.#waiting.size;
  }

  check(): void {}

  waitedTooLong(): Error {
    return paced();
  }

  wait() {
    const { promise: paid, resolve } = Promise.withResolvers<PaidCall | undefined>();
    this.#waiting.add(resolve);
    const giveUp = () => {
      this.#waiting.delete(resolve);
      resolve(undefined);
    };
    return { paid, giveUp, becomeWrite: () => {} };
  }

  give(): void {
    const [first] = this.#waiting;
    if (first === undefined) assert.fail('nobody waits for a call');
    this.#waiting.delete(first);
    first({ wasShort: true, giveBack: () => {} });
  }
}

type Item = string | { text: string };
type Done = { done: Item };

/** What the CRM was asked for, and what it does. */
class TestOperation implements Operation<Item, Done> {
  readonly name = 'create';
  readonly effect: Operation<Item, Done>['effect'];
  readonly executed: (readonly Item[])[] = [];
  readonly calls: Call[] = [];
  answer: (item: Item) => ItemOutcome<Done> | Promise<ItemOutcome<Done>> = (done) => ({ result: { done } });
  reconcile?: NonNullable<Operation<Item, Done>['reconcile']>;

  constructor(effect: Operation<Item, Done>['effect']) {
    this.effect = effect;
  }

  size(): number {
    return 0;
  }

  execute(items: readonly Item[], call: Call): Promise<ItemOutcome<Done>[]> {
    this.executed.push(items);
    this.calls.push(call);
    return Promise.all(items.map(async (item) => this.answer(item)));
  }
}

async function turns(): Promise<void> {
  for (let count = 0; count < 10; count++) await turn();
}

function startReplica(effect: Operation<Item, Done>['effect'], invite: Company['invite'] = async () => {}) {
  const budget = new TestBudget();
  const operation = new TestOperation(effect);
  const client = {
    budget,
    admission: { enter: () => () => {} },
    acquire: async () => ({ release: () => {} }),
    retryBudget: { spend: () => true },
    shortestCallMs: 1000,
  };
  const batcher = new Batcher<Item, Done>({
    ...{ name: 'quote create', party: 'quote create', operation, timeoutMs: 10_000 },
    ...{ object: 'Quote__c', objectSize: new ObjectSize() },
    client: client as unknown as BatcherOptions<Item, Done>['client'],
    metrics: createMetrics(),
    company: { join: () => {}, invite } as unknown as Company,
  });
  const submit = (item: Item, ms = 25_000) => batcher.submit(item, startCall('test', 'a consumer', ms));
  return { budget, operation, batcher, submit };
}

const isUnknown = (error: unknown) => error instanceof CrmFailure && error.outcomeUnknown;
const lend = (batcher: Batcher<Item, Done>): Loan => batcher.lend(100) ?? assert.fail('nothing was lent');

describe('requests that are lent to another replica', () => {
  // No wait ends by itself.
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  it('each get their own outcome, and a second one changes nothing', async () => {
    const { batcher, submit } = startReplica('create');
    const requests = [submit('one'), submit('other')];
    const { settle, items } = lend(batcher);
    assert.deepEqual(
      items.map(({ item, consumerId, isWrite }) => [item, consumerId, isWrite]),
      [
        ['one', 'a consumer', true],
        ['other', 'a consumer', true],
      ],
    );
    assert.equal(settle(1, { result: { done: 'other' } }), false);
    assert.equal(settle(1, { result: { done: 'twice' } }), false);
    assert.equal(settle(7, { result: { done: 'nothing' } }), false);
    const failure = { kind: 'rejected' as const, message: 'not valid', facts: { status: 400 } };
    assert.equal(settle(0, { failure }), true);
    assert.deepEqual(await requests[1], { done: 'other' });
    await assert.rejects(
      requests[0] ?? assert.fail(),
      new CrmFailure('rejected', 'not valid', { status: 400 }),
    );
  });

  for (const effect of ['create', 'change'] as const) {
    it(`are looked up after a loss, and sent again at once where they were not done: ${effect}`, async () => {
      const { batcher, operation, submit } = startReplica(effect);
      operation.reconcile = async (items) =>
        items.map((done) => (done === 'done' ? { result: { done } } : 'not done'));
      const requests = [submit('done'), submit('not done')];
      lend(batcher).lose();
      assert.deepEqual(await Promise.all(requests), [{ done: 'done' }, { done: 'not done' }]);
      assert.deepEqual(operation.executed, [['not done']]);
      assert.equal(operation.calls[0]?.isWrite, true);
    });

    it(`have an unknown outcome after a loss where nothing more can be sent: ${effect}`, async () => {
      const { batcher, operation, submit } = startReplica(effect);
      operation.reconcile = async (items) => items.map(() => 'not done');
      operation.answer = () => Promise.reject(paced());
      const refused = submit('not done');
      lend(batcher).lose();
      await assert.rejects(refused, isUnknown);
      operation.reconcile = async () => Promise.reject(paced());
      const unknown = submit('who knows');
      lend(batcher).lose();
      await assert.rejects(unknown, isUnknown);
      assert.equal(operation.executed.length, 1);
    });
  }

  it('are asked for again after a loss where they are reads, and only those without an answer', async () => {
    const { batcher, operation, submit } = startReplica('read');
    const requests = [submit('one'), submit('other')];
    const { settle, lose } = lend(batcher);
    settle(0, { result: { done: 'one' } });
    lose();
    assert.deepEqual(await Promise.all(requests), [{ done: 'one' }, { done: 'other' }]);
    assert.deepEqual(operation.executed, [['other']]);
  });

  it('wait for a call of their own where nobody took them', async () => {
    const { batcher, budget, submit } = startReplica('create');
    const created = submit('one');
    lend(batcher).giveBack();
    await turns();
    budget.give();
    assert.deepEqual(await created, { done: 'one' });
  });

  it('leave nothing behind that waits for a call', async () => {
    const { batcher, budget, operation, submit } = startReplica('create');
    const held = Promise.withResolvers<void>();
    operation.answer = async (done) => {
      await held.promise;
      return { result: { done } };
    };
    const first = submit('first');
    budget.give();
    await turns();
    // The second lingers, since the first is in flight.
    const second = submit('second');
    lend(batcher).settle(0, { result: { done: 'second' } });
    await second;
    mock.timers.tick(50);
    assert.equal(budget.waiting, 0);
    held.resolve();
    await first;
    const third = submit('third');
    assert.equal(budget.waiting, 1);
    lend(batcher).settle(0, { result: { done: 'third' } });
    await third;
    assert.equal(budget.waiting, 0);
  });

  it('have time to come back before they end, and stay where they have not', () => {
    const { batcher, submit } = startReplica('create');
    void submit('much');
    assert.equal(lend(batcher).ms, 12_000);
    void submit('some', 9000);
    const { ms } = lend(batcher);
    assert.ok(ms > 6000 && ms <= 7000, `${ms}`);
    void submit('little', 4900);
    assert.equal(batcher.lend(100), undefined);
  });

  it('are 256 KB at most, all that is known of them counted', () => {
    const { batcher, submit } = startReplica('change');
    const ofSize = (length: number) => ({ text: 'x'.repeat(length) });
    for (const length of [200_000, 60_000, 3000]) void submit(ofSize(length));
    assert.equal(lend(batcher).items.length, 2);
    assert.equal(lend(batcher).items.length, 1);
    void submit(ofSize(300_000));
    assert.equal(batcher.lend(100), undefined);
  });

  it('go into the call of their host, which lends nothing on', async () => {
    const held = Promise.withResolvers<void>();
    const told: unknown[] = [];
    const { batcher, budget, operation, submit } = startReplica('create', () => held.promise);
    const own = submit('own');
    budget.give();
    await turns();
    const item = { item: 'lent', consumerId: 'another', isWrite: true, waitedMs: 100 };
    const hosted = batcher.host([item], 12_000, (index, outcome) => told.push([index, outcome]));
    assert.equal(batcher.lend(100), undefined);
    held.resolve();
    await Promise.all([own, hosted]);
    assert.deepEqual(operation.executed, [['own', 'lent']]);
    assert.deepEqual(told, [[0, { result: { done: 'lent' } }]]);
  });

  it('are answered by their host one by one', async () => {
    const { batcher, budget, operation } = startReplica('create');
    const told: number[] = [];
    const items = ['locked', 'free'].map((item) => ({ item, isWrite: true, waitedMs: 0 }));
    operation.answer = (done) =>
      done === 'locked'
        ? { failure: new CrmFailure('locked', 'another has it', { mayBeOthers: true }), ofItem: true }
        : { result: { done } };
    void batcher.host(items, 12_000, (index) => told.push(index));
    budget.give();
    await turns();
    assert.deepEqual(told, [1]);
  });

  it('are asked for by their own replica where the answer is too much to pass on', async () => {
    const { batcher, budget, operation, submit } = startReplica('read');
    const told: unknown[] = [];
    const items = ['one', 'other'].map((item) => ({ item, isWrite: false, waitedMs: 0 }));
    operation.answer = () => ({ result: { done: 'x'.repeat(3 * 1024 * 1024) } });
    const hosted = batcher.host(items, 12_000, (_, outcome) => told.push(outcome === 'again' || 'passed on'));
    budget.give();
    await hosted;
    assert.deepEqual(told, ['passed on', true]);
    operation.answer = (done) => ({ result: { done } });
    const read = submit('other');
    lend(batcher).settle(0, 'again');
    await turns();
    budget.give();
    assert.deepEqual(await read, { done: 'other' });
  });
});

describe('background work that waits for a call of the budget', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  it('waits no more when the service stops', async () => {
    const { batcher, budget, submit } = startReplica('create');
    const request = submit('request');
    const background = () => ({ ...startCall('background'), background: 'batch' as const });
    const waiting = batcher.submit('background', background());
    budget.stop.abort();
    mock.timers.tick(50);
    await assert.rejects(waiting, paced());
    const late = batcher.submit('late', background());
    mock.timers.tick(50);
    await assert.rejects(late, paced());
    budget.give();
    assert.deepEqual(await request, { done: 'request' });
  });
});
