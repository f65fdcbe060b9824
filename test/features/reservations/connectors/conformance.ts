import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, it } from 'node:test';
import type { Connector, CreateAttempt } from '../../../../src/features/reservations/connectors/connector.ts';
import { startCall } from '../../../../src/platform/base/call.ts';
import { Problem } from '../../../../src/platform/base/problem.ts';
import { eventually } from '../../../support/eventually.ts';

/** A connector, its system, and the faults that its system can be asked for. */
export interface ConnectorUnderTest<Order> {
  connector: Connector<Order>;
  /** An order that the system takes, unlike all before. */
  newOrder(): Order;
  /** An order that the system refuses for good. */
  newRefusedOrder(): Promise<Order>;
  /** References of the parts that stand in the system for this order, looked up without the connector. */
  standing(order: Order): Promise<string[]>;
  /** A reference as the system makes them, of a part that never was. */
  unknownReference: string;
  /** The next call of this kind does its work, and its answer is lost. */
  loseAnswer(of: 'create' | 'cancel'): Promise<void>;
  /** From now on calls of this kind get no answer and do nothing, until `heal`. */
  hang(of: 'create' | 'cancel' | 'retrieve'): Promise<void>;
  /** The system refuses to undo this part; undefined where it never refuses. */
  forbidCancel: ((reference: string) => Promise<void>) | undefined;
  kill(): Promise<void>;
  /** The system is back, with all that it had. */
  restart(): Promise<void>;
  /** No faults any more. */
  heal(): Promise<void>;
}

/** Enough for all that a connector tries by itself. */
const call = () => startCall('conformance');
/** For what is not going to succeed. */
const shortCall = () => startCall('conformance', undefined, 2500);

/** A first attempt, unless changed. */
export function newAttempt(change: Partial<CreateAttempt> = {}): CreateAttempt {
  return { token: randomUUID(), repeated: false, isOthers: async () => false, ...change };
}
const again = (attempt: CreateAttempt): CreateAttempt => ({ ...attempt, repeated: true });

/** What every connector promises. */
export function connectorConformance<Order>(name: string, underTest: () => ConnectorUnderTest<Order>): void {
  describe(`${name} keeps the promises of a connector`, () => {
    beforeEach(() => underTest().heal());
    describe('create', () => create(underTest));
    describe('create, when it goes wrong', () => createWithFaults(underTest));
    describe('retrieve', () => retrieve(underTest));
    describe('cancel', () => cancel(underTest));
    describe('health', () => health(underTest));
  });
}

function create<Order>(underTest: () => ConnectorUnderTest<Order>): void {
  it('makes a part', async () => {
    const { connector, newOrder, standing } = underTest();
    const order = newOrder();
    const part = await connector.create(order, newAttempt(), call());
    assert.match(part.status, /^(confirmed|pending)$/);
    assert.deepEqual(await standing(order), [part.reference]);
  });

  it('makes it once for each token', async () => {
    const { connector, newOrder, standing } = underTest();
    const order = newOrder();
    const attempt = newAttempt();
    const first = await connector.create(order, attempt, call());
    const second = await connector.create(order, again(attempt), call());
    assert.equal(second.reference, first.reference);
    assert.equal((await standing(order)).length, 1);
  });

  it('makes it once for attempts at the same time', async () => {
    const { connector, newOrder, standing } = underTest();
    const order = newOrder();
    const attempt = again(newAttempt());
    const parts = await Promise.all([1, 2, 3].map(() => connector.create(order, attempt, call())));
    assert.equal(new Set(parts.map(({ reference }) => reference)).size, 1);
    assert.equal((await standing(order)).length, 1);
  });

  it('makes different parts for different orders', async () => {
    const { connector, newOrder } = underTest();
    const first = await connector.create(newOrder(), newAttempt(), call());
    const second = await connector.create(newOrder(), newAttempt(), call());
    assert.notEqual(first.reference, second.reference);
  });

  it('reports a refusal that is final', async () => {
    const { connector, newRefusedOrder, standing } = underTest();
    const order = await newRefusedOrder();
    const problem = await problemOf(connector.create(order, newAttempt(), call()));
    assert.equal(problem.status, 422);
    assert.equal(problem.facts.outcomeUnknown ?? false, false);
    assert.deepEqual(await standing(order), []);
  });

  it('reports a refusal of a repeat too, where there is nothing', async () => {
    const { connector, newRefusedOrder } = underTest();
    const order = await newRefusedOrder();
    assert.equal((await problemOf(connector.create(order, again(newAttempt()), call()))).status, 422);
  });
}

function createWithFaults<Order>(underTest: () => ConnectorUnderTest<Order>): void {
  it('finds the part whose answer was lost', async () => {
    const { connector, newOrder, standing, loseAnswer } = underTest();
    const order = newOrder();
    const attempt = newAttempt();
    await loseAnswer('create');
    const part = await connector
      .create(order, attempt, call())
      // A connector may leave it to the next attempt to find out, but must say that it does not know.
      .catch((error: unknown) => {
        assert.equal(asProblem(error).facts.outcomeUnknown, true);
        return connector.create(order, again(attempt), call());
      });
    assert.deepEqual(await standing(order), [part.reference]);
  });

  it('says that it does not know when no answer comes, and the repeat makes the part', async () => {
    const { connector, newOrder, standing, hang, heal } = underTest();
    const order = newOrder();
    const attempt = newAttempt();
    await hang('create');
    const problem = await problemOf(connector.create(order, attempt, shortCall()));
    assert.equal(problem.facts.outcomeUnknown, true);
    assert.equal(problem.status, 504);
    await heal();
    const part = await connector.create(order, again(attempt), call());
    assert.deepEqual(await standing(order), [part.reference]);
  });

  it('fails while the system is gone, and works when it is back', async () => {
    const { connector, newOrder, standing, kill, restart } = underTest();
    const order = newOrder();
    const attempt = newAttempt();
    await kill();
    try {
      assert.match(
        String((await problemOf(connector.create(order, attempt, shortCall()))).status),
        /^50[34]$/,
      );
    } finally {
      await restart();
    }
    const part = await connector.create(order, again(attempt), call());
    assert.deepEqual(await standing(order), [part.reference]);
  });
}

function retrieve<Order>(underTest: () => ConnectorUnderTest<Order>): void {
  it('shows the part as it is', async () => {
    const { connector, newOrder } = underTest();
    const order = newOrder();
    const part = await connector.create(order, newAttempt(), call());
    const found = await connector.retrieve(part.reference, order, call());
    assert.equal(found?.reference, part.reference);
    assert.equal(found.status, part.status);
  });

  it('knows no part that never was', async () => {
    const { connector, newOrder, unknownReference } = underTest();
    assert.equal(await connector.retrieve(unknownReference, newOrder(), call()), undefined);
  });

  it('throws where it can not know', async () => {
    const { connector, newOrder, hang } = underTest();
    const order = newOrder();
    const part = await connector.create(order, newAttempt(), call());
    await hang('retrieve');
    const problem = await problemOf(connector.retrieve(part.reference, order, shortCall()));
    assert.match(String(problem.status), /^50[234]$/);
  });
}

function cancel<Order>(underTest: () => ConnectorUnderTest<Order>): void {
  const made = async () => {
    const order = underTest().newOrder();
    return { order, part: await underTest().connector.create(order, newAttempt(), call()) };
  };

  it('undoes the part, and once more is no fault', async () => {
    const { connector, standing } = underTest();
    const { order, part } = await made();
    await connector.cancel(part.reference, order, call());
    await connector.cancel(part.reference, order, call());
    assert.deepEqual(await standing(order), []);
    const found = await connector.retrieve(part.reference, order, call());
    assert.ok(found === undefined || found.status === 'cancelled');
  });

  it('takes a part that never was for undone', async () => {
    const { connector, newOrder, unknownReference } = underTest();
    await connector.cancel(unknownReference, newOrder(), call());
  });

  it('undoes a part when the answer is lost', async () => {
    const { connector, standing, loseAnswer } = underTest();
    const { order, part } = await made();
    await loseAnswer('cancel');
    await connector.cancel(part.reference, order, call()).catch((error: unknown) => {
      assert.equal(asProblem(error).facts.outcomeUnknown, true);
      return connector.cancel(part.reference, order, call());
    });
    assert.deepEqual(await standing(order), []);
  });

  it('says that it does not know when no answer comes', async () => {
    const { connector, standing, hang } = underTest();
    const { order, part } = await made();
    await hang('cancel');
    const problem = await problemOf(connector.cancel(part.reference, order, shortCall()));
    assert.equal(problem.facts.outcomeUnknown, true);
    assert.deepEqual(await standing(order), [part.reference]);
  });

  it('reports a refusal, after which the part stands', async (t) => {
    const { connector, standing, forbidCancel } = underTest();
    if (forbidCancel === undefined) return t.skip('this system never refuses');
    const { order, part } = await made();
    await forbidCancel(part.reference);
    assert.equal((await problemOf(connector.cancel(part.reference, order, call()))).code, 'conflict');
    assert.deepEqual(await standing(order), [part.reference]);
  });
}

function health<Order>(underTest: () => ConnectorUnderTest<Order>): void {
  it('shows that the system is there, that it is gone, and that it is back', async () => {
    const { connector, kill, restart } = underTest();
    await shows(connector, true);
    await kill();
    try {
      await shows(connector, false);
    } finally {
      await restart();
    }
    await shows(connector, true);
  });
}

/** A look is shared for a while, so what happens shows a little later: asked until it does. */
async function shows(connector: Pick<Connector<never>, 'checkHealth'>, connected: boolean): Promise<void> {
  await eventually(async () => assert.equal((await connector.checkHealth()).connected, connected));
}

/** The problem that this fails with. */
export async function problemOf(promise: Promise<unknown>): Promise<Problem> {
  return promise.then(() => assert.fail('it succeeded'), asProblem);
}

function asProblem(error: unknown): Problem {
  assert.ok(error instanceof Problem, String(error));
  return error;
}
