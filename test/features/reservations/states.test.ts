import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { createHousekeeping } from '../../../src/api/idempotency/housekeeping.ts';
import { createReconcile } from '../../../src/api/pipeline/run-route.ts';
import type { CursorCodec } from '../../../src/api/routes/page.ts';
import { PlansTable } from '../../../src/features/reservations/plans-table.ts';
import {
  type ReservationParts,
  reservationRoutes,
} from '../../../src/features/reservations/routes/reservations.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { databaseKinds } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';
import { Harness, type Result } from './harness.ts';
import type { Outcome } from './memory-systems.ts';

for (const name of Object.keys(databaseKinds)) {
  describe(`reservations on ${name}`, () => {
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

    /** These calls end like this, once each, in this order; all others work. */
    const setOutcomes = (...planned: [call: string, outcome: Outcome][]) => {
      harness.systems.outcomeOf = (call) => {
        const index = planned.findIndex(([wanted]) => wanted === call);
        return index < 0 ? 'works' : (planned.splice(index, 1)[0]?.[1] ?? 'works');
      };
    };
    const parse = (result: Result) => {
      assert.ok('body' in result, JSON.stringify(result));
      return { status: result.status, body: result.body === '' ? undefined : JSON.parse(result.body) };
    };
    const only = async () => {
      const [plan, ...others] = await harness.plans();
      assert.equal(others.length, 0);
      assert.ok(plan);
      return plan;
    };
    const bookings = () => [...harness.systems.bookings.values()].map(({ status }) => status);
    const tables = () => [...harness.systems.tables.values()].map(({ status }) => status);
    const made = async () => {
      const { body } = parse(await harness.create(randomUUID(), harness.order()));
      return (body as { id: string }).id;
    };

    behaves('confirmed: table and booking exist, and the booking names the table', async () => {
      const { status, body } = parse(await harness.create(randomUUID(), harness.order()));
      assert.equal(status, 201);
      const { id } = body;
      const reference = [...harness.systems.tables.values()][0]?.reference;
      assert.partialDeepStrictEqual(body, {
        status: 'confirmed',
        booking: { id, status: 'confirmed' },
        dining: { partner: 'dining', booking_id: reference, status: 'confirmed', party_size: 4 },
      });
      const booking = harness.systems.bookings.get(id);
      assert.equal(booking?.['status'], 'confirmed');
      assert.ok(booking['details']?.endsWith(',"details":{"n":1.10}}'));
      assert.equal(JSON.parse(booking['details'] ?? '').dining.booking_id, reference);
      assert.deepEqual(harness.systems.calls, [
        'crm.find member',
        'crm.create',
        'dining.create',
        'crm.find booking',
        'crm.update',
      ]);
      assert.deepEqual(await harness.events(), [
        ['reservation.confirmed', 'confirmed', 'confirmed', 'confirmed'],
      ]);
    });

    behaves('a repeat gets the stored answer', async () => {
      const [key, order] = [randomUUID(), harness.order()];
      const first = await harness.create(key, order);
      const again = await harness.create(key, order);
      assert.deepEqual(again, { ...first, replayed: true });
      assert.deepEqual(tables(), ['confirmed']);
    });

    behaves('a refusal at the table leaves nothing, and the answer has its cause', async () => {
      setOutcomes(['dining.create', 'refused']);
      const key = randomUUID();
      const order = harness.order();
      const { status, body } = parse(await harness.create(key, order));
      assert.equal(status, 422);
      assert.partialDeepStrictEqual(body, {
        code: 'partner_rejected',
        cause: 'SLOT_UNAVAILABLE',
        request_id: 'request-1',
      });
      assert.deepEqual([bookings(), tables()], [[], []]);
      assert.deepEqual(parse(await harness.create(key, order)), { status, body });
      const plan = await only();
      assert.equal(plan.state, 'refused');
      assert.equal(await harness.reservations.holds(plan.id, startCall('request-4')), false);
      assert.deepEqual(await harness.events(), []);
    });

    behaves('a booking that a call makes after it was undone is deleted, and all else stays', async () => {
      setOutcomes(['dining.create', 'refused']);
      await harness.create(randomUUID(), harness.order());
      const undone = await only();
      assert.equal(await harness.runJob(), false);
      harness.systems.bookings.set(undone.id, { status: 'pending' });
      await harness.passTime();
      setOutcomes(['crm.find booking', 'fails']);
      assert.equal(await harness.runJob(), true);
      assert.equal(bookings().length, 1);
      await harness.passTime();
      assert.equal(await harness.runJob(), true);
      assert.deepEqual(bookings(), []);
      const { state, updatedAt } = await only();
      assert.deepEqual([state, updatedAt], ['refused', undone.updatedAt]);
      await harness.passTime();
      assert.equal(await harness.runJob(), false);
      assert.deepEqual(await harness.events(), []);
    });

    behaves('a booking that a lost call makes after its repeat was refused is deleted', async () => {
      setOutcomes(['crm.create', 'refused']);
      const { status } = parse(await harness.create(randomUUID(), harness.order()));
      assert.equal(status, 422);
      const refused = await only();
      assert.equal(refused.state, 'refused');
      harness.systems.bookings.set(refused.id, { status: 'pending' });
      assert.equal(await harness.runJob(), false);
      await harness.passTime();
      assert.equal(await harness.runJob(), true);
      assert.deepEqual(bookings(), []);
      await harness.passTime();
      assert.equal(await harness.runJob(), false);
      assert.deepEqual(await harness.events(), []);
    });

    behaves('an unknown member is refused before anything is made', async () => {
      const { status, body } = parse(
        await harness.create(randomUUID(), harness.order({ memberId: randomUUID() })),
      );
      assert.deepEqual([status, body.code], [422, 'member_not_found']);
      await harness.passTime();
      assert.equal(await harness.runJob(), false);
      assert.deepEqual(harness.systems.calls, ['crm.find member']);
    });

    behaves('where the CRM does not answer at first, nothing is made and the key stays good', async () => {
      setOutcomes(['crm.create', 'fails']);
      const [key, order] = [randomUUID(), harness.order()];
      assert.deepEqual(await harness.create(key, order), { problem: 'crm_unavailable', unknown: false });
      assert.deepEqual(await harness.plans(), []);
      assert.equal(parse(await harness.create(key, order)).status, 201);
    });

    for (const lost of ['answerLost', 'callLost'] as const) {
      for (const call of ['crm.create', 'dining.create', 'crm.update']) {
        behaves(`${call}, ${lost}: the repeat goes on`, async () => {
          setOutcomes([call, lost]);
          const [key, order] = [randomUUID(), harness.order()];
          const first = await harness.create(key, order);
          assert.ok('unknown' in first && first.unknown);
          assert.equal(parse(await harness.create(key, order)).body.status, 'confirmed');
          assert.deepEqual([bookings(), tables()], [['confirmed'], ['confirmed']]);
        });

        behaves(`${call}, ${lost}: the job goes on, and the repeat gets its answer`, async () => {
          setOutcomes([call, lost]);
          const [key, order] = [randomUUID(), harness.order()];
          await harness.create(key, order);
          await harness.passTime();
          assert.equal(await harness.runJob(), true);
          const again = await harness.create(key, order);
          assert.ok('replayed' in again && again.replayed);
          assert.equal(parse(again).body.status, 'confirmed');
          assert.deepEqual([bookings(), tables()], [['confirmed'], ['confirmed']]);
        });
      }
    }

    behaves('after a lost answer a refusal is not taken for final', async () => {
      setOutcomes(['dining.create', 'answerLost'], ['dining.create', 'refused']);
      const [key, order] = [randomUUID(), harness.order()];
      await harness.create(key, order);
      assert.equal(parse(await harness.create(key, order)).body.status, 'confirmed');
      assert.deepEqual([bookings(), tables()], [['confirmed'], ['confirmed']]);
    });

    behaves('a table that another reservation has is a refusal', async () => {
      harness.systems.dining.create = async () => ({ reference: 'T-1', status: 'confirmed' });
      await made();
      const { status, body } = parse(await harness.create(randomUUID(), harness.order()));
      assert.deepEqual([status, body.cause], [422, 'SLOT_ALREADY_BOOKED_BY_USER']);
      assert.deepEqual(bookings(), ['confirmed']);
    });

    behaves('of two that wait to hear of one table the older one takes it', async () => {
      harness.systems.outcomeOf = (call) => (call === 'dining.create' ? 'callLost' : 'works');
      for (let i = 0; i < 2; i++) await harness.create(randomUUID(), harness.order());
      const [older, younger] = (await harness.plans()).map(({ id }) => id);
      const isOthers = (id = '') => new PlansTable(harness.database).isOthersTable('T-1', id);
      await assert.rejects(isOthers(older), { code: 'partner_error', facts: { outcomeUnknown: true } });
      // The double of the partner that test consumers have gives away other tables.
      const setOwner = (id: string) =>
        harness.database.execute(`update reservations set consumer_id = $1 where id = $2`, [id, younger]);
      await setOwner('con_test000000000001');
      assert.equal(await isOthers(older), false);
      await setOwner('con_test');
      await harness.passTime();
      while (await harness.runJob());
      assert.equal(await isOthers(older), false);
      await assert.rejects(isOthers(younger));
    });

    behaves('an undo that the CRM refuses needs attention, and is done once the CRM lets us', async () => {
      setOutcomes(['dining.create', 'refused'], ['crm.remove', 'refused']);
      const { status, body } = parse(await harness.create(randomUUID(), harness.order()));
      assert.deepEqual([status, body.code, body.cause], [422, 'partner_rejected', 'SLOT_UNAVAILABLE']);
      const plan = await only();
      assert.deepEqual([plan.status, plan.state], ['needs_attention', 'undoing']);
      assert.match(plan.attention ?? '', /CRM booking can't be deleted: It is locked/);
      assert.ok(
        harness.logLines.some(({ level, facts }) => level === 'error' && facts['reservation_id'] === plan.id),
      );
      assert.equal(await harness.runJob(), false);
      await harness.passTime();
      await harness.runJob();
      assert.equal((await only()).status, 'failed');
      assert.deepEqual(bookings(), []);
      assert.deepEqual(await harness.events(), [
        ['reservation.needs_attention', 'needs_attention', 'pending', null],
        ['reservation.failed', 'failed', null, null],
      ]);
    });

    behaves(
      'an outcome that the CRM refuses needs attention, and is written once the CRM lets us',
      async () => {
        setOutcomes(['crm.update', 'refused'], ['crm.update', 'refused']);
        const { status, body } = parse(await harness.create(randomUUID(), harness.order()));
        assert.deepEqual([status, body.status], [201, 'needs_attention']);
        await harness.passTime();
        await harness.runJob();
        assert.equal((await only()).status, 'needs_attention');
        await harness.passTime();
        await harness.runJob();
        assert.equal((await only()).status, 'confirmed');
        assert.deepEqual(bookings(), ['confirmed']);
        assert.deepEqual(await harness.events(), [
          ['reservation.needs_attention', 'needs_attention', 'pending', 'confirmed'],
          ['reservation.confirmed', 'confirmed', 'confirmed', 'confirmed'],
        ]);
      },
    );

    behaves('a booking that somebody deleted meanwhile is made again', async () => {
      setOutcomes(['dining.create', 'answerLost']);
      const [key, order] = [randomUUID(), harness.order()];
      await harness.create(key, order);
      harness.systems.bookings.clear();
      assert.equal(parse(await harness.create(key, order)).body.status, 'confirmed');
      assert.deepEqual([bookings(), tables()], [['confirmed'], ['confirmed']]);
    });

    behaves('a member that is gone when the booking may exist: the booking is taken back', async () => {
      setOutcomes(['crm.create', 'answerLost']);
      const [key, order] = [randomUUID(), harness.order()];
      await harness.create(key, order);
      assert.deepEqual(bookings(), ['pending']);
      harness.systems.memberId = randomUUID();
      const { status, body } = parse(await harness.create(key, order));
      assert.deepEqual([status, body.code], [422, 'member_not_found']);
      assert.deepEqual(bookings(), []);
    });

    for (const decision of ['confirmed', 'failed', 'cancelled'] as const) {
      behaves(`a partner that decides later: ${decision}`, async () => {
        harness.systems.decision = 'pending';
        const { status, body } = parse(await harness.create(randomUUID(), harness.order()));
        assert.deepEqual([status, body.status, body.dining.status], [201, 'pending', 'pending']);
        assert.deepEqual(bookings(), ['pending']);
        await harness.passTime();
        await harness.runJob();
        assert.equal((await only()).status, 'pending');
        const table = [...harness.systems.tables.values()][0];
        assert.ok(table);
        table.status = decision;
        await harness.passTime();
        await harness.runJob();
        assert.equal((await only()).status, decision === 'confirmed' ? 'confirmed' : 'failed');
        assert.deepEqual(bookings(), decision === 'confirmed' ? ['confirmed'] : []);
        const types = (await harness.events()).map(([type]) => type);
        assert.deepEqual(types, [decision === 'confirmed' ? 'reservation.confirmed' : 'reservation.failed']);
      });
    }

    behaves('a cancellation cancels both, and stays readable', async () => {
      const id = await made();
      const key = randomUUID();
      assert.deepEqual(parse(await harness.cancel(key, id)), { status: 204, body: undefined });
      assert.deepEqual([bookings(), tables()], [['cancelled'], ['cancelled']]);
      assert.equal((await only()).status, 'cancelled');
      const again = await harness.cancel(key, id);
      assert.ok('replayed' in again && again.replayed);
      assert.equal(parse(await harness.cancel(randomUUID(), id)).status, 204);
      assert.deepEqual(await harness.events(), [
        ['reservation.confirmed', 'confirmed', 'confirmed', 'confirmed'],
        ['reservation.cancelled', 'cancelled', 'cancelled', 'cancelled'],
      ]);
    });

    behaves('a cancellation that the partner refuses changes nothing', async () => {
      const id = await made();
      setOutcomes(['dining.cancel', 'refused']);
      const { status, body } = parse(await harness.cancel(randomUUID(), id));
      assert.deepEqual([status, body.code, body.request_id], [409, 'conflict', 'request-2']);
      assert.deepEqual(
        [bookings(), tables(), (await only()).status],
        [['confirmed'], ['confirmed'], 'confirmed'],
      );
      assert.equal(parse(await harness.cancel(randomUUID(), id)).status, 204);
    });

    for (const call of ['dining.cancel', 'crm.update']) {
      behaves(`a cancellation whose ${call} is lost goes on`, async () => {
        const id = await made();
        setOutcomes([call, 'answerLost']);
        const key = randomUUID();
        const first = await harness.cancel(key, id);
        assert.ok('unknown' in first && first.unknown);
        const other = parse(await harness.cancel(randomUUID(), id));
        assert.deepEqual([other.status, other.body.code], [409, 'conflict']);
        assert.equal(parse(await harness.cancel(key, id)).status, 204);
        assert.deepEqual([bookings(), tables()], [['cancelled'], ['cancelled']]);
      });
    }

    behaves('what cannot be cancelled', async () => {
      assert.equal(parse(await harness.cancel(randomUUID(), randomUUID())).status, 404);
      setOutcomes(['dining.create', 'refused'], ['dining.create', 'answerLost']);
      await harness.create(randomUUID(), harness.order());
      assert.equal(parse(await harness.cancel(randomUUID(), (await only()).id)).status, 404);
    });

    behaves('a reservation that is being made is not cancelled', async () => {
      setOutcomes(['dining.create', 'answerLost']);
      await harness.create(randomUUID(), harness.order());
      const { status, body } = parse(await harness.cancel(randomUUID(), (await only()).id));
      assert.deepEqual([status, body.code], [409, 'conflict']);
    });

    behaves('a repeat waits while somebody drives', async () => {
      const held = Promise.withResolvers<Outcome>();
      const reached = Promise.withResolvers<void>();
      harness.systems.outcomeOf = (call) => {
        if (call !== 'dining.create') return 'works';
        reached.resolve();
        return held.promise;
      };
      const [key, order] = [randomUUID(), harness.order()];
      const first = harness.create(key, order);
      await reached.promise;
      assert.deepEqual(await harness.create(key, order), {
        problem: 'idempotency_in_progress',
        unknown: false,
      });
      // Its claim may be taken over, and its plan still is not free.
      await harness.database.execute('update idempotency_claims set lease_until = now()');
      assert.deepEqual(await harness.create(key, order), {
        problem: 'idempotency_in_progress',
        unknown: false,
      });
      held.resolve('works');
      assert.equal(parse(await first).status, 201);
      assert.equal(parse(await harness.create(key, order)).status, 201);
      assert.deepEqual(tables(), ['confirmed']);
    });

    behaves('a key is kept until its plan is finished', async () => {
      const { database, reservations } = harness;
      const routes = reservationRoutes({ reservations } as ReservationParts, {} as CursorCodec);
      const reconcile = createReconcile(routes);
      const { log } = recordLog();
      const housekeeping = createHousekeeping({ database, log, retentionHours: 24, reconcile });
      const clearAfterADay = async (operation: string) => {
        await database.execute(
          `update idempotency_claims set operation = '${operation}', last_attempt_at = now() - interval '25 hours'`,
        );
        return housekeeping.unfinished(new AbortController().signal);
      };
      setOutcomes(['dining.create', 'answerLost'], ['dining.cancel', 'answerLost']);
      const [key, order, cancelKey] = [randomUUID(), harness.order(), randomUUID()];
      await harness.create(key, order);
      await assert.rejects(clearAfterADay('createReservation'));
      await harness.passTime();
      await harness.runJob();
      assert.partialDeepStrictEqual(await harness.create(key, order), { status: 201, replayed: true });
      const { id } = await only();
      await harness.cancel(cancelKey, id);
      await assert.rejects(clearAfterADay('cancelReservation'));
      await harness.passTime();
      await harness.runJob();
      assert.partialDeepStrictEqual(await harness.cancel(cancelKey, id), { status: 204, replayed: true });
    });

    behaves('a driver that was replaced changes nothing', async () => {
      const held = Promise.withResolvers<Outcome>();
      const reached = Promise.withResolvers<void>();
      let first = true;
      harness.systems.outcomeOf = (call) => {
        if (call !== 'dining.create' || !first) return 'works';
        first = false;
        reached.resolve();
        return held.promise;
      };
      const [key, order] = [randomUUID(), harness.order()];
      const slow = harness.create(key, order);
      await reached.promise;
      await harness.passTime();
      await harness.runJob();
      const confirmed = await only();
      held.resolve('refused');
      assert.deepEqual(await slow, { problem: 'idempotency_in_progress', unknown: false });
      assert.deepEqual(await only(), confirmed);
      assert.deepEqual([bookings(), tables(), confirmed.status], [['confirmed'], ['confirmed'], 'confirmed']);
      assert.equal(parse(await harness.create(key, order)).status, 201);
    });

    behaves('reads say what is gone, and what cannot be asked', async () => {
      const id = await made();
      const read = async () => {
        const view = await harness.reservations.read(id, startCall('request-3'));
        return [view?.status, view?.booking.status, view?.dining.status];
      };
      assert.deepEqual(await read(), ['confirmed', 'confirmed', 'confirmed']);
      setOutcomes(['crm.find booking', 'fails']);
      assert.deepEqual(await read(), ['confirmed', 'unknown', 'confirmed']);
      setOutcomes(['dining.retrieve', 'callLost']);
      assert.deepEqual(await read(), ['confirmed', 'confirmed', 'unknown']);
      harness.systems.bookings.clear();
      assert.deepEqual(await read(), ['needs_attention', null, 'confirmed']);
    });

    behaves(
      "the booking of a refused one is looked for late, also if the database's answer is lost",
      async () => {
        const { database } = harness;
        const transaction = () => ({
          async execute(work: (transaction: typeof database.sql) => Promise<unknown>) {
            await database.sql.transaction().execute(work);
            throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
          },
        });
        const sql = database.sql.withoutPlugins();
        Object.defineProperty(sql, 'transaction', { value: transaction });
        harness.reservations = harness.replica({ ...database, sql });
        setOutcomes(['dining.create', 'refused']);
        assert.deepEqual(await harness.create(randomUUID(), harness.order()), {
          problem: 'store_unavailable',
          unknown: true,
        });
        assert.equal((await only()).state, 'refused');
        const { rows } = await database.execute(
          "select from reservations where next_attempt_at > now() + interval '1 minute'",
        );
        assert.equal(rows.length, 1);
      },
    );

    behaves('refused reservations are forgotten with their answers', async () => {
      setOutcomes(['dining.create', 'refused']);
      await harness.create(randomUUID(), harness.order());
      await new PlansTable(harness.database).clearRefused(24);
      assert.equal((await harness.plans()).length, 1);
      await harness.database.execute("update reservations set updated_at = now() - interval '25 hours'");
      await new PlansTable(harness.database).clearRefused(24);
      assert.equal((await harness.plans()).length, 1, 'its booking is still to be looked for');
      await harness.passTime();
      await harness.runJob();
      await new PlansTable(harness.database).clearRefused(24);
      assert.equal((await harness.plans()).length, 0);
    });
  });
}
