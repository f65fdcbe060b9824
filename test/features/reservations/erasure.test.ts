import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { PlansTable } from '../../../src/features/reservations/plans-table.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { databaseKinds } from '../../support/databases.ts';
import { Harness } from './harness.ts';

const daysAgo = (days: number) =>
  new Date(Math.floor(Date.now() / 1000 - days * 86_400) * 1000).toISOString();
/** What the world's orders hold of a person; the number by its name, since times have such digits too. */
const personal = /Inés|Marín|ines@|12025550143|Casa Olivo|casa-olivo|n\\*": ?1\.10/;

for (const name of Object.keys(databaseKinds)) {
  describe(`erasing reservations on ${name}`, () => {
    let harness: Harness;
    let skipped = false;

    before(async () => {
      const opened = await Harness.open(name);
      if (opened) harness = opened;
      else skipped = true;
    });
    beforeEach(() => harness?.clear());
    after(() => harness?.close());

    const behaves = (what: string, body: () => Promise<void>) =>
      void test(what, async (context) => (skipped ? context.skip('there is no PostgreSQL') : body()));

    const made = async (startAt: string, durationMinutes = 90): Promise<string> => {
      const result = await harness.create(randomUUID(), harness.order({ startAt, durationMinutes }));
      assert.ok('body' in result);
      return (JSON.parse(result.body) as { id: string }).id;
    };
    const erase = (days: number) => new PlansTable(harness.database).eraseOlderThan(days);
    const stored = async (id: string) => {
      const { rows } = await harness.database.execute(
        `select to_jsonb(r) from reservations r where id = '${id}'`,
      );
      assert.equal(rows.length, 1);
      return JSON.stringify(rows);
    };
    const updateRefused = (call: string) => (call === 'crm.update' ? 'refused' : 'works');

    behaves('empties those whose time has been over for so long, and no others', async () => {
      const old = await made(daysAgo(3));
      const long = await made(daysAgo(3), 1440);
      const recent = await made(daysAgo(2));
      const ahead = await made(daysAgo(-2));
      assert.match(await stored(old), personal);
      assert.equal(await erase(2.5), 1);
      assert.equal(await erase(2.5), 0);
      assert.doesNotMatch(await stored(old), personal);
      for (const id of [long, recent, ahead]) assert.match(await stored(id), personal);
      assert.equal(await erase(1.99), 1);
      assert.match(await stored(recent), personal);
      assert.doesNotMatch(await stored(long), personal);
    });

    behaves('leaves one that is not finished', async () => {
      harness.systems.decision = 'pending';
      const undecided = await made(daysAgo(3));
      harness.systems.decision = 'confirmed';
      harness.systems.outcomeOf = updateRefused;
      const stuck = await made(daysAgo(3));
      assert.equal((await harness.plan(stuck))?.status, 'needs_attention');
      assert.equal(await erase(1), 0);
      for (const id of [undecided, stuck]) assert.match(await stored(id), personal);
    });

    behaves('leaves what reads show, and a cancellation that writes nothing empty to the CRM', async () => {
      const id = await made(daysAgo(3));
      const read = () => harness.reservations.read(id, startCall('request-4'));
      const before = await read();
      const details = harness.systems.bookings.get(id)?.['details'];
      assert.match(String(details), personal);
      assert.equal(await erase(1), 1);
      const { erased_at, ...rest } = (await read()) ?? {};
      assert.ok(Math.abs(Date.parse(String(erased_at)) - Date.now()) < 60_000);
      assert.deepEqual(rest, { ...before, name: '(erased)' });
      const cancelled = await harness.cancel(randomUUID(), id);
      assert.partialDeepStrictEqual(cancelled, { status: 204 });
      const tables = [...harness.systems.tables.values()].map(({ status }) => status);
      assert.deepEqual(tables, ['cancelled']);
      const booking = harness.systems.bookings.get(id);
      assert.deepEqual([booking?.['status'], booking?.['details']], ['cancelled', details]);
      assert.partialDeepStrictEqual(await read(), { status: 'cancelled', name: '(erased)', erased_at });
    });
  });
}
