import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { holdingsOf, newReservation } from '../../../support/reservations.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';

const postgres = await usePostgres();

describe('reservations, when the database becomes unavailable', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let database: TcpProxy;
  let gateway: TestGateway;
  const client = new Client({ connectionString: postgres?.url });

  before(async () => {
    await client.connect();
    database = await startTcpProxy((postgres as PostgresDatabase).url);
    gateway = await startGateway({ DATABASE_URL: database.url });
  });
  after(async () => {
    await gateway.stop();
    await database.close();
    await client.end();
  });

  /** Has the database end the statement that moves a plan from this state as one that took too long. */
  const failMovesFrom = async (state: string) => {
    await client.query(`
      create or replace function fail_move() returns trigger language plpgsql as $$
        begin raise query_canceled using message = 'canceling statement due to statement timeout'; end $$;
      create trigger fail_move before update on reservations for each row
        when (old.state = '${state}' and new.state <> old.state) execute function fail_move()`);
    return () => client.query('drop trigger fail_move on reservations');
  };
  const stateOf = async (tripId: unknown) => {
    const found = await client.query<{ state: string }>(
      "select state from reservations where ordered ->> 'tripId' = $1",
      [tripId],
    );
    return found.rows.map(({ state }) => state);
  };

  const keyed = (key: string = randomUUID()) => ({ 'idempotency-key': key });
  const systems = () => ({ org: gateway.org, partner: gateway.diningPartner });
  const send = (body: object, key: string) =>
    gateway.request('/v1/reservations', { body, headers: keyed(key) });

  test('nothing is called that could not be remembered', async () => {
    const body = newReservation(gateway.org.memberId);
    const made = (await (await send(body, randomUUID())).json()) as { id: string };
    const path = `/v1/reservations/${made.id}`;
    await database.cut();
    const wanted = newReservation(gateway.org.memberId);
    const responses = [
      await send(wanted, randomUUID()),
      await gateway.request(path),
      await gateway.request(path, { method: 'DELETE', headers: keyed() }),
    ];
    await database.restore();
    for (const response of responses) await assertProblem(response, 503, 'store_unavailable');
    assert.deepEqual(await holdingsOf(systems(), wanted), { bookings: [], tables: [] });
    assert.deepEqual(await holdingsOf(systems(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
  });

  test('what was under way is finished when it is back', async () => {
    const body = newReservation(gateway.org.memberId);
    const key = randomUUID();
    const hold = await gateway.diningPartner.arm({
      match: { operation: 'CreateBooking' },
      effect: { kind: 'hold' },
      times: 1,
    });
    const first = send(body, key);
    await hold.hit();
    await database.cut();
    await hold.release();
    const problem = await assertProblem(await first, 503, 'store_unavailable');
    assert.match(problem.detail, /unknown whether/);
    await database.restore();
    // Nobody could give the lease back: it has to run out.
    await eventually(async () => assert.equal((await send(body, key)).status, 201), { everyMs: 500 });
    assert.deepEqual(await holdingsOf(systems(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
  });

  for (const state of ['making_booking', 'booking_table', 'writing_outcome']) {
    test(`a step of ${state} that was made and could not be stored is finished by the job`, async () => {
      const body = newReservation(gateway.org.memberId);
      const key = randomUUID();
      const restore = await failMovesFrom(state);
      const problem = await assertProblem(await send(body, key), 503, 'store_unavailable');
      assert.match(problem.detail, /unknown whether/);
      assert.deepEqual(await stateOf(body['trip_id']), [state]);
      await restore();
      await eventually(async () => assert.equal((await stateOf(body['trip_id']))[0], 'confirmed'), {
        everyMs: 100,
      });
      const repeat = await send(body, key);
      assert.equal(repeat.status, 201);
      assert.equal(repeat.headers.get('idempotent-replayed'), 'true');
      assert.deepEqual(await holdingsOf(systems(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
    });
  }

  for (const state of ['cancelling_table', 'writing_cancellation']) {
    test(`a cancellation whose ${state} could not be stored is finished by the job`, async () => {
      const body = newReservation(gateway.org.memberId);
      const { id } = (await (await send(body, randomUUID())).json()) as { id: string };
      const headers = keyed();
      const cancel = () => gateway.request(`/v1/reservations/${id}`, { method: 'DELETE', headers });
      const restore = await failMovesFrom(state);
      const problem = await assertProblem(await cancel(), 503, 'store_unavailable');
      assert.match(problem.detail, /unknown whether/);
      await restore();
      await eventually(async () => assert.equal((await stateOf(body['trip_id']))[0], 'cancelled'), {
        everyMs: 100,
      });
      assert.equal((await cancel()).status, 204);
      assert.deepEqual(await holdingsOf(systems(), body), { bookings: ['cancelled'], tables: ['CANCELED'] });
    });
  }

  test('a plan that was stored without an answer is carried out, and no answer to its caller says otherwise', async () => {
    const body = newReservation(gateway.org.memberId);
    const key = randomUUID();
    const hold = database.holdAnswers('insert into reservations');
    const first = send(body, key);
    await hold.hit();
    hold.cut();
    const problem = await assertProblem(await first, 503, 'store_unavailable');
    assert.match(problem.detail, /unknown whether/);
    // As time would: nobody could give the lease back.
    await client.query('update reservations set lease_until = now()');
    await eventually(async () => assert.equal((await stateOf(body['trip_id']))[0], 'confirmed'), {
      everyMs: 100,
    });
    assert.equal((await send(body, key)).status, 201);
    assert.deepEqual(await holdingsOf(systems(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
  });
});
