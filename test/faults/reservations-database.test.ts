import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { type PostgresDatabase, startPostgres } from '../support/postgres.ts';
import { assertProblem } from '../support/problems.ts';
import { holdingsOf, newReservation } from '../support/reservations.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('reservations, when the database goes away', { skip: !postgres && 'no PostgreSQL' }, () => {
  let database: TcpProxy;
  let gateway: TestGateway;

  before(async () => {
    database = await startTcpProxy((postgres as PostgresDatabase).url);
    gateway = await startGateway({ DATABASE_URL: database.url });
  });
  after(async () => {
    await gateway.stop();
    await database.close();
  });

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
    assert.match(problem.detail, /is not known/);
    await database.restore();
    // Nobody could give the lease back: it has to run out.
    let repeat = await send(body, key);
    while (repeat.status !== 201) {
      assert.ok([409, 503].includes(repeat.status), await repeat.text());
      await sleep(500);
      repeat = await send(body, key);
    }
    assert.deepEqual(await holdingsOf(systems(), body), { bookings: ['confirmed'], tables: ['CONFIRMED'] });
  });
});
