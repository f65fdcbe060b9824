import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { databaseKinds } from '../../support/databases.ts';
import { lateAnswers } from '../../support/late-answers.ts';
import { Harness } from './harness.ts';

/** Longer than a lease. */
const stillMs = 31_000;

for (const kind of Object.keys(databaseKinds)) {
  describe(`a process that takes a reservation on ${kind} and stands still before it knows`, () => {
    let harness: Harness | undefined;
    before(async () => {
      harness = await Harness.open(kind);
    });
    beforeEach(() => harness?.clear());
    after(() => harness?.close());

    const on = (name: string, run: (harness: Harness) => Promise<void>): void => {
      void test(name, async (t) => (harness ? run(harness) : t.skip('there is no PostgreSQL')));
    };
    /** A reservation that has met this failure, taken by another process that goes on when it is told to. */
    const takenAfter = async (current: Harness, failing: string) => {
      const key = randomUUID();
      const order = current.order();
      current.systems.outcomeOf = (call) => (call === failing ? 'fails' : 'works');
      await current.create(key, order);
      current.systems.outcomeOf = () => 'works';
      await current.passTime();
      const stopped = current.replica(lateAnswers(current.database, 'skip locked', stillMs));
      const goOn = await stopped.takeDue();
      assert.ok(goOn);
      await current.passTime();
      return { key, order, goOn };
    };

    on('books no table that another process has given up', async (current) => {
      const { key, order, goOn } = await takenAfter(current, 'dining.create');
      current.systems.outcomeOf = (call) => (call === 'dining.create' ? 'refused' : 'works');
      const answer = await current.create(key, order);
      assert.equal('status' in answer && answer.status, 422);
      current.systems.outcomeOf = () => 'works';
      await goOn();
      assert.deepEqual([current.systems.tables.size, current.systems.bookings.size], [0, 0]);
    });

    on('confirms no booking of a reservation that was cancelled meanwhile', async (current) => {
      const { key, order, goOn } = await takenAfter(current, 'crm.update');
      const made = await current.create(key, order);
      assert.equal('status' in made && made.status, 201);
      const [plan] = await current.plans();
      const id = plan?.id ?? '';
      const cancelled = await current.cancel(randomUUID(), id);
      assert.equal('status' in cancelled && cancelled.status, 204);
      await goOn();
      assert.equal(current.systems.bookings.get(id)?.['status'], 'cancelled');
    });
  });
}
