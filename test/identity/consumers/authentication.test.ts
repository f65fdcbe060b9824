import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { allows, type Consumer } from '../../../src/identity/consumers/consumer.ts';
import type { CreatedConsumer } from '../../../src/identity/consumers/consumer-store.ts';
import { makeConsumerId, makeCredentialPair } from '../../../src/identity/consumers/credentials.ts';
import { createTestConsumers, createTestSecrets, readQuotes } from './fixture.ts';

describe('authentication', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  let fixture: ReturnType<typeof createTestConsumers>;
  let shop: CreatedConsumer;
  beforeEach(async () => {
    store = await createTestSecrets();
    fixture = createTestConsumers(store.secrets);
    shop = await fixture.consumers.store.create({ name: 'shop', permissions: readQuotes });
    await fixture.consumers.start();
  });
  afterEach(async () => {
    await fixture.consumers.stop();
    await store.remove();
  });
  const authenticate = (apiKey: string | undefined, apiSecret: string | undefined) =>
    fixture.consumers.authenticate({ apiKey, apiSecret });
  const save = async (change: (consumer: Consumer) => Consumer) => {
    const consumer = change(shop.consumer);
    fixture.consumers.directory.put(consumer, await fixture.consumers.store.save(consumer, shop.version));
  };

  it('accepts the pair of a consumer at once, without I/O', () => {
    const before = store.reads.length;
    const answer = authenticate(shop.apiKey, shop.apiSecret);
    assert.ok(!(answer instanceof Promise) && answer.result === 'accepted');
    assert.deepEqual(answer.consumer, shop.consumer);
    assert.equal(store.reads.length, before);
  });

  it('names the reason and the consumer wherever the key is known', async () => {
    const other = makeCredentialPair(makeConsumerId());
    const { id } = shop.consumer;
    const long = 'x'.repeat(100_000);
    const cases: [string | undefined, string | undefined, string, string | null][] = [
      [undefined, undefined, 'missing', null],
      ['', shop.apiSecret, 'missing', null],
      [other.apiKey, undefined, 'missing', null],
      [shop.apiKey, undefined, 'missing', id],
      [shop.apiKey, '', 'missing', id],
      [shop.apiKey, other.apiSecret, 'wrong_secret', id],
      [shop.apiKey, shop.apiKey, 'wrong_secret', id],
      [shop.apiKey, `${shop.apiSecret} `, 'wrong_secret', id],
      [shop.apiKey, long, 'wrong_secret', id],
      [shop.apiSecret, shop.apiKey, 'unknown_key', null],
      [other.apiKey, shop.apiSecret, 'unknown_key', null],
      [long, shop.apiSecret, 'unknown_key', null],
      ['__proto__', 'constructor', 'unknown_key', null],
      [shop.apiKey.toLowerCase(), shop.apiSecret, 'unknown_key', null],
    ];
    for (const [key, secret, result, consumerId] of cases) {
      assert.deepEqual(await authenticate(key, secret), { result, consumerId }, `${key?.slice(0, 60)}`);
    }
  });

  it('refuses a rotated pair from its expiry on, to the millisecond', async () => {
    const expiresAt = new Date(fixture.clock() + 5000).toISOString();
    await save((consumer) => ({
      ...consumer,
      credentials: consumer.credentials.map((pair) => ({ ...pair, state: 'rotated' as const, expiresAt })),
    }));
    const { id } = shop.consumer;
    fixture.clock.advance(4999);
    assert.equal((await authenticate(shop.apiKey, shop.apiSecret)).result, 'accepted');
    fixture.clock.advance(1);
    assert.deepEqual(await authenticate(shop.apiKey, shop.apiSecret), { result: 'expired', consumerId: id });
    assert.deepEqual(await authenticate(shop.apiKey, 'wrong'), { result: 'wrong_secret', consumerId: id });
    fixture.clock.advance(-1);
    assert.equal((await authenticate(shop.apiKey, shop.apiSecret)).result, 'accepted');
  });

  it('still says expired when the expired pair has left the record', async () => {
    const expiresAt = new Date(fixture.clock() - 1).toISOString();
    await save((consumer) => ({
      ...consumer,
      credentials: consumer.credentials.map((pair) => ({ ...pair, state: 'rotated' as const, expiresAt })),
    }));
    fixture.consumers.directory.put({ ...shop.consumer, credentials: [] }, 'later');
    const { id } = shop.consumer;
    assert.deepEqual(await authenticate(shop.apiKey, shop.apiSecret), { result: 'expired', consumerId: id });
  });

  for (const [what, expiresAt] of Object.entries({
    'without an expiry': null,
    // RFC 3339 has leap seconds, and the clocks of programs do not.
    'whose expiry is a leap second': '2099-12-31T23:59:60Z',
  })) {
    it(`counts a rotated pair ${what} as expired`, async () => {
      await save((consumer) => ({
        ...consumer,
        credentials: consumer.credentials.map((pair) => ({ ...pair, state: 'rotated' as const, expiresAt })),
      }));
      assert.equal((await authenticate(shop.apiKey, shop.apiSecret)).result, 'expired');
    });
  }

  it('says revoked for a pair that was valid here and is withdrawn', async () => {
    fixture.consumers.directory.put({ ...shop.consumer, revokedAt: new Date().toISOString() }, 'later');
    const { id } = shop.consumer;
    assert.deepEqual(await authenticate(shop.apiKey, shop.apiSecret), { result: 'revoked', consumerId: id });
    assert.deepEqual(await authenticate(shop.apiKey, undefined), { result: 'missing', consumerId: id });
  });

  it('lets a consumer do what its permissions say and nothing else', () => {
    const consumer: Consumer = {
      ...shop.consumer,
      permissions: [
        { resource: 'quotes', actions: ['read'] },
        { resource: 'bookings', actions: ['write', 'delete'] },
        { resource: 'quotes', actions: ['delete'] },
      ],
    };
    const allowed = ['members', 'quotes', 'bookings', 'consumers', 'quote', ''].flatMap((resource) =>
      ['read', 'write', 'delete', 'rea', '']
        .filter((action) => allows(consumer, resource, action))
        .map((action) => `${resource}:${action}`),
    );
    assert.deepEqual(allowed, ['quotes:read', 'quotes:delete', 'bookings:write', 'bookings:delete']);
  });

  it('counts every attempt by its result', async () => {
    const { metrics, consumers } = fixture;
    consumers.attempts.record({
      consumer_id: shop.consumer.id,
      endpoint: 'GET /v1/quotes/:id',
      result: 'accepted',
      timestamp: '2026-01-01T00:00:00.000Z',
      request_id: 'r1',
      address: '192.0.2.1',
      user_agent: null,
      api_key: shop.apiKey,
      person: null,
      status: 200,
    });
    const { values } = await metrics.authenticationAttempts.get();
    assert.deepEqual(values, [{ labels: { result: 'accepted' }, value: 1 }]);
  });
});
