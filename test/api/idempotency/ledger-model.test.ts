import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import type { StoredAnswer } from '../../../src/api/idempotency/keyed-request.ts';
import { type Claim, createLedger, type Ledger } from '../../../src/api/idempotency/ledger.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { useTestDatabase } from '../../support/databases.ts';
import { LedgerModel, type ModelRequest, type ModelResult, type ModelRun } from './ledger-model.ts';
import { type PausedRun, PausedRuns, type Settled } from './paused-runs.ts';

function often<U extends string, R extends string>(usual: U, rare: R) {
  return fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constant(rare) });
}

const next = often('ok', 'unsent');
const delivered = often('ok', 'lost');

const send = fc.record({
  kind: fc.constant('send' as const),
  key: fc.constantFrom(0, 0, 1),
  fingerprint: fc.constantFrom(1, 1, 1, 1, 2),
  acts: fc.array(fc.constantFrom('remember' as const, 'confirm' as const), { maxLength: 3 }),
  end: fc.constantFrom('answer' as const, 'answer' as const, 'error' as const),
  next,
});
const proceed = fc.record({ kind: fc.constant('proceed' as const), run: fc.nat(), delivered, next });
/** The owner dies, wherever it is. */
const crash = fc.record({ kind: fc.constant('crash' as const), run: fc.nat() });
/** No sum of these comes near to a limit, so that the real time that passes meanwhile does not count. */
const pass = fc.record({
  kind: fc.constant('pass' as const),
  seconds: fc.constantFrom(10, 40, 40, 40, 12 * 3600 + 60, 24 * 3600 + 60),
});
const forget = fc.record({ kind: fc.constant('forget' as const) });

const action = fc.oneof(
  { weight: 8, arbitrary: send },
  { weight: 20, arbitrary: proceed },
  { weight: 1, arbitrary: crash },
  { weight: 3, arbitrary: pass },
  { weight: 1, arbitrary: forget },
);
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never;

/** A request under way, in the ledger and in the model. */
interface Pair {
  real: PausedRun;
  model: ModelRun;
  /** What the ledger gave its owner. */
  claim: Claim | undefined;
}

interface Row {
  key: string;
  fingerprint: Uint8Array;
  external_id: string;
  entity_tag_before: string | null;
  fence: string;
  completed: boolean;
  response_status: number | null;
  response_headers: object | null;
  response_body: string | null;
}

const answerOf = (name: string): StoredAnswer => ({
  status: 201,
  headers: { etag: `"${name}"` },
  body: name,
});

/** The real ledger and its model, driven side by side. */
class SideBySide {
  readonly #database: Database;
  readonly #ledger: Ledger;
  readonly #runs = new PausedRuns();
  readonly #model = new LedgerModel();
  readonly #clock: { passedMs: number };
  readonly #consumerId = randomUUID();
  readonly #keys = [randomUUID(), randomUUID()];
  readonly #fences = new Map<number, { owner: ModelRun; fence: bigint }>();
  #alive: Pair[] = [];
  #sent = 0;

  constructor(database: Database, clock: { passedMs: number }) {
    this.#database = database;
    this.#clock = clock;
    const paused = { ...database, sql: database.sql.withPlugin(this.#runs.plugin) };
    this.#ledger = createLedger({
      database: paused,
      metrics: createMetrics(),
      retentionHours: 24,
      statementsAtOnce: Number.POSITIVE_INFINITY,
    });
  }

  async perform(step: Action): Promise<void> {
    if (step.kind === 'send') await this.#send(step);
    else if (step.kind === 'pass') await this.#pass(step.seconds);
    else if (step.kind === 'forget') await this.#forget();
    else if (this.#alive.length > 0) {
      const pair = this.#alive[step.run % this.#alive.length] as Pair;
      if (step.kind === 'proceed') await this.#proceed(pair, step);
      else this.#alive = this.#alive.filter((other) => other !== pair);
    }
    await this.#compareRows();
  }

  /** Lets all that is still alive go on to its end. */
  async finish(): Promise<void> {
    for (let pair = this.#alive[0]; pair; pair = this.#alive[0]) {
      await this.#proceed(pair, { delivered: 'ok', next: 'ok' });
      await this.#compareRows();
    }
  }

  async #send({ next, ...what }: Extract<Action, { kind: 'send' }>): Promise<void> {
    this.#sent += 1;
    const request: ModelRequest = { ...what, name: `answer ${this.#sent}`, externalId: randomUUID() };
    const pair = { model: this.#model.start(request), claim: undefined } as unknown as Pair;
    const { key, fingerprint, externalId } = request;
    const keyed = {
      consumerId: this.#consumerId,
      key: this.#keys[key] as string,
      operation: 'test',
      fingerprint: Buffer.alloc(32, fingerprint),
      externalId,
    };
    const execute = (claim: Claim) => {
      pair.claim = claim;
      return carryOut(request, claim);
    };
    pair.real = await this.#runs.start(this.#ledger, keyed, execute, next);
    pair.model.step('ok', next);
    this.#alive.push(pair);
    this.#compare(pair);
  }

  async #proceed(pair: Pair, how: Pick<Extract<Action, { kind: 'proceed' }>, 'delivered' | 'next'>) {
    await pair.real.proceed(how.delivered, how.next);
    pair.model.step(how.delivered, how.next);
    this.#compare(pair);
  }

  /** Time passes: the clock of the process goes on, and in the database everything is longer ago. */
  async #pass(seconds: number): Promise<void> {
    this.#model.now += seconds;
    this.#clock.passedMs += seconds * 1000;
    const ago = sql`make_interval(secs => ${seconds})`;
    await sql`
      update idempotency_claims set lease_until = lease_until - ${ago}, created_at = created_at - ${ago},
        last_attempt_at = last_attempt_at - ${ago}, completed_at = completed_at - ${ago}
      where consumer_id = ${this.#consumerId}`.execute(this.#database.sql);
  }

  async #forget(): Promise<void> {
    this.#model.forget();
    await sql`
      delete from idempotency_claims
      where consumer_id = ${this.#consumerId} and completed_at <= now() - interval '24 hours'
    `.execute(this.#database.sql);
  }

  #compare(pair: Pair): void {
    const { real, model, claim } = pair;
    assert.deepEqual(
      claim && { externalId: claim.externalId, continued: claim.continued, before: claim.before },
      model.owned,
    );
    assert.deepEqual(real.settled && describeSettled(real.settled), model.result);
    if (real.settled) this.#alive = this.#alive.filter((other) => other !== pair);
  }

  async #compareRows(): Promise<void> {
    const { rows } = await sql<Row>`
      select key, fingerprint, external_id, entity_tag_before, fence, completed_at is not null as completed,
        response_status, response_headers, response_body
      from idempotency_claims where consumer_id = ${this.#consumerId}`.execute(this.#database.sql);
    assert.equal(rows.length, this.#model.rows.size);
    for (const [key, expected] of this.#model.rows) {
      const { key: _key, fence, ...row } = rows.find((each) => each.key === this.#keys[key]) as Row;
      const answer = expected.completed && answerOf(expected.completed.answer);
      assert.deepEqual(
        { ...row, fingerprint: Buffer.from(row.fingerprint) },
        {
          fingerprint: Buffer.alloc(32, expected.fingerprint),
          external_id: expected.externalId,
          entity_tag_before: expected.before ?? null,
          completed: answer !== undefined,
          response_status: answer?.status ?? null,
          response_headers: answer?.headers ?? null,
          response_body: answer?.body ?? null,
        },
      );
      this.#compareFence(key, expected.owner, BigInt(fence));
    }
  }

  /** Each owner of a key has a fence of its own, greater than all before it, whatever became of the row meanwhile. */
  #compareFence(key: number, owner: ModelRun, fence: bigint): void {
    const known = this.#fences.get(key);
    if (known?.owner === owner) assert.equal(fence, known.fence);
    else if (known) assert.ok(fence > known.fence, `fence ${fence} after ${known.fence}`);
    this.#fences.set(key, { owner, fence });
  }
}

async function carryOut({ acts, end, name }: ModelRequest, claim: Claim): Promise<StoredAnswer> {
  for (const act of acts) {
    if (act === 'remember') await claim.rememberBefore(name);
    else await claim.confirmOwnership();
  }
  if (end === 'error') throw new Problem('crm_unavailable', 'down');
  return answerOf(name);
}

function describeSettled({ error, ...result }: Settled): ModelResult {
  if (result.answer) {
    assert.deepEqual(result.answer, answerOf(result.answer.body));
    return { answer: result.answer.body, replayed: result.replayed };
  }
  if (!(error instanceof Problem)) throw error;
  return { problem: error.code + (error.facts.outcomeUnknown ? ', outcome unknown' : '') };
}

describe('the ledger and its model', () => {
  const opened = useTestDatabase();
  let database: Database;

  before(async () => {
    [database] = opened.replicas;
  });

  test('agree on every interleaving of requests, deaths, lost statements and time', async (context) => {
    const clock = { passedMs: 0 };
    const realNow = performance.now.bind(performance);
    context.mock.method(performance, 'now', () => realNow() + clock.passedMs);
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 60, size: 'max' }), async (actions) => {
        const both = new SideBySide(database, clock);
        for (const each of actions) await both.perform(each);
        await both.finish();
      }),
      { numRuns: 150, interruptAfterTimeLimit: 15_000, markInterruptAsFailure: false },
    );
  });
});
