import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type Chance, replaceChance } from '../../src/platform/base/chance.ts';
import type { Lock } from '../../src/platform/base/lock.ts';
import { createMemoryCache } from '../../src/platform/cache/memory.ts';
import { CacheUnavailable, type SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { SecretsUnavailable } from '../../src/platform/secrets/secrets-manager.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { eventually } from '../support/eventually.ts';
import {
  aCall,
  type CrmHarness,
  hasCode,
  keySecret,
  keys,
  quoteFor,
  type Replica,
  startCrmHarness,
  total,
} from './crm-harness.ts';

let harness: CrmHarness;
beforeEach(async () => {
  harness = await startCrmHarness();
});
afterEach(() => harness.stop());

/** A cache of which these methods are others, as long as they are in the object. */
function changed(cache: SharedCache, methods: Partial<SharedCache>): SharedCache {
  const bound = (name: keyof SharedCache) => {
    const own = cache[name];
    return typeof own === 'function' ? own.bind(cache) : own;
  };
  return new Proxy(cache, {
    get: (_, name) => methods[name as keyof SharedCache] ?? bound(name as keyof SharedCache),
  });
}

const create = ({ crm }: Replica, budgetMs?: number) =>
  crm.records.create(quote, randomUUID(), quoteFor(harness.memberId), aCall(budgetMs));

it('asks once for a token, however many calls come first, on however many replicas', async () => {
  const other = harness.addReplica();
  const call = (_: unknown, index: number) => create(index % 2 === 0 ? harness : other);
  await Promise.all(Array.from({ length: 200 }, call));
  assert.equal(await harness.org.calls('token'), 1);
  assert.equal((await harness.org.records('Quote__c')).length, 200);
});

it('keeps the record in the shared cache, until five minutes before the token ends', async () => {
  const lifetimes: number[] = [];
  const { cache } = harness;
  const watched = changed(cache, {
    set: (key, value, ttlMs) => {
      if (key === 'crm_token:prod') lifetimes.push(ttlMs);
      return cache.set(key, value, ttlMs);
    },
  });
  const replica = harness.addReplica({ environment: 'prod', cache: watched });
  const started = Date.now();
  await create(replica);
  await create(replica);
  const record = JSON.parse((await cache.get('crm_token:prod')) as string);
  assert.deepEqual(Object.keys(record), ['access_token', 'instance_url', 'expires_at', 'connection_hash']);
  assert.equal(record.instance_url, harness.org.url);
  assert.match(record.connection_hash, /^[0-9a-f]{64}$/);
  const expiresAt = Date.parse(record.expires_at);
  assert.equal(new Date(expiresAt).toISOString(), record.expires_at);
  assert.ok(expiresAt >= started + 7_200_000 && expiresAt <= Date.now() + 7_200_000);
  assert.equal(lifetimes.length, 1);
  const [ttlMs = 0] = lifetimes;
  assert.ok(ttlMs <= 6_900_000 && ttlMs >= 6_900_000 - (Date.now() - started));
  assert.equal(await total(replica.metrics, 'handoff_crm_token_cache_misses_total'), 1);
  assert.equal(await total(replica.metrics, 'handoff_crm_token_cache_hits_total'), 1);
});

it('does not use a token of another org, app or user', async () => {
  await harness.org.change({ loginHosts: 'accepted' });
  await create(harness);
  const other = harness.addReplica({ audience: 'https://login.salesforce.com' });
  await create(other);
  assert.equal(await harness.org.calls('token'), 2);
});

it('replaces a token that the CRM has revoked, and the caller sees nothing of it', async () => {
  await create(harness);
  await harness.org.revokeTokens();
  await Promise.all(Array.from({ length: 30 }, () => create(harness)));
  assert.equal(await harness.org.calls('token'), 2);
  assert.equal((await harness.org.records('Quote__c')).length, 31);
});

it('replaces a revoked token over and over, as long as each one worked', async () => {
  for (let round = 0; round < 4; round++) {
    await create(harness);
    await harness.org.revokeTokens();
  }
  await create(harness);
  assert.equal(await harness.org.calls('token'), 5);
});

it('leaves a newer token alone when an old one is refused late', async () => {
  const old = await harness.crm.tokens.getToken(aCall());
  await harness.org.revokeTokens();
  await create(harness);
  const record = await harness.cache.get('crm_token:dev');
  await harness.crm.tokens.invalidate(old);
  assert.equal(await harness.cache.get('crm_token:dev'), record);
});

it('stops asking for tokens when new ones are refused again and again', async () => {
  const other = harness.addReplica();
  const message = 'Session expired or invalid';
  await harness.org.fault(
    { kind: 'error', status: 401, errorCode: 'INVALID_SESSION_ID', message },
    { operation: 'create' },
  );
  for (let round = 0; round < 20; round++) {
    await assert.rejects(create(round % 2 === 0 ? harness : other), hasCode('crm_unavailable'));
  }
  assert.ok((await harness.org.calls('token')) <= 3);
});

it('does not loop where the user may not use the REST API', async () => {
  const message = 'This session is not valid for use with the REST API';
  await harness.org.fault(
    { kind: 'error', status: 401, errorCode: 'INVALID_SESSION_ID', message },
    { operation: 'create' },
  );
  for (let round = 0; round < 5; round++) await assert.rejects(create(harness), hasCode('crm_error'));
  assert.equal(await harness.org.calls('token'), 1);
  assert.equal(await harness.org.calls('create'), 5);
});

it('after a failure that only an operator can fix, answers 503 at once on all replicas, and reports what to fix', async () => {
  const other = harness.addReplica();
  const description = "user hasn't approved this consumer";
  await harness.org.fault({ kind: 'tokenError', error: 'invalid_grant', description });
  await assert.rejects(create(harness), hasCode('crm_unavailable', { retryAfter: 300 }));
  await Promise.all(
    Array.from({ length: 50 }, () =>
      assert.rejects(create(other), hasCode('crm_unavailable', { retryAfter: 300 })),
    ),
  );
  assert.equal(await harness.org.calls('token'), 1);
  const line = harness.lines.find(({ level }) => level === 'error');
  assert.deepEqual(line?.facts['reason'], 'invalid_grant');
  assert.match(String(line?.facts['advice']), /approved the app/);
});

it('tries again after a passing failure, when its time is over', async () => {
  const fault = await harness.org.fault({ kind: 'down' }, { operation: 'token' }, 1);
  await assert.rejects(create(harness), hasCode('crm_unavailable'));
  await assert.rejects(create(harness), hasCode('crm_unavailable'));
  await harness.org.struck(fault);
  assert.equal(await harness.org.calls('token'), 1);
  await eventually(() => create(harness), { everyMs: 50 });
  assert.equal(await harness.org.calls('token'), 2);
  assert.equal(await harness.cache.get('crm_token_backoff:dev'), undefined);
});

it('picks up another private key without a restart, and ends the back-off for it', async () => {
  await harness.crm.start();
  const wrong = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  harness.secrets.put(keySecret, wrong.export({ type: 'pkcs8', format: 'pem' }).toString());
  await assert.rejects(create(harness), hasCode('crm_unavailable', { retryAfter: 300 }));
  const other = harness.addReplica();
  await assert.rejects(create(other), hasCode('crm_unavailable', { retryAfter: 300 }));
  // The same key as the org knows, in the older form.
  const pem = createPrivateKey(keys.privateKey).export({ type: 'pkcs1', format: 'pem' }).toString();
  harness.secrets.put(keySecret, pem);
  await harness.crm.tokens.noticeKeyChange();
  await create(other);
  await create(harness);
});

it('without a usable key it says so, and works as soon as there is one', async () => {
  for (const pem of [
    'not a key',
    generateKeyPairSync('ec', { namedCurve: 'P-256' })
      .privateKey.export({ type: 'pkcs8', format: 'pem' })
      .toString(),
  ]) {
    harness.secrets.put(keySecret, pem);
    await harness.crm.tokens.noticeKeyChange();
    await assert.rejects(create(harness), hasCode('crm_unavailable'));
  }
  assert.ok(harness.lines.some(({ facts }) => facts['reason'] === 'private_key'));
  harness.secrets.put(keySecret, keys.privateKey);
  await harness.crm.tokens.noticeKeyChange();
  await create(harness);
});

it('goes on with the key that it has read when the secrets manager is unavailable', async () => {
  await create(harness);
  harness.secrets.failure = new SecretsUnavailable('unavailable');
  await harness.org.revokeTokens();
  await create(harness);
  const fresh = harness.addReplica({ environment: 'staging' });
  await assert.rejects(create(fresh), hasCode('crm_unavailable'));
});

it('works on what it holds, and acquires for itself, while the cache is unavailable', async () => {
  const unavailable: SharedCache = new Proxy({} as SharedCache, {
    get: () => () => Promise.reject(new CacheUnavailable('unavailable')),
  });
  const replica = harness.addReplica({ cache: unavailable });
  await Promise.all(Array.from({ length: 20 }, () => create(replica)));
  await harness.org.revokeTokens();
  await Promise.all(Array.from({ length: 20 }, () => create(replica)));
  assert.equal(await harness.org.calls('token'), 2);
  await replica.crm.tokens.refreshIfDue();
  assert.equal(await harness.org.calls('token'), 2);
});

describe('with a cache that is read and takes no writes', () => {
  const full = new CacheUnavailable('Redis: OOM command not allowed');
  const refuse = () => Promise.reject(full);
  const writes = ['set', 'setIfEqual', 'delete', 'deleteIfEqual', 'addToSeries', 'acquireLock'] as const;
  let refused: Partial<SharedCache>;
  let replica: Replica;
  beforeEach(() => {
    refused = Object.fromEntries(writes.map((name) => [name, refuse]));
    replica = harness.addReplica({ cache: changed(harness.cache, refused) });
  });
  const takeWrites = () => {
    for (const name of writes) delete refused[name];
  };
  const isStored = () => harness.cache.get('crm_token:dev');

  it('acquires one token, works on with it, and stores it once the cache takes writes', async () => {
    for (let call = 0; call < 10; call++) await create(replica);
    await replica.crm.tokens.refreshIfDue();
    assert.equal(await harness.org.calls('token'), 1);
    assert.equal(await isStored(), undefined);
    takeWrites();
    await eventually(async () => {
      await create(replica);
      assert.ok(await isStored());
    });
    await create(harness);
    assert.equal(await harness.org.calls('token'), 1);
  });

  it('leaves a token alone that another replica has stored since', async () => {
    const own = await replica.crm.tokens.getToken(aCall());
    await create(harness);
    const record = await isStored();
    takeWrites();
    const { accessToken } = await replica.crm.tokens.getToken(aCall());
    assert.notEqual(accessToken, own.accessToken);
    assert.equal(await isStored(), record);
    assert.equal(await harness.org.calls('token'), 2);
  });

  it('replaces a token that the CRM refuses, though it cannot be deleted', async () => {
    await create(harness);
    await create(replica);
    await harness.org.revokeTokens();
    for (let call = 0; call < 5; call++) await create(replica);
    await harness.org.revokeTokens();
    for (let call = 0; call < 5; call++) await create(replica);
    assert.equal(await harness.org.calls('token'), 3);
    takeWrites();
    const record = await isStored();
    await eventually(async () => {
      await create(replica);
      assert.notEqual(await isStored(), record);
    });
    assert.equal(await harness.org.calls('token'), 3);
  });

  it('asks no more often where sign-in fails, or new tokens are refused', async () => {
    await harness.org.fault({ kind: 'tokenError', error: 'inactive_user', description: '' });
    for (let call = 0; call < 5; call++)
      await assert.rejects(create(replica), hasCode('crm_unavailable', { retryAfter: 300 }));
    assert.equal(await harness.org.calls('token'), 1);
    await harness.org.heal();
    const message = 'Session expired or invalid';
    await harness.org.fault(
      { kind: 'error', status: 401, errorCode: 'INVALID_SESSION_ID', message },
      { operation: 'create' },
    );
    const other = harness.addReplica({ cache: changed(harness.cache, refused) });
    for (let call = 0; call < 10; call++) await assert.rejects(create(other), hasCode('crm_unavailable'));
    assert.ok((await harness.org.calls('token')) <= 4);
  });
});

it('uses the token that it holds while another is acquired, after the cache has lost it', async () => {
  await create(harness);
  const record = (await harness.cache.get('crm_token:dev')) as string;
  await harness.cache.deleteIfEqual('crm_token:dev', record);
  const fault = await harness.org.fault({ kind: 'hold', stage: 'before' }, { operation: 'token' });
  await create(harness);
  await harness.org.struck(fault);
  await harness.org.release(fault);
  await harness.org.heal();
  await harness.crm.stop();
  assert.notEqual(await harness.cache.get('crm_token:dev'), undefined);
});

it('a holder that has lost the lock uses its token but does not store it', async () => {
  let now = 0;
  const cache = createMemoryCache({ now: () => now });
  const [slow, fast] = [harness.addReplica({ cache }), harness.addReplica({ cache })];
  const fault = await harness.org.fault({ kind: 'hold', stage: 'before' }, { operation: 'token' }, 1);
  const held = create(slow);
  await harness.org.struck(fault);
  now += 10_000 + 5000;
  await create(fast);
  const record = await cache.get('crm_token:dev');
  assert.ok(record);
  await harness.org.release(fault);
  await held;
  assert.equal(await harness.org.calls('token'), 2);
  assert.equal(await cache.get('crm_token:dev'), record);
});

it('a holder that stood still until its lock had ended, after it was told that it has it, does not store either', async (t) => {
  let passed = 0;
  const real = replaceChance({} as Chance);
  replaceChance({ ...real, now: () => real.now() + passed });
  t.after(() => void replaceChance(real));
  const cache = createMemoryCache({ now: () => passed });
  const fast = harness.addReplica({ cache });
  const slow = harness.addReplica({
    cache: changed(cache, {
      acquireLock: async (key, ttlMs) => {
        const lock = (await cache.acquireLock(key, ttlMs)) as Lock;
        const isHeld = async () => {
          assert.equal(await lock.isHeld(), true);
          passed += ttlMs;
          await create(fast);
          return true;
        };
        return { ...lock, isHeld };
      },
    }),
  });
  const used = await slow.crm.tokens.getToken(aCall());
  assert.equal(await harness.org.calls('token'), 2);
  const stored = JSON.parse((await cache.get('crm_token:dev')) as string);
  assert.notEqual(stored.access_token, used.accessToken);
  assert.equal(stored.access_token, (await fast.crm.tokens.getToken(aCall())).accessToken);
});

it('refreshes under five minutes, and where there is none, but not before', async () => {
  const { tokens } = harness.crm;
  await tokens.refreshIfDue();
  assert.equal(await harness.org.calls('token'), 1);
  await tokens.refreshIfDue();
  assert.equal(await harness.org.calls('token'), 1);
  const record = JSON.parse((await harness.cache.get('crm_token:dev')) as string);
  const soon = new Date(Date.now() + 299_000).toISOString();
  await harness.cache.set('crm_token:dev', JSON.stringify({ ...record, expires_at: soon }), 60_000);
  await tokens.refreshIfDue();
  assert.equal(await harness.org.calls('token'), 2);
});

it('a failed refresh asks to be repeated where that may help, and else says what to fix', async () => {
  const { tokens } = harness.crm;
  await harness.org.fault({ kind: 'down' }, { operation: 'token' }, 1);
  await assert.rejects(tokens.refreshIfDue(), { code: 'crm_unavailable' });
  assert.equal((await tokens.fault())?.advice, null);
  const other = harness.addReplica({ environment: 'prod' });
  await harness.org.fault({ kind: 'tokenError', error: 'inactive_user', description: '' });
  for (let round = 0; round < 5; round++) await other.crm.tokens.refreshIfDue();
  assert.match((await other.crm.tokens.fault())?.advice ?? '', /isn't active. Activate it/);
  assert.equal(await harness.org.calls('token'), 2);
  assert.equal(await total(other.metrics, 'handoff_crm_token_acquisitions_total'), 1);
});

it('takes what stands in the cache for a miss where it is no record', async () => {
  for (const junk of ['', 'x', '[]', '{}', '{"access_token":"a b"}', 'null']) {
    await harness.cache.set('crm_token:dev', junk, 60_000);
    await create(harness);
  }
  assert.equal((await harness.org.records('Quote__c')).length, 6);
});

it('never sends a token where a record leads that no token endpoint may issue: it is replaced by a new one', async () => {
  const elsewhere = createServer().listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  let requests = 0;
  elsewhere.on('connection', (socket) => {
    requests += 1;
    socket.destroy();
  });
  const { port } = elsewhere.address() as AddressInfo;
  await create(harness);
  const good = JSON.parse((await harness.cache.get('crm_token:dev')) as string);
  const changes: object[] = [
    { instance_url: `${harness.org.url}/path` },
    { instance_url: `http://127.0.0.1:${port}/services` },
    { instance_url: `http://${['user', 'word'].join(':')}@127.0.0.1:${port}` },
    { instance_url: `http://127.0.0.1:${port}?` },
    { instance_url: `http://127.0.0.1.nip.example:${port}` },
    { instance_url: 'http://crm.example' },
    { instance_url: 'ftp://127.0.0.1' },
    { instance_url: '//127.0.0.1' },
    { instance_url: '' },
    { instance_url: ['https://crm.example'] },
    { access_token: 'a\r\nHost: crm.example' },
    { access_token: 'ä' },
    { access_token: 'a'.repeat(16_385) },
    { access_token: 12 },
    { expires_at: 'tomorrow' },
    { expires_at: '+275760-09-13T00:00:00.000Z' },
    { expires_at: 4_000_000_000_000 },
    { padding: 'x'.repeat(40_000) },
  ];
  for (const change of changes) {
    const planted = JSON.stringify({ ...good, ...change });
    await harness.cache.set('crm_token:dev', planted, 60_000);
    const replica = harness.addReplica();
    await create(replica);
    assert.equal(
      await total(replica.metrics, 'handoff_crm_token_cache_misses_total'),
      1,
      planted.slice(0, 300),
    );
    const now = JSON.parse((await harness.cache.get('crm_token:dev')) as string);
    assert.deepEqual(
      { ...now, access_token: '', expires_at: '' },
      { ...good, access_token: '', expires_at: '' },
    );
  }
  elsewhere.close();
  assert.equal(requests, 0);
});

it('uses a record of the documented form, no matter who wrote it', async () => {
  await create(harness);
  const record = JSON.parse((await harness.cache.get('crm_token:dev')) as string);
  const expires_at = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z/, '+00:00');
  await harness.cache.set('crm_token:dev', JSON.stringify({ ...record, expires_at }), 60_000);
  const replica = harness.addReplica();
  await create(replica);
  assert.equal(await harness.org.calls('token'), 1);
});

it('writes neither tokens nor assertions nor keys to the log', async () => {
  await harness.crm.start();
  await create(harness);
  const { access_token: token } = JSON.parse((await harness.cache.get('crm_token:dev')) as string);
  await harness.org.revokeTokens();
  await create(harness);
  await harness.org.revokeTokens();
  await harness.org.fault(
    { kind: 'error', status: 400, errorCode: 'x', message: 'x', contentType: 'text/html' },
    { operation: 'token' },
    1,
  );
  await assert.rejects(create(harness), hasCode('crm_unavailable'));
  harness.secrets.put(keySecret, `${keys.privateKey.slice(0, 200)}\n-----END PRIVATE KEY-----`);
  await harness.crm.tokens.noticeKeyChange();
  await assert.rejects(create(harness), hasCode('crm_unavailable'));
  const text = JSON.stringify(harness.lines);
  assert.ok(harness.lines.length >= 4);
  assert.ok(!text.includes(token));
  assert.doesNotMatch(text, /eyJ|PRIVATE KEY-----|assertion=/);
  assert.ok(!text.includes(keys.privateKey.slice(100, 140)));
});

it('lives by the lifetime that a token names; of five minutes or less it keeps half, and warns', async (t) => {
  const org = await startCrmHarness({}, { tokenFormat: 'jwt', tokenLifetimeSeconds: 240 });
  t.after(async () => {
    await org.stop();
  });
  await org.crm.tokens.refreshIfDue();
  const record = JSON.parse((await org.cache.get('crm_token:dev')) as string);
  assert.ok(Date.parse(record.expires_at) <= Date.now() + 240_000);
  assert.ok(org.lines.some(({ level, facts }) => level === 'warn' && facts['lifetimeSeconds'] === 240));
  await org.crm.tokens.refreshIfDue();
  assert.equal(await org.org.calls('token'), 1);
});
