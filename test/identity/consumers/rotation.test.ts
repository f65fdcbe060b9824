import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Consumer, StoredCredential } from '../../../src/identity/consumers/consumer.ts';
import { viewOfConsumer } from '../../../src/identity/consumers/consumer-view.ts';
import { IndexEntry } from '../../../src/identity/consumers/directory-index.ts';
import { rotateCredentials } from '../../../src/identity/consumers/rotation.ts';
import { Problem } from '../../../src/platform/base/problem.ts';

const now = Date.parse('2027-03-01T08:00:00.000Z');
const hour = 3_600_000;

function pair(apiKey: string, expiresAt: number | null = null): StoredCredential {
  return {
    apiKey,
    hash: '',
    algorithm: 'hmac-sha256',
    pepperVersion: 1,
    state: expiresAt === null ? 'active' : 'rotated',
    createdAt: new Date(now - 1000 * hour).toISOString(),
    expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString(),
  };
}

function consumer(...credentials: StoredCredential[]): Consumer {
  const at = new Date(now - 1000 * hour).toISOString();
  return {
    id: 'con_0000000000000000',
    name: 'shop',
    permissions: [],
    createdAt: at,
    updatedAt: at,
    rotatedAt: null,
    certificateFingerprints: [],
    credentials,
  };
}

const expiries = ({ credentials }: Consumer) =>
  Object.fromEntries(credentials.map(({ apiKey, expiresAt }) => [apiKey, expiresAt]));

describe('rotation of a record', () => {
  it('ends the old pair at once also where the clock of a replica is behind', () => {
    const rotated = rotateCredentials(consumer(pair('a')), pair('new'), now, 0);
    const [replacement, old] = rotated.credentials.map((one) => new IndexEntry(rotated, one));
    assert.equal(old?.isExpired(now - hour), true);
    assert.equal(replacement?.isExpired(now + hour), false);
    const graced = rotateCredentials(consumer(pair('a')), pair('new'), now, 1);
    assert.equal(
      new IndexEntry(graced, graced.credentials[1] as StoredCredential).isExpired(now - hour),
      false,
    );
  });

  it('rotates every active pair, to the millisecond, and adds the new one', () => {
    const rotated = rotateCredentials(consumer(pair('a'), pair('b')), pair('new'), now, 1.5);
    const at = '2027-03-01T09:30:00.000Z';
    assert.deepEqual(expiries(rotated), { new: null, a: at, b: at });
    assert.deepEqual(
      rotated.credentials.map(({ state }) => state),
      ['active', 'rotated', 'rotated'],
    );
    assert.equal(rotated.rotatedAt, '2027-03-01T08:00:00.000Z');
    assert.equal(rotated.updatedAt, rotated.rotatedAt);
  });

  it('lets a pair that was rotated before keep its expiry or take the new one, whichever is earlier', () => {
    const before = consumer(pair('soon', now + hour), pair('late', now + 100 * hour));
    const rotated = rotateCredentials(before, pair('new'), now, 24);
    assert.deepEqual(expiries(rotated), {
      new: null,
      soon: new Date(now + hour).toISOString(),
      late: new Date(now + 24 * hour).toISOString(),
    });
  });

  it('cuts every pair at once with a grace window of 0', () => {
    const before = consumer(pair('a'), pair('soon', now + hour));
    const at = new Date(now).toISOString();
    assert.deepEqual(expiries(rotateCredentials(before, pair('new'), now, 0)), {
      new: null,
      a: at,
      soon: at,
    });
  });

  it('keeps the newest 150 pairs at most, however often it is rotated', () => {
    let record = consumer(pair('first'));
    for (let i = 0; i < 500; i++) record = rotateCredentials(record, pair(`key-${i}`), now + i * hour, 0.5);
    assert.deepEqual(
      record.credentials.map(({ apiKey }) => apiKey),
      Array.from({ length: 150 }, (_, i) => `key-${499 - i}`),
    );
  });

  it('drops pairs that expired more than 30 days ago', () => {
    const day = 24 * hour;
    const before = consumer(pair('a'), pair('kept', now - 30 * day + 1), pair('dropped', now - 30 * day));
    const rotated = rotateCredentials(before, pair('new'), now, 24);
    assert.deepEqual(Object.keys(expiries(rotated)), ['new', 'a', 'kept']);
  });

  it('refuses to keep more valid pairs than a secret can hold, and says what helps', () => {
    let record = consumer(pair('first'));
    const rotate = (hours: number) => rotateCredentials(record, pair(`key-${Math.random()}`), now, hours);
    assert.throws(
      () => {
        for (let i = 0; i < 1000; i++) record = rotate(24);
      },
      (error) => error instanceof Problem && error.code === 'conflict' && /shorter/.test(error.message),
    );
    assert.ok(JSON.stringify(record, null, 2).length < 65_536);
    assert.equal(rotate(0).credentials.filter(({ expiresAt }) => expiresAt === null).length, 1);
  });

  it('drops a rotated pair that names no expiry, as the directory refuses it', () => {
    const odd: StoredCredential = { ...pair('odd'), state: 'rotated' };
    assert.deepEqual(expiries(rotateCredentials(consumer(odd), pair('new'), now, 24)), { new: null });
  });
});

describe('a consumer as it is shown', () => {
  const states = (record: Consumer, at: number) =>
    viewOfConsumer(record, at).credentials.map(({ apiKey, state }) => [apiKey, state]);

  it('names a pair expired from its expiry on, and lists it for 30 days more', () => {
    const end = now + hour;
    const record = consumer(pair('new'), pair('old', end));
    assert.deepEqual(states(record, end - 1), [
      ['new', 'active'],
      ['old', 'rotated'],
    ]);
    const expired = [
      ['new', 'active'],
      ['old', 'expired'],
    ];
    assert.deepEqual(states(record, end), expired);
    assert.deepEqual(states(record, end + 30 * 24 * hour - 1), expired);
    assert.deepEqual(states(record, end + 30 * 24 * hour), [['new', 'active']]);
  });

  it('names no active key where every pair was rotated out', () => {
    const view = viewOfConsumer(consumer(pair('old', now + hour)), now);
    assert.equal(view.apiKey, null);
    assert.equal(view.expiresAt, null);
  });
});
