import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { mostHeavyParts } from '../../../src/crm/budget/call-queue.ts';
import { largestBatch } from '../../../src/crm/rest/request.ts';
import {
  type Allowed,
  companionsOf,
  heavyPartsOf,
  mostBytes,
  type PlannedKind,
  planBatch,
  planCall,
  type Waiting,
} from '../../../src/crm/scheduling/planner.ts';
import { FairQueue } from '../../../src/platform/base/concurrency.ts';

const [timeoutMs, enoughMs] = [10_000, 1000];
const allowed: Allowed = { time: 0, timeoutMs, enoughMs, parts: undefined, busyParents: new Set() };

/** A request that waits in the queue of this number: look-ups of writes, others, background work. */
interface Request extends Waiting {
  id: number;
  queue: 0 | 1 | 2;
}

const request = fc.record({
  tenant: fc.constantFrom('a', 'b', 'c'),
  size: fc.oneof({ weight: 20, arbitrary: fc.nat(1000) }, { weight: 1, arbitrary: fc.nat(2 * mostBytes) }),
  deadline: fc.oneof(
    { weight: 8, arbitrary: fc.constant(25_000) },
    { weight: 1, arbitrary: fc.constantFrom(500, 5000) },
  ),
  parent: fc.option(fc.constantFrom('m', 'n', 'o'), { nil: undefined }),
  queue: fc.constantFrom<0 | 1 | 2>(0, 1, 1, 1, 2),
});
const requests = fc
  .array(request, { maxLength: 300 })
  .map((all) => all.map((one, id): Request => ({ ...one, id })));
const busyParents = fc.subarray(['m', 'n', 'o']).map((parents) => new Set(parents));
const kindOf = fc.record({
  rows: fc.option(fc.constantFrom('quote', 'booking', 'member'), { nil: undefined }),
  isWrite: fc.boolean(),
  perCall: fc.integer({ min: 1, max: largestBatch }),
  waiting: requests,
  waitsSince: fc.option(fc.nat(100), { nil: undefined }),
});
const parts = fc.option(
  fc.constant<ReadonlyMap<string, number>>(
    new Map([
      ['a', 0.6],
      ['b', 0.3],
      ['c', 0.1],
    ]),
  ),
  {
    nil: undefined,
  },
);

function queuesOf(waiting: readonly Request[]): PlannedKind<Request>['queues'] {
  const queues = [new FairQueue<Request>(), new FairQueue<Request>(), new FairQueue<Request>()] as const;
  for (const one of waiting) queues[one.queue].add(one.tenant, one);
  return queues;
}

type Kind = PlannedKind<Request> & { waitsSince: number | undefined };

function toKind({ waiting, ...kind }: Omit<Kind, 'queues'> & { waiting: readonly Request[] }): Kind {
  return { ...kind, queues: queuesOf(waiting) };
}

const contentOf = (kinds: readonly Kind[]) => kinds.map(({ queues }) => queues.map((queue) => [...queue]));
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const isShort = ({ deadline }: Waiting) => deadline < timeoutMs;

describe('a call, whatever waits', () => {
  const world = fc.record({
    first: kindOf,
    others: fc.array(kindOf, { maxLength: 6 }),
    busy: busyParents,
    parts,
  });

  it('holds no more than the CRM takes, and changes nothing of what waits', () => {
    fc.assert(
      fc.property(world, ({ first: given, others: more, busy, parts: shares }) => {
        const [first, ...others] = [given, ...more].map(toKind) as [Kind, ...Kind[]];
        const before = contentOf([first, ...others]);
        const companions = companionsOf(first, [first, ...others], 100);
        const plan = planCall(first, companions, { ...allowed, busyParents: busy, parts: shares });
        assert.deepEqual(contentOf([first, ...others]), before);
        const sent = plan.filter((batch) => batch.requests.length > 0);
        if (sent.length > 1) assert.ok(heavyPartsOf(sent.map(({ kind }) => kind)) <= mostHeavyParts);
        for (const { kind, requests: taken } of sent) assert.ok(taken.length <= kind.perCall);
        for (const rows of ['quote', 'booking', 'member']) {
          const records = sum(
            sent.filter(({ kind }) => kind.rows === rows).map((one) => one.requests.length),
          );
          assert.ok(records <= largestBatch);
        }
        const all = sent.flatMap((batch) => batch.requests);
        if (all.length > 1) assert.ok(sum(all.map(({ size }) => size)) <= mostBytes);
        // None twice: a request is in one queue of one kind.
        assert.equal(new Set(all).size, all.length);
      }),
    );
  });

  it('has no record whose parent is in another call, but for those with little time', () => {
    fc.assert(
      fc.property(world, ({ first: given, others: more, busy }) => {
        const [first, ...others] = [given, ...more].map(toKind) as [Kind, ...Kind[]];
        const plan = planCall(first, companionsOf(first, others, 100), { ...allowed, busyParents: busy });
        for (const one of plan.flatMap((batch) => batch.requests))
          assert.ok(one.parent === undefined || !busy.has(one.parent) || isShort(one));
      }),
    );
  });

  it('is not shortened by a request with little time, and has none that is too late', () => {
    fc.assert(
      fc.property(world, ({ first: given, others: more }) => {
        const [first, ...others] = [given, ...more].map(toKind) as [Kind, ...Kind[]];
        const plan = planCall(first, companionsOf(first, others, 100), allowed);
        const all = plan.flatMap((batch) => batch.requests);
        assert.ok(all.every(isShort) || !all.some(isShort));
        assert.ok(all.every(({ deadline }) => deadline >= enoughMs));
        for (const { late } of plan) assert.ok(late.every(({ deadline }) => deadline < enoughMs));
      }),
    );
  });
});

describe('a batch of one kind', () => {
  const small = fc.array(
    fc.record({ tenant: fc.constantFrom('a', 'b', 'c'), queue: fc.constantFrom<0 | 1 | 2>(0, 1, 2) }),
    { maxLength: 300 },
  );
  const batchOf = (
    all: { tenant: string; queue: 0 | 1 | 2 }[],
    records: number,
    changes: Partial<Allowed> = {},
  ) => {
    const waiting = all.map((one, id): Request => ({ ...one, id, size: 1, deadline: 25_000 }));
    const queues = queuesOf(waiting);
    return { waiting, batch: planBatch(queues, { records, bytes: mostBytes }, { ...allowed, ...changes }) };
  };

  it('is as large as may be, look-ups of writes first and background work last', () => {
    fc.assert(
      fc.property(small, fc.integer({ min: 1, max: largestBatch }), (all, records) => {
        const { waiting, batch } = batchOf(all, records);
        assert.equal(batch.requests.length, Math.min(records, waiting.length));
        const order = batch.requests.map(({ queue }) => queue);
        assert.deepEqual(order, order.toSorted());
        const left = waiting.filter((one) => !batch.requests.includes(one)).map(({ queue }) => queue);
        assert.ok(Math.max(0, ...order) <= Math.min(2, ...left));
      }),
    );
  });

  it('takes consumers in turn, and the requests of each in their order', () => {
    fc.assert(
      fc.property(small, fc.integer({ min: 1, max: largestBatch }), (all, records) => {
        const { waiting, batch } = batchOf(
          all.map((one) => ({ ...one, queue: 1 })),
          records,
        );
        const countOf = (tenant: string) => batch.requests.filter((one) => one.tenant === tenant).length;
        for (const tenant of ['a', 'b', 'c']) {
          const own = waiting.filter((one) => one.tenant === tenant);
          assert.deepEqual(
            batch.requests.filter((one) => one.tenant === tenant),
            own.slice(0, countOf(tenant)),
          );
          // Only who has nothing left has less than others.
          if (countOf(tenant) < own.length)
            for (const other of ['a', 'b', 'c']) assert.ok(countOf(other) <= countOf(tenant) + 1);
        }
      }),
    );
  });

  it('gives each consumer its part first where calls are short, and what it does not need to others', () => {
    const shares = new Map([
      ['a', 0.6],
      ['b', 0.3],
      ['c', 0.1],
    ]);
    fc.assert(
      fc.property(small, fc.integer({ min: 10, max: largestBatch }), (all, records) => {
        const { waiting, batch } = batchOf(
          all.map((one) => ({ ...one, queue: 1 })),
          records,
          { parts: shares },
        );
        assert.equal(batch.requests.length, Math.min(records, waiting.length));
        for (const [tenant, part] of shares) {
          const countOf = (some: readonly Request[]) => some.filter((one) => one.tenant === tenant).length;
          const least = Math.min(countOf(waiting), Math.floor(part * records) - 3);
          assert.ok(countOf(batch.requests) >= least, `${tenant}: ${countOf(batch.requests)} of ${records}`);
        }
      }),
    );
  });

  it('has one request of any size, but none that joins a call with less room', () => {
    const waiting = queuesOf([{ id: 0, tenant: 'a', size: 2 * mostBytes, deadline: 25_000, queue: 1 }]);
    const room = { records: 10, bytes: mostBytes };
    assert.equal(planBatch(waiting, room, allowed).requests.length, 1);
    assert.equal(planBatch(waiting, { ...room, joinsWithMs: timeoutMs }, allowed).requests.length, 0);
  });

  it('says where all that is left waits for parents', () => {
    const [common, busy] = [{ tenant: 'a', size: 1, deadline: 25_000, queue: 1 } as const, new Set(['m'])];
    const room = { records: 1, bytes: mostBytes };
    const held = { ...common, id: 0, parent: 'm' };
    const free = { ...common, id: 1, parent: 'n' };
    const plan = (...all: Request[]) => planBatch(queuesOf(all), room, { ...allowed, busyParents: busy });
    assert.equal(plan(held).isHeldUp, true);
    assert.equal(plan(held, free).isHeldUp, true);
    assert.equal(plan(held, free, { ...free, id: 2 }).isHeldUp, false);
    assert.equal(plan(free).isHeldUp, false);
  });
});

describe('a call that several kinds share', () => {
  const many = (tenant: string, count: number) =>
    Array.from({ length: count }, (_, id): Request => ({ id, tenant, size: 1, deadline: 25_000, queue: 1 }));
  const kind = (rows: string, waiting: Request[]): Kind =>
    toKind({ rows, isWrite: false, perCall: largestBatch, waiting, waitsSince: 0 });
  const counts = (shares: Allowed['parts'], first: Request[], beside: Request[][]) => {
    const companions = beside.map((waiting, index) => kind(`${index}`, waiting));
    const plan = planCall(kind('first', first), companions, { ...allowed, parts: shares });
    const all = plan.flatMap((batch) => batch.requests);
    return (tenant: string) => all.filter((one) => one.tenant === tenant).length;
  };

  it('leaves a consumer with more to send its part of the call, but for five points', () => {
    const even = new Map([
      ['a', 0.5],
      ['b', 0.5],
    ]);
    fc.assert(
      fc.property(fc.integer({ min: 201, max: 400 }), (ofA) => {
        const others = [many('b', 200), many('b', 200), many('b', 200), many('b', 200)];
        const of = counts(even, many('a', ofA), others);
        const [a, b] = [of('a'), of('b')];
        assert.ok(a / (a + b) >= 0.45);
        // As much as that allows.
        assert.ok(a / (a + b + 1) < 0.45);
      }),
    );
  });

  it('lets everything go along where nobody has more to send, or nobody else asks', () => {
    const others = [many('b', 200), many('b', 200), many('b', 200), many('b', 200)];
    assert.equal(
      counts(
        new Map([
          ['a', 0.5],
          ['b', 0.5],
        ]),
        many('a', 10),
        others,
      )('b'),
      800,
    );
    assert.equal(counts(undefined, many('a', 400), others)('b'), 800);
    const own = [many('a', 200), many('a', 200), many('a', 200), many('a', 200)];
    assert.equal(counts(new Map([['a', 1]]), many('a', 400), own)('a'), 1000);
  });

  it('has the kinds that wait longest, a write as if it waited twice as long', () => {
    const since = (waitsSince: number | undefined, isWrite = false) => ({
      rows: undefined,
      isWrite,
      waitsSince,
    });
    const [first, read, write, recent, none] = [
      since(0),
      since(40),
      since(60, true),
      since(90),
      since(undefined),
    ];
    assert.deepEqual(companionsOf(first, [recent, none, read, first, write], 100), [write, read, recent]);
  });

  it('has room for five queries and collections', () => {
    const kinds = ['a', 'b', 'c', 'd'].map((rows) => ({ rows, isWrite: true, waitsSince: 0 }));
    const [first, ...others] = kinds as [(typeof kinds)[0], ...typeof kinds];
    assert.equal(companionsOf(first, others, 100).length, 1);
    const reads = ['a', 'b', 'c', 'd', 'e'].map((rows) => ({ rows, isWrite: false, waitsSince: 0 }));
    assert.equal(companionsOf({ ...first, isWrite: false }, reads, 100).length, 5);
  });
});
