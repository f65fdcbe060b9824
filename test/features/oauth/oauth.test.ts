import assert from 'node:assert/strict';
import { createSecretKey, randomUUID, sign } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { decodeJwt, type JWTPayload } from 'jose';
import type { OAuth2Error } from 'oauth4webapi';
import { assertionOf, makeKeys, type Partner } from '../../support/assertions.ts';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';
import { freePort } from '../../support/ports.ts';
import { startPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { assertionType, tokenCalls } from '../../support/token-calls.ts';

const postgres = await startPostgres();

describe('tokens, on two replicas', { skip: postgres === undefined && process.env['CI'] !== 'true' }, () => {
  let here: TestGateway;
  let there: TestGateway;
  let issuer: string;
  let calls: ReturnType<typeof tokenCalls>;

  before(async () => {
    const port = await freePort();
    issuer = `http://127.0.0.1:${port}`;
    const common = { DATABASE_URL: postgres?.url, PUBLIC_URL: `${issuer}/`, TRUST_PROXIES: '127.0.0.1' };
    here = await startGateway({ ...common, PORT: String(port), RATE_LIMIT_FAILED_PER_MINUTE: '100' });
    calls = tokenCalls(here, issuer);
    there = await startGateway({ ...common, SECRETS_DIR: `${here.dataDir}/secrets` });
  });
  after(async () => {
    await there.stop();
    await here.stop();
    await postgres?.stop();
  });

  describe('for assertions', () => {
    let partner: Partner & Credentials;
    before(async () => {
      partner = await calls.newPartner();
    });
    const inSeconds = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;

    test('that are right, with or without a kid', async () => {
      for (const header of [{}, { kid: 'first' }, { typ: 'JWT' }, { typ: 'client-authentication+jwt' }])
        assert.equal((await calls.askWithAssertion(partner, {}, header)).status, 200);
      for (const claims of [{ aud: [issuer] }, { exp: inSeconds(299) }, { nbf: inSeconds(5) }])
        assert.equal((await calls.askWithAssertion(partner, claims)).status, 200);
      const client_assertion = await assertionOf(partner, issuer);
      const fields = { client_assertion_type: assertionType, client_assertion };
      await calls.assertError(
        await calls.ask({ ...fields, client_id: here.console.id }),
        401,
        'invalid_client',
      );
      assert.equal((await calls.ask({ ...fields, client_id: partner.id })).status, 200);
    });

    test('and none with a claim that is wrong', async () => {
      const wrong: Record<string, JWTPayload> = {
        'the token endpoint as aud': { aud: `${issuer}/oauth/token` },
        'a slash behind aud': { aud: `${issuer}/` },
        'two audiences': { aud: [issuer, 'https://other.example.com'] },
        'the same twice': { aud: [issuer, issuer] },
        'no aud': { aud: undefined as never },
        'another environment as aud': { aud: 'https://staging.example.com' },
        'an exp long ahead': { exp: inSeconds(360) },
        'an exp in the past': { exp: inSeconds(-1) },
        'an exp in milliseconds': { exp: Date.now() },
        'no exp': { exp: undefined as never },
        'an exp that is text': { exp: '9999999999' as never },
        'an nbf ahead': { nbf: inSeconds(60) },
        'an iat ahead': { iat: inSeconds(60) },
        'no jti': { jti: undefined as never },
        'an empty jti': { jti: '' },
        'a long jti': { jti: 'x'.repeat(256) },
        'a jti that is no text': { jti: 5 as never },
        'another iss': { iss: here.console.id },
        'no iss': { iss: undefined as never },
        'another sub': { sub: here.console.id },
        'no consumer as sub': { sub: 'con_0000000000000000', iss: 'con_0000000000000000' },
        'a path as sub': { sub: '../keys/pepper', iss: '../keys/pepper' },
      };
      for (const [what, claims] of Object.entries(wrong)) {
        const response = await calls.askWithAssertion(partner, claims);
        assert.equal(response.status, 401, what);
        await calls.assertError(response, 401, 'invalid_client');
      }
      const { error_description } = await calls.assertError(
        await calls.askWithAssertion(partner, { aud: 'x' }),
        401,
        'invalid_client',
      );
      assert.match(error_description, /aud of the assertion must be http:/);
    });

    test('and none that another key, or none, has signed', async () => {
      const other = await calls.newPartner();
      const pem = Buffer.from(JSON.stringify(makeKeys('ES256').jwk));
      const right = await assertionOf(partner, issuer);
      const [head = '', body = '', signature = ''] = right.split('.');
      const none = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url');
      const signed = (header: object, claims: object, dsaEncoding: 'der' | 'ieee-p1363' = 'ieee-p1363') => {
        const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
        const text = `${encoded(header)}.${encoded(claims)}`;
        const signedWith = sign('sha256', Buffer.from(text), { key: partner.privateKey, dsaEncoding });
        return `${text}.${signedWith.toString('base64url')}`;
      };
      const wrong: Record<string, string> = {
        'the key of another consumer': await assertionOf(
          { ...partner, privateKey: other.privateKey },
          issuer,
        ),
        'a key that it brings itself': await assertionOf(
          { ...partner, privateKey: other.privateKey },
          issuer,
          {},
          { jwk: makeKeys('ES256').jwk },
        ),
        HS256: await assertionOf({ ...partner, alg: 'HS256', privateKey: createSecretKey(pem) }, issuer),
        'HS256 with the API secret': await assertionOf(
          { ...partner, alg: 'HS256', privateKey: createSecretKey(partner.apiSecret, 'utf8') },
          issuer,
        ),
        'another algorithm': await assertionOf({ ...makeKeys('RS256'), id: partner.id }, issuer),
        none: `${none}.${body}.`,
        'no signature': `${head}.${body}.`,
        'another kid': await assertionOf(partner, issuer, {}, { kid: 'second' }),
        'a kid that is a path': await assertionOf(partner, issuer, {}, { kid: '../../../dev/null' }),
        'a body that was changed': `${head}.${Buffer.from(JSON.stringify({ sub: partner.id, iss: partner.id, aud: issuer, exp: inSeconds(60), jti: 'x' })).toString('base64url')}.${signature}`,
        'no JWT': 'x.y.z',
        'a long text': 'x'.repeat(9000),
        'an address of keys': await assertionOf(
          { ...partner, privateKey: other.privateKey },
          issuer,
          {},
          { jku: `${issuer}/oauth/jwks`, x5u: `${issuer}/oauth/jwks` },
        ),
        'the kid of a key of another consumer': await assertionOf(
          partner,
          issuer,
          {},
          { kid: `${other.id}/first` },
        ),
        'a critical extension': signed({ alg: 'ES256', crit: ['x'], x: 1 }, decodeJwt(right)),
        'a body that is not encoded': signed({ alg: 'ES256', crit: ['b64'], b64: false }, decodeJwt(right)),
        'another curve': signed({ alg: 'ES384' }, decodeJwt(right)),
        'a list of algorithms': signed({ alg: ['ES256'] }, decodeJwt(right)),
        'a signature of another form': signed({ alg: 'ES256' }, decodeJwt(right), 'der'),
      };
      for (const [what, client_assertion] of Object.entries(wrong)) {
        const response = await calls.ask({ client_assertion_type: assertionType, client_assertion });
        assert.ok([400, 401].includes(response.status), what);
        assert.match(((await response.json()) as OAuth2Error).error, /^invalid_(?:client|request)$/, what);
      }
      const type = 'urn:ietf:params:oauth:client-assertion-type:saml2-bearer';
      await calls.assertError(
        await calls.ask({ client_assertion_type: type, client_assertion: right }),
        400,
        'invalid_request',
      );
      // None of these has used it up.
      assert.equal(
        (await calls.ask({ client_assertion_type: assertionType, client_assertion: right })).status,
        200,
      );
    });

    test('with the algorithm that the key is for, and with each of the keys that have its kid', async () => {
      const { jwk, privateKey } = makeKeys('RS256');
      const second = makeKeys('ES256');
      const kid = 'same';
      const publicKeys = [
        { ...jwk, kid, alg: 'RS256' },
        { ...makeKeys('ES256').jwk, kid },
        { ...second.jwk, kid },
      ];
      const { id } = await calls.newConsumer({ publicKeys });
      const statusOf = async (alg: string, key = privateKey) =>
        (await calls.askWithAssertion({ id, privateKey: key, alg, kid })).status;
      assert.deepEqual([await statusOf('RS256'), await statusOf('ES256', second.privateKey)], [200, 200]);
      for (const alg of ['PS256', 'RS384', 'RS512', 'PS512']) assert.equal(await statusOf(alg), 401, alg);
      // Of two consumers with one key, each is itself only.
      const twin = await calls.newConsumer({ publicKeys });
      const byTwin = { privateKey: second.privateKey, alg: 'ES256', id: twin.id };
      const { access_token } = (await (await calls.askWithAssertion(byTwin)).json()) as {
        access_token: string;
      };
      assert.equal(decodeJwt(access_token).sub, twin.id);
    });

    test('and each once, on whichever replica', async () => {
      const fields = {
        client_assertion_type: assertionType,
        client_assertion: await assertionOf(partner, issuer),
      };
      const answers = await Promise.all(
        [here, there, here, there].map((gateway) => calls.ask(fields, {}, gateway)),
      );
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 401, 401, 401]);
      // Another consumer may use the same id.
      const jti = randomUUID();
      assert.equal((await calls.askWithAssertion(partner, { jti }, {}, there)).status, 200);
      assert.equal((await calls.askWithAssertion(await calls.newPartner(), { jti })).status, 200);
      await calls.assertError(
        await calls.askWithAssertion(partner, { jti, exp: inSeconds(120) }),
        401,
        'invalid_client',
      );
    });
  });

  describe('are accepted', () => {
    test('wherever a pair is, and not beside one', async () => {
      const partner = await calls.newConsumer();
      const token = await calls.tokenFor({ ...calls.withPair(partner), scope: 'quotes:read' });
      for (const gateway of [here, there])
        assert.equal((await calls.call('/v1/quotes', token, { gateway })).status, 200);
      for (const scheme of ['bearer', 'BEARER'])
        assert.equal(
          (await fetch(`${issuer}/v1/quotes`, { headers: { authorization: `${scheme} ${token}` } })).status,
          200,
        );
      const { apiKey, apiSecret } = partner;
      for (const headers of [
        { 'x-api-key': apiKey, 'x-api-secret': apiSecret },
        { 'x-api-key': 'x' },
        { 'x-api-secret': 'x' },
      ]) {
        await assertProblem(
          await calls.call('/v1/quotes', token, { headers }),
          400,
          'invalid_request',
          'Authorization',
        );
        await assertProblem(
          await calls.call('/v1/healthz', token, { headers }),
          400,
          'invalid_request',
          'Authorization',
        );
      }
      const both = await calls.call('/v1/quotes', token, {
        headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret },
      });
      await both.body?.cancel();
      assert.notEqual(both.headers.get('ratelimit'), null, 'it counts by its consumer');
      // Of a proxy, say.
      const basic = await here.request('/v1/quotes', {
        as: partner,
        headers: { authorization: 'Basic eA==' },
      });
      assert.equal(basic.status, 200);
      const health = (await (await calls.call('/v1/healthz', token)).json()) as { crm: object };
      assert.ok('user' in health.crm, JSON.stringify(health));
    });

    test('or challenged', async () => {
      const metadata = `resource_metadata="${issuer}/.well-known/oauth-protected-resource"`;
      const challengeOf = async (response: Response) => {
        await response.body?.cancel();
        return [response.status, response.headers.get('www-authenticate')];
      };
      const realm = 'realm="handoff-gateway"';
      assert.deepEqual(await challengeOf(await here.request('/v1/quotes', { as: null })), [
        401,
        `ApiKey ${realm}, Bearer ${realm}, ${metadata}`,
      ]);
      const own = await calls.tokenFor(calls.withPair(here.console));
      for (const token of ['', 'x', 'a b', ` ${own}`, `${own} x`, `${own}, Bearer ${own}`])
        assert.deepEqual(await challengeOf(await calls.call('/v1/quotes', token)), [
          401,
          `ApiKey ${realm}, Bearer ${realm}, error="invalid_token", ${metadata}`,
        ]);
      const token = await calls.tokenFor({ ...calls.withPair(here.console), scope: 'quotes:read' });
      assert.deepEqual(await challengeOf(await calls.call('/v1/bookings', token)), [
        403,
        `Bearer ${realm}, error="insufficient_scope", scope="bookings:read", ${metadata}`,
      ]);
      await assertProblem(await calls.call('/v1/bookings', token), 403, 'permission_denied');
    });

    test('for no more than they are for, whatever the consumer may', async () => {
      const token = await calls.tokenFor({
        ...calls.withPair(here.admin),
        scope: 'consumers:write consumers:read',
      });
      const send = (method: string, path: string, body?: object) =>
        calls.call(`/v1/admin/consumers${path}`, token, {
          method,
          ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
        });
      // What it could not do itself it may not let another do, nor take over another that can.
      const wider = { name: 'x', permissions: [{ resource: 'quotes', actions: ['read'] }] };
      assert.equal((await send('POST', '', wider)).status, 403);
      assert.equal((await send('POST', `/${here.console.id}/rotate`)).status, 403);
      assert.equal((await send('POST', `/${here.admin.id}/rotate`)).status, 403);
      assert.equal(
        (await send('PATCH', `/${here.console.id}`, { publicKeys: [makeKeys('ES256').jwk] })).status,
        403,
      );
      const same = { name: 'x', permissions: [{ resource: 'consumers', actions: ['read'] }] };
      assert.equal((await send('POST', '', same)).status, 201);
      assert.equal((await send('DELETE', `/${here.console.id}`)).status, 403);
    });

    test('under every limit of the consumer', async () => {
      const partner = await calls.newPartner('ES256', {
        rateLimitPerMinute: 4,
        allowedAddresses: ['192.0.2.1'],
      });
      const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });
      const fields = {
        client_assertion_type: assertionType,
        client_assertion: await assertionOf(partner, issuer),
      };
      await calls.assertError(await calls.ask(fields, from('192.0.2.2').headers), 401, 'invalid_client');
      fields.client_assertion = await assertionOf(partner, issuer);
      const { access_token } = (await (await calls.ask(fields, from('192.0.2.1').headers)).json()) as {
        access_token: string;
      };
      await assertProblem(
        await calls.call('/v1/quotes', access_token, from('192.0.2.2')),
        403,
        'address_not_allowed',
      );
      assert.equal((await calls.call('/v1/quotes', access_token, from('192.0.2.1'))).status, 200);
      const bound = await calls.newConsumer({ certificateFingerprints: ['0'.repeat(64)] });
      await calls.assertError(await calls.ask(calls.withPair(bound)), 401, 'invalid_client');
      const free = await calls.newConsumer();
      const token = await calls.tokenFor(calls.withPair(free));
      await calls.administer('PATCH', `/${free.id}`, { certificateFingerprints: ['0'.repeat(64)] });
      await assertProblem(await calls.call('/v1/quotes', token), 401, 'invalid_credentials');
      for (let i = 0; i < 2; i++)
        await (await calls.call('/v1/quotes', access_token, from('192.0.2.1'))).text();
      await assertProblem(
        await calls.call('/v1/quotes', access_token, from('192.0.2.1')),
        429,
        'rate_limited',
      );
      fields.client_assertion = await assertionOf(partner, issuer);
      await assertProblem(await calls.ask(fields, from('192.0.2.1').headers), 429, 'rate_limited');
    });

    test('until the consumer, its pair or its key is gone, on every replica', async () => {
      const ends = async (end: (partner: Partner & Credentials) => Promise<unknown>, by: 'pair' | 'key') => {
        const partner = await calls.newPartner();
        const fields =
          by === 'pair'
            ? calls.withPair(partner)
            : { client_assertion_type: assertionType, client_assertion: await assertionOf(partner, issuer) };
        const token = await calls.tokenFor(fields);
        // The other replica has not heard of that consumer, perhaps.
        assert.equal((await calls.call('/v1/quotes', token)).status, 200);
        await eventually(async () =>
          assert.equal((await calls.call('/v1/quotes', token, { gateway: there })).status, 200),
        );
        await end(partner);
        assert.equal((await calls.call('/v1/quotes', token)).status, 401);
        await eventually(async () =>
          assert.equal((await calls.call('/v1/quotes', token, { gateway: there })).status, 401),
        );
      };
      await ends(({ id }) => calls.administer('PATCH', `/${id}`, { enabled: false }), 'pair');
      await ends(({ id }) => calls.administer('DELETE', `/${id}`), 'pair');
      await ends(({ id }) => calls.administer('POST', `/${id}/rotate`, { graceWindowHours: 0 }), 'pair');
      await ends(
        ({ id }) => calls.administer('PATCH', `/${id}`, { validUntil: '2020-01-01T00:00:00Z' }),
        'key',
      );
      await ends(({ id }) => calls.administer('PATCH', `/${id}`, { publicKeys: [] }), 'key');
      await ends(
        ({ id }) =>
          calls.administer('PATCH', `/${id}`, { publicKeys: [{ ...makeKeys('ES256').jwk, kid: 'first' }] }),
        'key',
      );
    });

    /** The newest attempts first, once there are so many. */
    const attemptsOf = async (consumerId: string, count: number): Promise<Record<string, unknown>[]> => {
      const path = `/v1/admin/auth-attempts?consumer_id=${consumerId}`;
      return eventually(async () => {
        const answer = await here.request(path, { as: here.admin });
        const { data } = (await answer.json()) as { data: Record<string, unknown>[] };
        assert.ok(data.length >= count, `${data.length} of ${count} attempts`);
        return data;
      });
    };

    test('and recorded, whatever text a client is called', async () => {
      // With its escapes it is cut within the last character.
      await calls.ask({ client_id: `${'\u0001'.repeat(10)}aaa😀`, client_secret: 'x' });
      const partner = await calls.newPartner();
      await calls.tokenFor(calls.withPair(partner));
      assert.equal((await attemptsOf(partner.id, 1)).length, 1);
    });

    test('and recorded, without ever being written down', async () => {
      const partner = await calls.newPartner();
      const client_assertion = await assertionOf(partner, issuer);
      const byKey = await calls.tokenFor({ client_assertion_type: assertionType, client_assertion });
      const byPair = await calls.tokenFor(calls.withPair(partner));
      await calls.ask({ client_id: partner.apiKey, client_secret: here.admin.apiSecret });
      await calls.call('/v1/quotes', byPair);
      await calls.call('/v1/quotes', byKey);
      await calls.call('/v1/quotes', `${byKey}x`);
      const attempts = await attemptsOf(partner.id, 5);
      const seen = attempts.map(({ endpoint, result, api_key, status }) => [
        endpoint,
        result,
        api_key,
        status,
      ]);
      assert.deepEqual(seen.reverse(), [
        ['POST /oauth/token', 'accepted', null, 200],
        ['POST /oauth/token', 'accepted', partner.apiKey, 200],
        ['POST /oauth/token', 'wrong_secret', partner.apiKey, 401],
        ['GET /v1/quotes', 'accepted', partner.apiKey, 200],
        ['GET /v1/quotes', 'accepted', null, 200],
      ]);
      const shown = await calls.administer('GET', `/${partner.id}`);
      assert.notEqual(shown['lastUsedAt'], null);
      const logged = JSON.stringify([here.logLines, there.logLines]);
      for (const secret of [byKey, byPair, client_assertion, partner.apiSecret])
        assert.ok(!logged.includes(secret.slice(-40)));
    });

    test('and recorded as those who asked, whatever other headers say', async () => {
      const [caller, other] = [await calls.newConsumer(), await calls.newPartner()];
      const headers = { 'x-api-key': other.apiKey };
      assert.equal((await calls.ask(calls.withPair(caller), headers)).status, 200);
      const partner = await calls.newPartner();
      const assertion = { client_assertion: await assertionOf(partner, issuer) };
      const fields = { client_assertion_type: assertionType, ...assertion };
      assert.equal((await calls.ask(fields, headers)).status, 200);
      for (const [{ id }, apiKey] of [
        [caller, caller.apiKey],
        [partner, null],
      ] as const) {
        const attempts = await attemptsOf(id, 1);
        assert.deepEqual(
          attempts.map(({ api_key }) => api_key),
          [apiKey],
        );
      }
      assert.equal((await calls.administer('GET', `/${other.id}`))['lastUsedAt'], null);
    });

    test('and too many wrong ones from one address are refused as wrong pairs are', async () => {
      const from = { 'x-forwarded-for': '198.51.100.7' };
      const wrong = () => calls.ask({ client_id: 'hgk_x', client_secret: 'x' }, from);
      let last = await wrong();
      for (let i = 0; i < 110 && last.status !== 429; i++) {
        await last.body?.cancel();
        last = await wrong();
      }
      await assertProblem(last, 429, 'rate_limited');
      assert.equal((await calls.ask(calls.withPair(here.console), from)).status, 200);
    });
  });

  test('no token rotates the pair of its consumer, whatever it is for', async () => {
    const partner = await calls.newPartner();
    const rotate = (token: string) => calls.call('/v1/consumer/rotate', token, { method: 'POST' });
    const client_assertion = await assertionOf(partner, issuer);
    for (const fields of [
      { ...calls.withPair(partner), scope: 'quotes:read' },
      calls.withPair(partner),
      { client_assertion_type: assertionType, client_assertion },
    ])
      await assertProblem(await rotate(await calls.tokenFor(fields)), 403, 'permission_denied');
    const shown = await calls.administer('GET', `/${partner.id}`);
    assert.equal(shown.apiKey, partner.apiKey);
  });
});
