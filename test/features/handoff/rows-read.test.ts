import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { HandoffsTable } from '../../../src/features/handoff/handoffs-table.ts';
import { databaseKinds, type TestDatabase } from '../../support/databases.ts';
import { rowsReadIn } from '../../support/rows-read.ts';

const opened = await databaseKinds['PostgreSQL']?.();
/** Enough that reading all of them is the worse way. */
const stored = 20_000;

describe("of many hand-offs a consumer that sees its own doesn't read the others'", { skip: !opened }, () => {
  const { replicas, stop } = opened as TestDatabase;
  const [database] = replicas;
  const table = new HandoffsTable(database);
  const own = { consumerId: 'con_test00none' };

  before(async () => {
    await database.execute(`
      insert into handoffs (external_id, type, status, consumer_id, request_id, trip_id, may_exist, fence, lease_until, due_at,
        accepted_at, completed_at)
      select gen_random_uuid(), 'quote', 'created', 'con_' || n % 50, 'r', gen_random_uuid(), false, 1, now(), now(), now(), now()
      from generate_series(1, ${stored}) as n`);
    await database.execute('analyze handoffs');
  });
  after(() => stop());

  const list = (more: object) => table.list({ readable: { quote: own, booking: own }, limit: 50, ...more });
  const statements: Record<string, () => Promise<unknown>> = {
    'in a list': () => list({}),
    'in a list of what is open': () => list({ isOpen: true }),
    'in a list by status': () => list({ status: 'created' }),
    'when it is emptied': () => table.forget(own.consumerId, 0),
  };
  for (const [name, run] of Object.entries(statements))
    test(name, async () => {
      const before = await rowsReadIn(database, 'handoffs');
      await run();
      const read = (await rowsReadIn(database, 'handoffs')) - before;
      assert.ok(read < 100, `${read} rows were read`);
    });
});
