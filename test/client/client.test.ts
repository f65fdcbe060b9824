import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { inspect } from 'node:util';
import {
  type Handoff,
  HandoffClient,
  HandoffProblem,
  JsonNumber,
  type JsonObject,
  type PrivateKeyJwk,
} from '../../client/src/index.ts';
import { version } from '../../client/src/version.ts';
import { generatedClientTypes } from '../../scripts/generate-openapi.ts';
import { makeKeys } from '../support/assertions.ts';
import { eventually } from '../support/eventually.ts';
import { useGateway } from '../support/gateway.ts';
import { newReservation } from '../support/reservations.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

test('the types are as the routes are (if not: npm run openapi)', () => {
  assert.equal(read('client/src/types.ts'), generatedClientTypes());
});

test('the version is the one of the package', () => {
  assert.equal(JSON.parse(read('client/package.json')).version, version);
});

describe('the client, against the service', () => {
  const gateway = useGateway();
  let client: HandoffClient;
  let memberId: string;

  before(async () => {
    memberId = gateway.org.memberId;
    client = new HandoffClient({ baseUrl: `${gateway.url}/`, ...gateway.console });
  });

  const offer = (details: JsonObject, trip_id = randomUUID()): Handoff => ({
    type: 'quote',
    trip_id,
    member_id: memberId,
    result: { name: 'Hotel Miramar', source: 'hotelbeds', details },
  });
  const quote = (trip_id = randomUUID()) => ({
    trip_id,
    member_id: memberId,
    name: 'Hotel Miramar',
    source: 'hotelbeds',
    details: {},
  });
  /** A fetch that loses the first answer after the service has given it, and keeps what was sent. */
  const losingFetch = (sent: Headers[]): typeof fetch => {
    return async (url, init) => {
      sent.push(new Headers(init?.headers));
      const response = await fetch(url, init);
      if (sent.length === 1) {
        await response.text();
        throw new TypeError('fetch failed');
      }
      return response;
    };
  };

  test('hands off, and reads the record back with every digit', async () => {
    const details = {
      net: new JsonNumber('0.1000000000000000055511151231257827'),
      id: 12345678901234567890n,
      tiny: new JsonNumber('1e-400'),
      usual: 612.4,
      text: '12345678901234567890 "1e-400"',
      deep: [{ n: new JsonNumber('9007199254740993') }],
    };
    const confirmed = await client.handOff(offer(details));
    assert.equal(confirmed.status, 'created');
    const record = await client.quotes.retrieve(confirmed.external_id);
    assert.deepEqual(record.details, { ...details, id: new JsonNumber('12345678901234567890') });
    // What was read can be sent as it is.
    const copy = await client.bookings.create({ ...quote(), details: record.details ?? {} });
    const [stored] = await gateway.org.records('Booking__c', { External_Id__c: copy.id });
    assert.equal(
      stored?.['Details__c'],
      '{"net":0.1000000000000000055511151231257827,"id":12345678901234567890,"tiny":1e-400,"usual":612.4,' +
        '"text":"12345678901234567890 \\"1e-400\\"","deep":[{"n":9007199254740993}]}',
    );
  });

  test('creates, changes and deletes', async () => {
    const { id } = await client.quotes.create(quote());
    assert.equal((await client.quotes.update(id, { name: 'Hotel Sol' })).name, 'Hotel Sol');
    assert.equal(await client.quotes.delete(id), undefined);
    await assert.rejects(client.quotes.retrieve(id), {
      name: 'HandoffProblem',
      code: 'not_found',
      status: 404,
    });
  });

  test('lists all items page by page, or one page', async () => {
    const trip_id = randomUUID();
    const made: string[] = [];
    for (let i = 0; i < 5; i += 1) made.push((await client.quotes.create(quote(trip_id))).id);
    const listed: string[] = [];
    for await (const { id } of client.quotes.list({ trip_id, limit: 2 })) listed.push(id);
    assert.deepEqual(listed.toSorted(), made.toSorted());
    const first = await client.quotes.list({ trip_id, limit: 2 }).page();
    assert.equal(first.data.length, 2);
    assert.equal(first.has_more, true);
    const rest = await client.quotes.list({ trip_id, limit: 200, cursor: first.next_cursor ?? '' }).page();
    assert.deepEqual(
      [...first.data, ...rest.data].map(({ id }) => id),
      listed,
    );
  });

  test('repeats a write whose answer was lost, under the same key, and it is done once', async () => {
    const sent: Headers[] = [];
    const losing = new HandoffClient({ baseUrl: gateway.url, ...gateway.console, fetch: losingFetch(sent) });
    const trip_id = randomUUID();
    const { external_id } = await losing.handOff(offer({}, trip_id));
    assert.equal(sent.length, 2);
    assert.equal(new Set(sent.map((headers) => headers.get('idempotency-key'))).size, 1);
    const records = await gateway.org.records('Quote__c', { Trip_Id__c: trip_id });
    assert.deepEqual(
      records.map((record) => record['External_Id__c']),
      [external_id],
    );
  });

  test('a call under the key of an earlier one gets its answer', async () => {
    const idempotencyKey = randomUUID();
    const body = quote();
    const first = await client.quotes.create(body, { idempotencyKey });
    assert.deepEqual(await client.quotes.create(body, { idempotencyKey }), first);
  });

  test('a problem has its code, faults, request id and key', async () => {
    const wrong = { ...offer({}), trip_id: 'none' };
    await assert.rejects(client.handOff(wrong), (problem: HandoffProblem) => {
      assert.ok(problem instanceof HandoffProblem);
      assert.equal(problem.code, 'invalid_request');
      assert.equal(problem.errors[0]?.pointer, '#/trip_id');
      assert.match(String(problem.requestId), /./);
      assert.match(String(problem.idempotencyKey), /^[0-9a-f-]{36}$/);
      assert.match(problem.message, /trip_id|request/i);
      return true;
    });
  });

  test('reads members, and reserves and cancels a table', async () => {
    const page = await client.members.list({ limit: 1 }).page();
    const [first] = page.data;
    assert.deepEqual(await client.members.retrieve(String(first?.id)), first);
    const body = newReservation(memberId) as unknown as Parameters<
      HandoffClient['reservations']['create']
    >[0];
    const { merchant_id, service_id, start_at, party_size } = body.dining;
    const { available } = await client.reservations.availability({
      merchant_id,
      service_id,
      start_at,
      party_size,
    });
    assert.equal(available, true);
    const { id, status } = await client.reservations.create(body);
    assert.equal(status, 'confirmed');
    const listed = await client.reservations.list({ trip_id: body.trip_id }).page();
    assert.deepEqual(
      listed.data.map((reservation) => reservation.id),
      [id],
    );
    await client.reservations.cancel(id);
    assert.equal((await client.reservations.retrieve(id)).status, 'cancelled');
  });

  test('hands off for later, and follows what became of it', async () => {
    const held = await gateway.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'down' } });
    const { external_id, status } = await client.handOff(offer({}), { respondAsync: true });
    assert.equal(status, 'accepted');
    const { data } = await client.handoffs.list({ status: 'accepted' }).page();
    assert.deepEqual(
      data.map((handoff) => handoff.external_id),
      [external_id],
    );
    // In the moment of a try it can't be cancelled.
    await eventually(
      async () => assert.equal((await client.handoffs.retrieve(external_id)).status, 'cancelled'),
      {
        pause: () =>
          client.handoffs
            .cancel(external_id)
            .catch((error: HandoffProblem) => assert.equal(error.code, 'conflict')),
      },
    );
    await assert.rejects(client.handoffs.retry(external_id), { code: 'conflict' });
    await held.remove();
    const direct = await client.handOff(offer({}), { respondAsync: true, waitSeconds: 20 });
    assert.equal(direct.status, 'created');
  });

  test('knows the consumer that it is', async () => {
    assert.equal((await client.consumer.retrieve()).id, gateway.console.id);
  });

  test('signs in with a private key, and uses its token until that is refused', async () => {
    const { privateKey, jwk } = makeKeys('ES256');
    const { id } = gateway.console;
    const setKeys = async (publicKeys: object[]) => {
      const body = { publicKeys };
      const path = `/v1/admin/consumers/${id}`;
      assert.equal((await gateway.request(path, { method: 'PATCH', as: gateway.admin, body })).status, 200);
    };
    const sent: string[] = [];
    const counting: typeof fetch = (url, init) => {
      sent.push(new URL(new Request(url).url).pathname);
      return fetch(url, init);
    };
    const options = { baseUrl: gateway.url, clientId: id, fetch: counting };
    await setKeys([{ ...jwk, kid: 'first' }]);
    const own = { ...privateKey.export({ format: 'jwk' }), kid: 'first' } as PrivateKeyJwk;
    const byJwk = new HandoffClient({ ...options, privateKey: own });
    await Promise.all([byJwk.consumer.retrieve(), byJwk.members.retrieve(memberId)]);
    assert.equal((await byJwk.consumer.retrieve()).id, id);
    const [discovery, token] = ['/.well-known/oauth-authorization-server', '/oauth/token'];
    const use = '/v1/consumer';
    assert.deepEqual(sent.splice(0), [discovery, token, use, `/v1/members/${memberId}`, use]);
    // Its token ends with its key; with the next one it goes on.
    await setKeys([]);
    await assert.rejects(byJwk.consumer.retrieve(), { code: 'invalid_client', status: 401 });
    assert.deepEqual(sent.splice(0), [use, discovery, token]);
    await setKeys([jwk]);
    assert.equal((await byJwk.consumer.retrieve()).id, id);
    const crypto = await globalThis.crypto.subtle.importKey(
      'jwk',
      privateKey.export({ format: 'jwk' }),
      { name: 'ECDSA', namedCurve: 'P-256' },
      false,
      ['sign'],
    );
    const byKey = new HandoffClient({ ...options, privateKey: crypto });
    assert.equal((await byKey.consumer.retrieve()).id, id);
    const shown = inspect(byJwk, { depth: 9, showHidden: true }) + JSON.stringify(byJwk);
    assert.ok(!shown.includes(String(own['d'])));
  });

  test('signs in with each kind of key, and takes tokens from elsewhere', async () => {
    for (const alg of ['RS256', 'PS256', 'EdDSA'] as const) {
      const { privateKey, jwk } = makeKeys(alg);
      const body = { publicKeys: [jwk] };
      const path = `/v1/admin/consumers/${gateway.console.id}`;
      await gateway.request(path, { method: 'PATCH', as: gateway.admin, body });
      const own = { ...privateKey.export({ format: 'jwk' }), alg } as PrivateKeyJwk;
      const signing = new HandoffClient({
        baseUrl: gateway.url,
        clientId: gateway.console.id,
        privateKey: own,
      });
      assert.equal((await signing.consumer.retrieve()).name, 'console', alg);
    }
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: gateway.console.apiKey,
      client_secret: gateway.console.apiSecret,
    });
    const accessToken = async () => {
      const response = await fetch(`${gateway.url}/oauth/token`, { method: 'POST', body: form });
      return ((await response.json()) as { access_token: string }).access_token;
    };
    const taking = new HandoffClient({ baseUrl: gateway.url, accessToken });
    assert.equal((await taking.consumer.retrieve()).id, gateway.console.id);
    const wrong = new HandoffClient({ baseUrl: gateway.url, accessToken: async () => 'a\nb', maxRetries: 0 });
    await assert.rejects(wrong.consumer.retrieve(), /accessToken has characters that no credential has/);
  });

  test('shows the health, with or without the CRM', async () => {
    assert.equal((await client.health()).status, 'ok');
  });

  test('shows its secret nowhere', () => {
    const shown = inspect(client, { depth: 9, showHidden: true }) + JSON.stringify(client);
    assert.doesNotMatch(shown, new RegExp(gateway.console.apiSecret));
  });
});
