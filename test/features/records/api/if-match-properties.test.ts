import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import type { KyselyPlugin } from 'kysely';
import { createLedger, type Ledger } from '../../../../src/api/idempotency/ledger.ts';
import { isFinal } from '../../../../src/api/pipeline/answer.ts';
import type { Route, RouteAnswer } from '../../../../src/api/route.ts';
import { changeRoute } from '../../../../src/features/records/routes/change.ts';
import { recordsContext } from '../../../../src/features/records/routes/context.ts';
import { removeRoute } from '../../../../src/features/records/routes/records.ts';
import { startCall } from '../../../../src/platform/base/call.ts';
import { Problem } from '../../../../src/platform/base/problem.ts';
import { createMetrics } from '../../../../src/platform/observability/metrics.ts';
import { quote } from '../../../../src/records/quotes-and-bookings.ts';
import type { FieldValues, Records } from '../../../../src/records/records.ts';
import { createRepresentation, entityTag } from '../../../../src/records/representation.ts';
import { databaseKinds, openTestDatabase, type TestDatabase } from '../../../support/databases.ts';
import { runClaimed } from '../../../support/run-claimed.ts';

/** The outcome of a call that writes. Nobody knows it where the answer is lost or the effect comes later. */
const outcome = fc.constantFrom('ok', 'ok', 'ok', 'answer lost', 'late', 'refused');
const pace = {
  replica: fc.nat(1),
  /** Steps of others that it lets pass before it begins, and at each call to the CRM. */
  startsAfter: fc.nat(20),
  slowness: fc.constantFrom(0, 0, 3, 8),
};
const conditional = fc.record({
  method: fc.constantFrom('PATCH', 'PATCH', 'DELETE'),
  conditional: fc.constant(true),
  outcome,
  ...pace,
});
/** An unconditional change waits for the lease of a lost write, in real time: so none is lost beside it. */
const certain = fc.record({
  method: fc.constantFrom('PATCH', 'PATCH', 'DELETE'),
  conditional: fc.boolean(),
  outcome: fc.constantFrom('ok', 'ok', 'refused'),
  ...pace,
});
const storm = fc.oneof(
  fc.array(conditional, { minLength: 2, maxLength: 5 }),
  fc.array(certain, { minLength: 2, maxLength: 3 }),
);
type Write = typeof storm extends fc.Arbitrary<(infer W)[]> ? W : never;

const represent = createRepresentation(quote);
const newRecord = (): FieldValues => ({
  id: randomUUID(),
  trip_id: randomUUID(),
  member_id: randomUUID(),
  name: 'original',
  source: 'x',
  details: '{}',
  status: 'created',
  created_at: '2024-01-01T00:00:00.000Z',
  updated_at: '2024-01-01T00:00:00.000Z',
});
const tagOf = (values: FieldValues | undefined) => values && entityTag(represent(values));

/** One record of a CRM without compare-and-set: every call lets others pass before and after its effect. */
class OneRecord {
  readonly original = newRecord();
  values: FieldValues | undefined = this.original;
  /** The tag that the record had when a conditional write took effect, one for each. */
  readonly overwritten: (string | undefined)[] = [];
  readonly late: Promise<void>[] = [];
  readonly #pass: (steps: number) => Promise<void>;

  constructor(pass: (steps: number) => Promise<void>) {
    this.#pass = pass;
  }

  /** The CRM as one write sees it. */
  asSeenBy({ conditional: isConditional, outcome: first, slowness }: Write): Records {
    let outcome = first;
    const pass = () => this.#pass(slowness);
    const takeEffect = (effect: () => void) => {
      if (this.values === undefined) throw new Problem('not_found', 'gone');
      if (isConditional) this.overwritten.push(tagOf(this.values));
      effect();
    };
    const write = async (effect: () => void): Promise<void> => {
      await pass();
      const current = outcome;
      outcome = 'ok';
      if (current === 'ok' || current === 'answer lost') takeEffect(effect);
      else if (current === 'late') this.late.push(this.#pass(50).then(() => takeEffect(effect)));
      await pass();
      if (current !== 'ok')
        throw new Problem('crm_unavailable', current, { outcomeUnknown: current !== 'refused' });
    };
    return {
      now: Date.now,
      find: async () => {
        await pass();
        const { values } = this;
        await pass();
        return values && { nativeId: 'native', values };
      },
      updateAndRead: async (_resource: unknown, _ref: unknown, values: FieldValues) => {
        await write(() => {
          this.values = { ...(this.values as FieldValues), ...values };
        });
        return { nativeId: 'native', values: { ...this.original, ...values } };
      },
      remove: () =>
        write(() => {
          this.values = undefined;
        }),
    } as unknown as Records;
  }
}

/** Lets those who wait go on one at a time, chosen at random. */
class RandomOrder {
  readonly #choices: Iterator<number>;
  #waiting: (() => void)[] = [];

  constructor(choices: Iterator<number>) {
    this.#choices = choices;
  }

  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      setImmediate(() => {
        const chosen = (this.#choices.next().value as number) % this.#waiting.length;
        this.#waiting.splice(chosen, 1)[0]?.();
      });
    });
  }
}

/** Carries a write out as the server does, once and then again as often as a caller would that is asked to. */
async function carryOut(ledger: Ledger, write: Write, record: OneRecord): Promise<number[]> {
  const { original } = record;
  const context = recordsContext(quote, record.asSeenBy(write));
  const route: Route = write.method === 'PATCH' ? changeRoute(context) : removeRoute(context);
  const params = { id: original['id'] as string };
  const prepared = { name: `name ${randomUUID()}` };
  const ifMatch = write.conditional ? tagOf(original) : undefined;
  const request = {
    consumerId: 'consumer',
    key: randomUUID(),
    operation: route.operationId,
    fingerprint: Buffer.alloc(32, 1),
    externalId: randomUUID(),
    overwrites: write.conditional ? undefined : route.overwrites?.(params as never),
  };
  const statuses: number[] = [];
  for (let tries = 0; tries < 3; tries++) {
    const run = runClaimed(ledger, request, async (claim) => {
      const input = { params, prepared, headers: { 'if-match': ifMatch }, call: startCall('test'), claim };
      const answer: RouteAnswer = await route.handle(input as never).catch((error: unknown) => {
        if (error instanceof Problem && isFinal(error)) return { status: error.status };
        throw error;
      });
      const { headers = {}, body = '', ...others } = answer;
      return { ...others, headers, body: body.toString() };
    });
    const status = await run.then(
      ({ answer }) => answer.status,
      (error: unknown) => (error instanceof Problem ? error.status : Promise.reject(error)),
    );
    statuses.push(status);
    // The same key again would write beside its own late write: what then comes last is nobody's promise.
    if (write.outcome === 'late' || ![409, 503].includes(status)) break;
  }
  return statuses;
}

describe('writes with If-Match', () => {
  let opened: TestDatabase;

  before(async () => {
    opened = (await databaseKinds['PostgreSQL']?.(2)) ?? (await openTestDatabase());
  });
  after(() => opened.stop());

  test('one of those that carry a tag succeeds, and it overwrites nothing else', async () => {
    const end = performance.now() + 4000;
    const property = fc.asyncProperty(fc.infiniteStream(fc.nat(1000)), storm, async (choices, writes) => {
      if (performance.now() > end) return;
      const order = new RandomOrder(choices);
      const pass = async (steps = 0) => {
        for (let step = 0; step <= steps; step++) await order.next();
      };
      const afterStatement: KyselyPlugin = {
        transformQuery: ({ node }) => node,
        transformResult: async ({ result }) => {
          await pass();
          return result;
        },
      };
      const replica = (database = opened.replicas[0]) =>
        createLedger({
          database: { ...database, sql: database.sql.withPlugin(afterStatement) },
          metrics: createMetrics(),
          retentionHours: 24,
          statementsAtOnce: 2,
        });
      const replicas = [replica(), replica(opened.replicas[1])];
      const record = new OneRecord(pass);
      const runs = writes.map(async (write) => {
        await pass(write.startsAfter);
        return carryOut(replicas[write.replica] as Ledger, write, record);
      });
      const answers = await Promise.all(runs);
      await Promise.all(record.late);

      const ofConditional = answers.filter((_, index) => writes[index]?.conditional);
      const succeeded = ofConditional.filter((statuses) => (statuses.at(-1) as number) < 300).length;
      assert.ok(succeeded <= 1, `${succeeded} succeeded`);
      assert.ok(record.overwritten.length <= 1, `${record.overwritten.length} took effect`);
      for (const tag of record.overwritten) assert.equal(tag, tagOf(record.original));
      for (const statuses of answers) {
        for (const status of statuses) assert.ok([200, 204, 404, 409, 412, 503].includes(status));
      }
      const isCertain = writes.every((write) => write.conditional && write.outcome === 'ok');
      if (isCertain) assert.equal(succeeded, 1);
    });
    await fc.assert(property, { numRuns: 200 });
  });
});
