import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import type { Plan } from '../../../src/features/reservations/plan.ts';
import { Harness, type Result } from './harness.ts';
import { InterleavedRuns } from './interleaved-runs.ts';
import type { Outcome } from './memory-systems.ts';

type Act =
  | { act: 'create' | 'cancel'; which: number }
  | { act: 'letGo'; which: number; outcome: Outcome }
  | { act: 'kill'; which: number }
  | { act: 'time'; outcome: 'works' | 'callLost' }
  | { act: 'job' }
  | { act: 'decide'; decision: 'pending' | 'confirmed' | 'failed' };

const which = fc.constantFrom(0, 0, 0, 1, 2, 3);
const outcome = fc.constantFrom<Outcome>(
  'works',
  'works',
  'works',
  'works',
  'refused',
  'refused',
  'fails',
  'answerLost',
  'callLost',
);
const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ act: fc.constant('create' as const), which: fc.nat({ max: 1 }) }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('cancel' as const), which: fc.nat({ max: 1 }) }) },
  { weight: 14, arbitrary: fc.record({ act: fc.constant('letGo' as const), which, outcome }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('kill' as const), which }) },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant('time' as const),
      outcome: fc.constantFrom('works' as const, 'callLost' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ act: fc.constant('job' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('decide' as const),
      decision: fc.constantFrom('pending' as const, 'confirmed' as const, 'failed' as const),
    }),
  },
);

/** One consumer's request, sent under one key however often. */
interface KeyedRequest {
  key: string;
  order: ReturnType<Harness['order']>;
  answers: Set<string>;
  cancelKey: string;
  id: string | undefined;
}

let harness: Harness | undefined;
before(async () => {
  harness = await Harness.open('PGlite');
});
after(() => harness?.close());

test('whatever fails, dies or comes late, a reservation ends whole or not there', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 20, maxLength: 80 }), async (acts) => {
      assert.ok(harness);
      await harness.clear();
      await new Play(harness).play(acts);
    }),
    { numRuns: Number(process.env['RUNS'] ?? 60) },
  );
});

class Play {
  readonly #harness: Harness;
  readonly #runs: InterleavedRuns;
  readonly #requests: KeyedRequest[];

  constructor(current: Harness) {
    this.#harness = current;
    this.#runs = new InterleavedRuns(current.systems);
    this.#requests = [0, 1].map(() => ({
      key: randomUUID(),
      order: current.order(),
      answers: new Set(),
      cancelKey: randomUUID(),
      id: undefined,
    }));
  }

  async play(acts: readonly Act[]): Promise<void> {
    for (const each of acts) await this.#do(each);
    await this.#finish();
    for (const plan of await this.#harness.plans()) this.#assertWhole(plan);
    for (const request of this.#requests) await this.#assertAnswered(request);
  }

  async #do(each: Act): Promise<void> {
    const { systems } = this.#harness;
    switch (each.act) {
      case 'create':
        return this.#create(this.#requests[each.which] as KeyedRequest);
      case 'cancel':
        return this.#cancel(this.#requests[each.which] as KeyedRequest);
      case 'letGo':
        return this.#runs.letGo(each.which, each.outcome);
      case 'kill':
        return this.#runs.kill(each.which);
      case 'time':
        await this.#runs.arrive(each.outcome);
        return this.#harness.passTime();
      case 'job':
        return this.#runs.start(
          () => this.#harness.runJob(),
          () => {},
        );
      case 'decide':
        systems.decision = each.decision;
        this.#decide(each.decision);
    }
  }

  #create(request: KeyedRequest): Promise<void> {
    return this.#runs.start(
      () => this.#harness.create(request.key, request.order),
      (result) => note(request, result as Result),
    );
  }

  async #cancel(request: KeyedRequest): Promise<void> {
    const { id } = request;
    if (id !== undefined)
      await this.#runs.start(
        () => this.#harness.cancel(request.cancelKey, id),
        () => {},
      );
  }

  /** The partner decides what is pending. */
  #decide(decision: 'pending' | 'confirmed' | 'failed'): void {
    for (const table of this.#harness.systems.tables.values()) {
      if (table.status === 'pending') table.status = decision;
    }
  }

  /** Nothing fails any more, and time passes until nothing is left to do. */
  async #finish(): Promise<void> {
    this.#harness.systems.decision = 'confirmed';
    this.#decide('confirmed');
    await this.#runs.finish();
    this.#harness.systems.outcomeOf = () => 'works';
    this.#harness.systems.deliver = () => {};
    await this.#harness.passTime();
    while (await this.#harness.runJob()) await this.#harness.passTime();
  }

  #assertWhole({ id, state, tableToken, attention }: Plan): void {
    const { systems } = this.#harness;
    const booking = systems.bookings.get(id)?.['status'];
    const table = systems.tables.get(tableToken)?.status;
    assert.equal(attention, undefined);
    const held = `${state}: booking ${booking}, table ${table}`;
    const whole = [
      /^confirmed: booking confirmed, table confirmed$/,
      /^cancelled: booking (cancelled|undefined), table (cancelled|undefined|failed)$/,
      /^(refused|failed): booking undefined, table (undefined|cancelled|failed)$/,
    ];
    assert.ok(
      whole.some((expression) => expression.test(held)),
      held,
    );
  }

  /** All answers were the same, and the last one fits what is there. */
  async #assertAnswered(request: KeyedRequest): Promise<void> {
    note(request, await this.#harness.create(request.key, request.order));
    assert.equal(request.answers.size, 1, [...request.answers].join('\n'));
    const [status] = [...request.answers].map((answer) => answer.slice(0, 3));
    const plan = request.id === undefined ? undefined : await this.#harness.plan(request.id);
    if (status === '201') assert.match(String(plan?.state), /^(confirmed|cancelled|failed)$/);
    else assert.equal(status, '422');
  }
}

/** Remembers each answer, and the id of what it made. */
function note(request: KeyedRequest, result: Result): void {
  if ('problem' in result) return;
  request.answers.add(`${result.status} ${result.body}`);
  if (result.status === 201) request.id = (JSON.parse(result.body) as { id: string }).id;
}
