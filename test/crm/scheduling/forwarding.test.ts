import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setImmediate as nextTick } from 'node:timers/promises';
import type { ItemOutcome, Operation } from '../../../src/crm/batching/operation.ts';
import type { PaidCall } from '../../../src/crm/budget/call-budget.ts';
import { CrmFailure } from '../../../src/crm/failure.ts';
import { RetryBudget } from '../../../src/crm/rest/retry.ts';
import type {
  ForwardedBatch,
  ForwardedBatches,
  Forwarder,
} from '../../../src/crm/scheduling/forwarded-batches.ts';
import { ObjectSize } from '../../../src/crm/scheduling/request-kind.ts';
import { Scheduler } from '../../../src/crm/scheduling/scheduler.ts';
import { type Call, startCall } from '../../../src/platform/base/call.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { eventually } from '../../support/eventually.ts';

const budgetExhausted = () => new CrmFailure('budget_exhausted', 'no call is left', { retryAfter: 1 });

/** A budget that has no call until a test gives one, and permits for all. */
class TestPermits {
  readonly maxWaitMs = 2000;
  readonly replicas = 2;
  readonly stop = new AbortController();
  readonly #waiting = new Set<(paid: PaidCall | undefined) => void>();

  get waiting(): number {
    return this.#waiting.size;
  }

  enter(): () => void {
    return () => {};
  }

  async acquire() {
    return { release: () => {} };
  }

  admit(): void {}

  waitedTooLong(): Error {
    return budgetExhausted();
  }

  waitForCall() {
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
    if (first === undefined) assert.fail('nothing waits for a call');
    this.#waiting.delete(first);
    first({ wasShort: true, chargeTo: () => undefined, giveBack: () => {} });
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

async function settled(): Promise<void> {
  for (let count = 0; count < 10; count++) await nextTick();
}

function startReplica(
  effect: Operation<Item, Done>['effect'],
  invite: ForwardedBatches['invite'] = async () => {},
) {
  const budget = new TestPermits();
  const operation = new TestOperation(effect);
  const client = {
    permits: budget,
    budget,
    retryBudget: new RetryBudget(1000, createMetrics()),
    shortestCallMs: 1000,
  };
  let forwarding: Forwarder | undefined;
  const register = (_: string, registered: Forwarder) => {
    forwarding = registered;
  };
  type Options = ConstructorParameters<typeof Scheduler>[0];
  const scheduler = new Scheduler({
    client: client as unknown as Options['client'],
    timeoutMs: 10_000,
    stopping: budget.stop.signal,
    forwarded: { register, invite } as unknown as ForwardedBatches,
    metrics: createMetrics(),
  });
  const kind = scheduler.addKind<Item, Done>({
    ...{ name: 'quote create', batchKey: 'quote create', operation },
    ...{ object: 'Quote__c', objectSize: new ObjectSize(), rows: 'quote' },
  });
  const submitAs = (item: Item, call: Call) => scheduler.submit(kind, item, call);
  const submit = (item: Item, ms = 25_000) => submitAs(item, startCall('test', 'a consumer', ms));
  return { budget, operation, submitAs, forwarding: forwarding ?? assert.fail(), submit };
}

const isUnknown = (error: unknown) => error instanceof CrmFailure && error.outcomeUnknown;
const forward = (replica: Forwarder): ForwardedBatch =>
  replica.forward(100) ?? assert.fail('nothing was forwarded');

describe('requests that are forwarded to another replica', () => {
  // No wait ends by itself.
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  it('each get their own outcome, and a second one changes nothing', async () => {
    const { forwarding, submit } = startReplica('create');
    const requests = [submit('one'), submit('other')];
    const { settle, requests: sent } = forward(forwarding);
    assert.deepEqual(
      sent.map(({ item, consumerId, isWrite }) => [item, consumerId, isWrite]),
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
      const { forwarding, operation, submit } = startReplica(effect);
      operation.reconcile = async (items) =>
        items.map((done) => (done === 'done' ? { result: { done } } : 'not done'));
      const requests = [submit('done'), submit('not done')];
      forward(forwarding).lose();
      assert.deepEqual(await Promise.all(requests), [{ done: 'done' }, { done: 'not done' }]);
      assert.deepEqual(operation.executed, [['not done']]);
      assert.equal(operation.calls[0]?.isWrite, true);
    });

    it(`have an unknown outcome after a loss where nothing more can be sent: ${effect}`, async () => {
      const { forwarding, operation, submit } = startReplica(effect);
      operation.reconcile = async (items) => items.map(() => 'not done');
      operation.answer = () => Promise.reject(budgetExhausted());
      const refused = submit('not done');
      forward(forwarding).lose();
      await assert.rejects(refused, isUnknown);
      operation.reconcile = async () => Promise.reject(budgetExhausted());
      const unknown = submit('who knows');
      forward(forwarding).lose();
      await assert.rejects(unknown, isUnknown);
      assert.equal(operation.executed.length, 1);
    });
  }

  it('are asked for again after a loss where they are reads, and only those without an answer', async () => {
    const { forwarding, operation, submit } = startReplica('read');
    const requests = [submit('one'), submit('other')];
    const { settle, lose } = forward(forwarding);
    settle(0, { result: { done: 'one' } });
    lose();
    assert.deepEqual(await Promise.all(requests), [{ done: 'one' }, { done: 'other' }]);
    assert.deepEqual(operation.executed, [['other']]);
  });

  it('wait for a call of this replica where they were not executed', async () => {
    const { forwarding, budget, submit } = startReplica('create');
    const created = submit('one');
    forward(forwarding).settle(0, 'not executed');
    await settled();
    budget.give();
    assert.deepEqual(await created, { done: 'one' });
  });

  it('leave nothing behind that waits for a call', async () => {
    const { forwarding, budget, operation, submit } = startReplica('create');
    const held = Promise.withResolvers<void>();
    operation.answer = async (done) => {
      await held.promise;
      return { result: { done } };
    };
    const first = submit('first');
    budget.give();
    await settled();
    // The second lingers, since the first is in flight.
    const second = submit('second');
    forward(forwarding).settle(0, { result: { done: 'second' } });
    await second;
    mock.timers.tick(50);
    assert.equal(budget.waiting, 0);
    held.resolve();
    await first;
    const third = submit('third');
    assert.equal(budget.waiting, 1);
    forward(forwarding).settle(0, { result: { done: 'third' } });
    await third;
    assert.equal(budget.waiting, 0);
  });

  it('have time to come back before they end, and stay where they have not', () => {
    const { forwarding, submit } = startReplica('create');
    void submit('much');
    assert.equal(forward(forwarding).ms, 12_000);
    void submit('some', 9000);
    const { ms } = forward(forwarding);
    assert.ok(ms > 6000 && ms <= 7000, `${ms}`);
    void submit('little', 4900);
    assert.equal(forwarding.forward(100), undefined);
  });

  it('are 256 KB at most, all that is known of them counted', () => {
    const { forwarding, submit } = startReplica('change');
    const ofSize = (length: number) => ({ text: 'x'.repeat(length) });
    for (const length of [200_000, 60_000, 3000]) void submit(ofSize(length));
    assert.equal(forward(forwarding).requests.length, 2);
    assert.equal(forward(forwarding).requests.length, 1);
    void submit(ofSize(300_000));
    assert.equal(forwarding.forward(100), undefined);
  });

  it('go into the call of the other replica, which forwards nothing itself', async () => {
    const held = Promise.withResolvers<void>();
    const reported: unknown[] = [];
    const { forwarding, budget, operation, submit } = startReplica('create', () => held.promise);
    const own = submit('own');
    budget.give();
    await settled();
    const item = { item: 'forwarded', consumerId: 'another', isWrite: true, waitedMs: 100 };
    const received = forwarding.receive([item], 12_000, (index, outcome) => reported.push([index, outcome]));
    assert.equal(forwarding.forward(100), undefined);
    held.resolve();
    await Promise.all([own, received]);
    assert.deepEqual(operation.executed, [['own', 'forwarded']]);
    assert.deepEqual(reported, [[0, { result: { done: 'forwarded' } }]]);
  });

  it('are answered by the other replica one by one', async () => {
    const { forwarding, budget, operation } = startReplica('create');
    const reported: number[] = [];
    const items = ['locked', 'free'].map((item) => ({ item, isWrite: true, waitedMs: 0 }));
    const held = Promise.withResolvers<void>();
    operation.answer = async (done) => {
      if (done === 'locked' && operation.executed.length === 1)
        return { failure: new CrmFailure('locked', 'another has it', { mayBeOthers: true }), ofItem: true };
      if (done === 'locked') await held.promise;
      return { result: { done } };
    };
    const received = forwarding.receive(items, 12_000, (index) => reported.push(index));
    budget.give();
    await eventually(() => assert.deepEqual(operation.executed, [['locked', 'free'], ['locked']]));
    assert.deepEqual(reported, [1]);
    held.resolve();
    await received;
    assert.deepEqual(reported, [1, 0]);
  });

  it('are sent by their own replica where they certainly were not, and not where they may have been', async () => {
    const { forwarding, budget, operation } = startReplica('create');
    const reported: [number, boolean][] = [];
    const items = ['unsent', 'perhaps'].map((item) => ({ item, isWrite: true, waitedMs: 0 }));
    operation.answer = (item) => ({
      failure: new CrmFailure('late', 'x', { outcomeUnknown: item === 'perhaps' }),
      ofItem: true,
    });
    const received = forwarding.receive(items, 12_000, (index, outcome) =>
      reported.push([index, outcome === 'not executed']),
    );
    budget.give();
    await received;
    assert.deepEqual(reported, [
      [0, true],
      [1, false],
    ]);
  });

  it('are sent by their own replica where the answer is too large to return', async () => {
    const { forwarding, budget, operation, submit } = startReplica('read');
    const reported: unknown[] = [];
    const items = ['one', 'other'].map((item) => ({ item, isWrite: false, waitedMs: 0 }));
    operation.answer = () => ({ result: { done: 'x'.repeat(3 * 1024 * 1024) } });
    const received = forwarding.receive(items, 12_000, (_, outcome) =>
      reported.push(outcome === 'not executed' || 'returned'),
    );
    budget.give();
    await received;
    assert.deepEqual(reported, ['returned', true]);
    operation.answer = (done) => ({ result: { done } });
    const read = submit('other');
    forward(forwarding).settle(0, 'not executed');
    await settled();
    budget.give();
    assert.deepEqual(await read, { done: 'other' });
  });
});

describe('background work that waits for a call of the budget', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  it('waits no more when the service stops', async () => {
    const { submitAs, budget, submit } = startReplica('create');
    const request = submit('request');
    const background = () => ({ ...startCall('background'), background: 'batch' as const });
    const waiting = submitAs('background', background());
    budget.stop.abort();
    mock.timers.tick(50);
    await assert.rejects(waiting, budgetExhausted());
    const late = submitAs('late', background());
    mock.timers.tick(50);
    await assert.rejects(late, budgetExhausted());
    budget.give();
    assert.deepEqual(await request, { done: 'request' });
  });
});
