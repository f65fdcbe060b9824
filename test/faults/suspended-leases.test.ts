import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { worldMembers } from '../../src/features/test-mode/world-members.ts';
import { type DiningPartner, partnerCredentials, startOwnPartner } from '../support/dining-partner.ts';
import { eventually } from '../support/eventually.ts';
import type { Credentials } from '../support/gateway.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { offerFor, respondAsync } from '../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { holdingsOf, newReservation } from '../support/reservations.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

/** Longer than an owner may work on a row. */
const stoppedMs = 26_000;
const deliveryLocks = ['handoff-delivery', 'test-handoff-delivery'];

describe('a process that is stopped before it knows what it has leased', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  const opened = new AsyncDisposableStack();
  let ownOrg: OwnOrg;
  let partner: DiningPartner;
  let proxy: TcpProxy;
  let database: Client;
  let common: NodeJS.ProcessEnv;
  let stopped: GatewayProcess;
  let other: GatewayProcess;
  let credentials: { console: Credentials; admin: Credentials };

  before(async () => {
    const url = postgres?.url as string;
    ownOrg = await startOwnOrg();
    opened.defer(() => ownOrg.close());
    const own = await startOwnPartner();
    opened.defer(() => own.close());
    partner = own.partner;
    proxy = await startTcpProxy(url);
    opened.defer(() => proxy.close());
    database = new Client({ connectionString: url });
    await database.connect();
    opened.defer(() => database.end());
    common = { DINING_BASE_URL: partner.url, DINING_USERNAME: partnerCredentials.username };
    const first = await install({ DATABASE_URL: proxy.url });
    const secretsDir = join(first.dataDir, 'secrets');
    const password = join(secretsDir, 'dining/dev/password');
    await mkdir(dirname(password), { recursive: true, mode: 0o700 });
    await writeFile(password, partnerCredentials.password, { mode: 0o600 });
    stopped = await first.start();
    credentials = await first.credentials();
    common = { ...common, SECRETS_DIR: secretsDir };
  });
  after(() => opened.disposeAsync());

  const install = async (env: NodeJS.ProcessEnv): Promise<Installation> => {
    const installation = await createInstallation({ ...common, ...env }, ownOrg);
    opened.defer(() => installation.remove());
    return installation;
  };

  interface Sent {
    as?: Credentials;
    body?: object;
    headers?: Record<string, string>;
  }
  const send = async (to: GatewayProcess, method: string, path: string, sent: Sent = {}) => {
    const { as = credentials.console, body, headers } = sent;
    const response = await fetch(to.url + path, {
      method,
      headers: {
        ...{ 'x-api-key': as.apiKey, 'x-api-secret': as.apiSecret, 'idempotency-key': randomUUID() },
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      body: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>,
    };
  };
  const handOff = async (body: object, as = credentials.console) => {
    const accepted = await send(stopped, 'POST', '/api/v1/handoff', { as, body, headers: respondAsync });
    assert.equal(accepted.status, 202, JSON.stringify(accepted.body));
    return accepted.body['external_id'] as string;
  };
  const untilHandoff = async (id: string, status: string) => {
    await eventually(
      async () => assert.equal((await send(other, 'GET', `/v1/handoffs/${id}`)).body['status'], status),
      { everyMs: 50 },
    );
  };
  const count = async (text: string, values: unknown[] = []) =>
    Number((await database.query<{ count: string }>(text, values)).rows[0]?.count);
  /** As time would. */
  const endLease = (id: string) =>
    database.query('update handoffs set lease_until = now() where external_id = $1', [id]);

  /** Nobody delivers or drives anything yet. */
  const holdWork = async () => {
    for (const name of deliveryLocks)
      await database.query(
        `insert into locks (name, owner, fence, held_until) values ($1, gen_random_uuid(), 1, now() + interval '1 hour')
         on conflict (name) do update set owner = excluded.owner, held_until = excluded.held_until`,
        [name],
      );
  };
  /** Has the process lease all that waits, and stops it while the answers are on their way. */
  const stopWhileLeasing = async (handoffs: number) => {
    const holds = [
      { hold: proxy.holdAnswers('with recursive consumers'), hits: 2 * deliveryLocks.length },
      { hold: proxy.holdAnswers('update "reservations" as "p"'), hits: 1 },
    ];
    await database.query('update reservations set next_attempt_at = now() where lease_until <= now()');
    await database.query('update locks set held_until = now() where name = any($1)', [deliveryLocks]);
    await Promise.all(holds.map(({ hold, hits }) => hold.hit(hits)));
    const isLeased = "lease_until > now() + interval '20 seconds'";
    const leased = await Promise.all([
      count(`select count(*) from handoffs where ${isLeased}`),
      count(`select count(*) from reservations where ${isLeased}`),
    ]);
    stopped.signal('SIGSTOP');
    assert.deepEqual(leased, [handoffs, 1]);
    const stoppedAt = performance.now();
    for (const { hold } of holds) hold.release();
    return () => sleep(Math.max(0, stoppedAt + stoppedMs - performance.now()));
  };

  test('does nothing when it goes on that another one has finished or undone meanwhile', async () => {
    const made = await send(stopped, 'POST', '/v1/admin/consumers', {
      as: credentials.admin,
      body: {
        ...{ name: 'tester', mode: 'test' },
        permissions: [{ resource: 'quotes', actions: ['read', 'write', 'delete'] }],
      },
    });
    const tester = made.body as unknown as Credentials;
    const away = await partner.arm({
      match: { operation: 'CreateBooking' },
      effect: { kind: 'error', status: 503 },
    });
    const reservation = newReservation(ownOrg.org.memberId);
    const key = { 'idempotency-key': randomUUID() };
    const unfinished = await send(stopped, 'POST', '/v1/reservations', { body: reservation, headers: key });
    await database.query("update reservations set next_attempt_at = now() + interval '1 hour'");
    assert.equal(unfinished.status, 503, JSON.stringify(unfinished.body));
    await away.remove();

    await holdWork();
    const quote = offerFor(ownOrg.org.memberId);
    const booking = offerFor(ownOrg.org.memberId, { type: 'booking' });
    const delivered = await handOff(quote);
    const cancelled = await handOff(booking);
    await handOff(offerFor(worldMembers[0]?.['id'] ?? ''), tester);
    const untilLeasesAreOver = await stopWhileLeasing(3);

    other = await (await install({ DATABASE_URL: postgres?.url })).start();
    assert.equal((await send(other, 'DELETE', `/v1/handoffs/${cancelled}`)).status, 204);
    await database.query(
      "update handoffs set completed_at = completed_at - interval '3 minutes' where external_id = $1",
      [cancelled],
    );
    const full = await partner.arm({
      match: { operation: 'CreateBooking' },
      effect: { kind: 'failure', cause: 'SLOT_UNAVAILABLE' },
    });
    await database.query('update locks set held_until = now() where name = any($1)', [deliveryLocks]);
    await database.query('update reservations set lease_until = now()');
    await database.query('update idempotency_claims set lease_until = now()');
    for (const id of [delivered, cancelled]) await endLease(id);

    let refused = await send(other, 'POST', '/v1/reservations', { body: reservation, headers: key });
    for (; refused.status === 409; await sleep(50))
      refused = await send(other, 'POST', '/v1/reservations', { body: reservation, headers: key });
    assert.equal(refused.status, 422, JSON.stringify(refused.body));
    await full.remove();
    await untilHandoff(delivered, 'created');
    assert.equal((await send(other, 'DELETE', `/v1/quotes/${delivered}`)).status, 204);
    await eventually(
      async () =>
        assert.ok(
          (await count('select count(*) from handoffs where external_id = $1 and may_exist', [cancelled])) <=
            0,
        ),
      { everyMs: 50 },
    );
    // It waits until the lease of the test consumer's hand-off is over.
    assert.equal((await send(other, 'POST', '/v1/test/reset', { as: tester })).status, 204);
    await untilLeasesAreOver();

    stopped.signal('SIGCONT');
    // What it has begun is done when it ends.
    stopped.signal('SIGTERM');
    assert.deepEqual(await stopped.ended, { code: 0, signal: null });
    const recordsOf = async (object: string, { trip_id }: { trip_id: string }) =>
      (await ownOrg.org.records(object, { Trip_Id__c: trip_id })).length;
    const { bookings, tables } = await holdingsOf({ org: ownOrg.org, partner }, reservation);
    assert.deepEqual(
      {
        reservation: [bookings, tables],
        delivered: await recordsOf('Quote__c', quote),
        cancelled: await recordsOf('Booking__c', booking),
        emptied: await count('select count(*) from test_records'),
      },
      { reservation: [[], []], delivered: 0, cancelled: 0, emptied: 0 },
    );
    assert.equal((await send(other, 'GET', `/v1/handoffs/${cancelled}`)).body['status'], 'cancelled');
  });
});
