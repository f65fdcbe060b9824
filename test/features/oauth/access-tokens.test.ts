import assert from 'node:assert/strict';
import { createSecretKey, generateKeyPairSync } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { decodeJwt, decodeProtectedHeader, type JWTHeaderParameters, SignJWT } from 'jose';
import { type AccessTokens, createAccessTokens } from '../../../src/features/oauth/access-tokens.ts';
import { addSigningKey, SigningKeys, signingKeysName } from '../../../src/features/oauth/signing-keys.ts';
import type { CreatedConsumer } from '../../../src/identity/consumers/consumer-store.ts';
import { makeConsumerId, makeCredentialPair } from '../../../src/identity/consumers/credentials.ts';
import { consumerSecretName } from '../../../src/identity/consumers/stored-consumer.ts';
import { createTestConsumers, createTestSecrets } from '../../identity/consumers/fixture.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';

const issuer = 'https://handoff.example.com';
/** Of those who rotate. */
const refreshSeconds = 1;

describe('access tokens', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  let parts: ReturnType<typeof createTestConsumers>;
  let partner: CreatedConsumer;
  let here: { keys: SigningKeys; tokens: AccessTokens };
  let token: string;
  const opened: SigningKeys[] = [];

  const openKeys = async (environment = 'dev', secrets = store.secrets) => {
    const { clock } = parts;
    const { log } = recordLog();
    const keys = new SigningKeys({ secrets, log, refreshSeconds: 3600, clock, environment });
    opened.push(keys);
    await keys.start();
    return keys;
  };
  const replica = async (environment = 'dev', publicUrl = issuer, { directory } = parts.consumers) => {
    const { clock } = parts;
    const keys = await openKeys(environment);
    return { keys, tokens: createAccessTokens({ keys, directory, publicUrl: () => publicUrl, clock }) };
  };
  const issue = (tokens = here.tokens) => tokens.issue(partner.consumer.id, partner.apiKey, 'quotes:read');
  const resultOf = async (presented: string, tokens = here.tokens) =>
    (await tokens.authenticate(presented)).result;
  /** A token that we would have made, but for what is said here. */
  const forge = async (
    header: object,
    claims: object = {},
    key: Parameters<SignJWT['sign']>[0] = here.keys.signing().private,
  ) =>
    new SignJWT({ ...decodeJwt(token), ...claims })
      .setProtectedHeader({ ...decodeProtectedHeader(token), ...header } as JWTHeaderParameters)
      .sign(key);

  before(async () => {
    store = await createTestSecrets();
    parts = createTestConsumers(store.secrets);
    const permissions = [
      { resource: 'quotes', actions: ['read', 'write'] },
      { resource: 'bookings', actions: ['read'], records: 'own' },
    ];
    partner = await parts.consumers.administration.create({ name: 'Partner', permissions });
    await parts.consumers.start();
    here = await replica();
    token = await issue();
  });
  after(async () => {
    await Promise.all(opened.map((keys) => keys.stop()));
    await parts.consumers.stop();
    await store.remove();
  });

  test('say for whom, for what and until when they are', async () => {
    assert.deepEqual(decodeProtectedHeader(token), {
      alg: 'ES256',
      typ: 'at+jwt',
      kid: here.keys.signing().kid,
    });
    const { iat = 0, exp, jti, ...claims } = decodeJwt(token);
    assert.equal(exp, iat + 600);
    assert.match(jti ?? '', /^[0-9a-f-]{36}$/);
    const { id } = partner.consumer;
    assert.deepEqual(claims, {
      iss: issuer,
      aud: issuer,
      sub: id,
      client_id: partner.apiKey,
      scope: 'quotes:read',
    });
    const accepted = await here.tokens.authenticate(token);
    assert.ok(accepted.result === 'accepted');
    // What a permission says beside its actions stays, also where no scope is on it.
    assert.deepEqual(accepted.consumer.permissions, [
      { resource: 'quotes', actions: ['read'] },
      { resource: 'bookings', actions: [], records: 'own' },
    ]);
    assert.equal(accepted.credential, partner.apiKey);
  });

  test('are accepted at once, without another signature, when they come again', async () => {
    await here.tokens.authenticate(token);
    const again = here.tokens.authenticate(token);
    assert.ok('result' in again && again.result === 'accepted');
  });

  test('of others, or changed by anybody, are refused', async () => {
    const publicPem = here.keys.signing().public.export({ type: 'spki', format: 'pem' });
    const [head = '', body = '', signature = ''] = token.split('.');
    const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const unsigned = (alg: string) => `${encoded({ ...decodeProtectedHeader(token), alg })}.${body}.`;
    const foreign = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const jwk = foreign.publicKey.export({ format: 'jwk' });
    const forged: Record<string, string> = {
      'HS256 with the public key as secret': await forge(
        { alg: 'HS256' },
        {},
        createSecretKey(String(publicPem), 'utf8'),
      ),
      'no signature': unsigned('none'),
      'no signature, in capitals': unsigned('NONE'),
      'an empty signature': `${head}.${body}.`,
      'another signature': `${head}.${body}.${Buffer.alloc(64).toString('base64url')}`,
      'another key under our kid': await forge({}, {}, foreign.privateKey),
      'another key that it brings itself': await forge({ jwk, kid: undefined }, {}, foreign.privateKey),
      'a kid that names a file': await forge({ kid: '../../keys/pepper' }),
      'a kid that is no text': await forge({ kid: 1 }),
      'a kid of every object': await forge({ kid: '__proto__' }),
      'no kid': await forge({ kid: undefined }),
      'a critical extension': await forge({ crit: ['exp'], exp: 1 }).catch(
        () => `${encoded({ crit: ['x'], x: 1, alg: 'ES256' })}.${body}.${signature}`,
      ),
      'another type': await forge({ typ: 'JWT' }),
      'no type': await forge({ typ: undefined }),
      'another audience': await forge({}, { aud: 'https://other.example.com' }),
      'another issuer': await forge({}, { iss: 'https://other.example.com' }),
      'no expiry': await forge({}, { exp: undefined }),
      'no subject': await forge({}, { sub: undefined }),
      'not valid yet': await forge({}, { nbf: Math.floor(parts.clock() / 1000) + 3600 }),
      'wider claims': `${head}.${encoded({ ...decodeJwt(token), scope: 'consumers:write' })}.${signature}`,
      'no token': 'x',
      'parts missing': `${head}.${body}`,
      'too long': `${token}${'x'.repeat(5000)}`,
    };
    for (const [what, text] of Object.entries(forged))
      assert.equal(await resultOf(text), 'unknown_key', what);
    assert.equal(await resultOf(token), 'accepted');
  });

  test('say nothing of another consumer than the one whose key they name', async () => {
    const other = await parts.consumers.administration.create({
      name: 'Other',
      permissions: [{ resource: 'consumers', actions: ['write'] }],
    });
    assert.equal(await resultOf(await forge({}, { sub: other.consumer.id })), 'revoked');
    assert.equal(await resultOf(await forge({}, { client_id: 'hgk_x' })), 'revoked');
    assert.equal(await resultOf(await forge({}, { key: 'x' })), 'revoked');
    // Scopes that it does not have are worth nothing.
    const accepted = await here.tokens.authenticate(
      await forge({}, { scope: 'consumers:write quotes:delete members:read' }),
    );
    assert.ok(accepted.result === 'accepted');
    assert.deepEqual(
      accepted.consumer.permissions.flatMap(({ actions }) => actions),
      [],
    );
  });

  test('of another environment, or for another address, are refused', async () => {
    const staging = await replica('staging');
    assert.equal(await resultOf(await issue(staging.tokens)), 'unknown_key');
    assert.equal(await resultOf(token, staging.tokens), 'unknown_key');
    const elsewhere = await replica('dev', 'https://staging.example.com');
    assert.equal(await resultOf(token, elsewhere.tokens), 'unknown_key');
    assert.equal(await resultOf(await issue(elsewhere.tokens)), 'unknown_key');
    // With both addresses in it.
    assert.equal(
      await resultOf(await forge({}, { aud: [issuer, 'https://staging.example.com'] })),
      'unknown_key',
    );
  });

  test('survive a change of the signing key, on every replica, and the old key goes with its last token', async () => {
    const there = await replica();
    const old = await issue();
    const oldKid = here.keys.signing().kid;
    const { key } = await addSigningKey(store.secrets, 'dev', parts.clock(), refreshSeconds);
    parts.clock.advance(2000);
    // The new key is published before it signs.
    await eventually(() => assert.ok(here.keys.valid().some(({ kid }) => kid === key.kid)), {
      pause: () => here.keys.find(key.kid),
    });
    assert.equal(decodeProtectedHeader(await issue()).kid, oldKid);
    parts.clock.advance(10_000);
    const renewed = await issue();
    assert.equal(decodeProtectedHeader(renewed).kid, key.kid);
    for (const { tokens } of [here, there]) {
      assert.equal(await resultOf(old, tokens), 'accepted');
      assert.equal(await resultOf(renewed, tokens), 'accepted');
    }
    parts.clock.advance(588_000);
    assert.equal(await resultOf(old), 'expired');
    assert.deepEqual(
      here.keys.valid().map(({ kid }) => kid),
      [oldKid, key.kid],
    );
    parts.clock.advance(80_000);
    assert.deepEqual(
      here.keys.valid().map(({ kid }) => kid),
      [key.kid],
    );
    const { value } = await addSigningKey(store.secrets, 'dev', parts.clock(), refreshSeconds).then(
      ({ secret }) => secret,
    );
    assert.ok(!value.includes(oldKid));
    token = await issue();
  });

  test('survive the loss of the secret, and all end once there is another key in its place', async () => {
    assert.equal(await resultOf(token), 'accepted');
    const name = signingKeysName('dev');
    const found = await store.secrets.read(name);
    assert.ok(found);
    await store.secrets.delete(name, found.version);
    parts.clock.advance(2000);
    assert.equal(await resultOf(await forge({ kid: 'unknown' })), 'unknown_key');
    assert.equal(await resultOf(token), 'accepted');
    const { key } = await addSigningKey(store.secrets, 'dev', parts.clock(), refreshSeconds);
    parts.clock.advance(2000);
    await here.keys.find(key.kid);
    assert.equal(await resultOf(token), 'unknown_key');
    token = await issue();
    assert.equal(decodeProtectedHeader(token).kid, key.kid);
  });

  /** A replica that hears of no change, and reads consumers with `read`. */
  const lateReplica = async (read = store.secrets.read) => {
    const late = createTestConsumers({ ...store.secrets, read, watch: () => () => undefined });
    await late.consumers.start();
    await late.consumers.directory.refresh();
    return { ...late, ...(await replica('dev', issuer, late.consumers)) };
  };
  const newConsumer = () =>
    parts.consumers.administration.create({
      name: 'New',
      permissions: [{ resource: 'quotes', actions: ['read'] }],
    });

  test('of a consumer that could not be looked for are accepted once it can be', async () => {
    const there = await lateReplica();
    const { consumer, apiKey } = await newConsumer();
    const own = await here.tokens.issue(consumer.id, apiKey, 'quotes:read');
    // Somebody else's unknown key has the one look-up of this second.
    await there.consumers.directory.lookUp(makeCredentialPair(makeConsumerId()).apiKey);
    assert.equal(await resultOf(own, there.tokens), 'revoked');
    there.clock.advance(1000);
    assert.equal(await resultOf(own, there.tokens), 'accepted');
    await there.consumers.stop();
  });

  test('are verified again where their key went while they were verified', async () => {
    const reading = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    let heldName = '';
    const there = await lateReplica(async (name) => {
      if (name === heldName) {
        reading.resolve();
        await held.promise;
      }
      return store.secrets.read(name);
    });
    const { consumer, apiKey } = await newConsumer();
    heldName = consumerSecretName(consumer.id);
    const own = await here.tokens.issue(consumer.id, apiKey, 'quotes:read');
    const first = there.tokens.authenticate(own);
    await reading.promise;
    const name = signingKeysName('dev');
    const found = await store.secrets.read(name);
    await store.secrets.delete(name, found?.version ?? '');
    const { key } = await addSigningKey(store.secrets, 'dev', parts.clock(), refreshSeconds);
    parts.clock.advance(2000);
    for (const { keys } of [here, there]) await keys.find(key.kid);
    token = await issue();
    assert.equal(await resultOf(token, there.tokens), 'accepted');
    held.resolve();
    await first;
    assert.equal(await resultOf(own, there.tokens), 'unknown_key');
    await there.consumers.stop();
  });

  test('of replicas that start for the first time at once have one key', async () => {
    // Both see that there is none, twice.
    let reads = 0;
    let both = Promise.withResolvers<void>();
    const read: typeof store.secrets.read = async (name) => {
      const found = await store.secrets.read(name);
      reads += 1;
      if (reads > 4) return found;
      const { promise, resolve } = both;
      if (reads % 2 === 0) {
        both = Promise.withResolvers();
        resolve();
      }
      await promise;
      return found;
    };
    const secrets = { ...store.secrets, read, watch: () => () => undefined };
    const [one, other] = await Promise.all([openKeys('new', secrets), openKeys('new', secrets)]);
    assert.equal(one.signing().kid, other.signing().kid);
    assert.deepEqual([one.valid().length, other.valid().length], [1, 1]);
  });

  test('end with the consumer, its pair or its permission', async () => {
    const { administration } = parts.consumers;
    const { id } = partner.consumer;
    const held = await here.tokens.authenticate(token);
    assert.ok(held.result === 'accepted');
    await administration.change(id, { permissions: [{ resource: 'quotes', actions: ['write'] }] });
    const less = await here.tokens.authenticate(token);
    assert.ok(less.result === 'accepted');
    assert.deepEqual(less.consumer.permissions, [{ resource: 'quotes', actions: [] }]);
    await administration.change(id, { enabled: false });
    assert.equal(await resultOf(token), 'disabled');
    await administration.change(id, {
      enabled: true,
      validUntil: new Date(parts.clock() + 1000).toISOString(),
    });
    assert.equal(await resultOf(token), 'accepted');
    parts.clock.advance(1000);
    assert.equal(await resultOf(token), 'expired');
    await administration.change(id, { validUntil: null });
    await administration.rotate(id, 0);
    assert.equal(await resultOf(token), 'expired');
  });
});
