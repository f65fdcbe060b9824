import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';
import { algorithms, makeKeys } from '../../support/assertions.ts';
import { useGateway } from '../../support/gateway.ts';
import { assertProblem } from '../../support/problems.ts';
import { assertionType, tokenCalls } from '../../support/token-calls.ts';

const insecure = { [oauth.allowInsecureRequests]: true };

describe('tokens', () => {
  const here = useGateway();
  let issuer: string;
  let calls: ReturnType<typeof tokenCalls>;

  before(async () => {
    issuer = here.url;
    calls = tokenCalls(here, issuer);
  });

  describe('for real clients', () => {
    test('oauth4webapi finds the service and gets tokens in three ways', async () => {
      const url = new URL(issuer);
      const found = await oauth.discoveryRequest(url, { algorithm: 'oauth2', ...insecure });
      const server = await oauth.processDiscoveryResponse(url, found);
      const partner = await calls.newPartner();
      const key = await crypto.subtle.importKey(
        ...([
          'jwk',
          partner.privateKey.export({ format: 'jwk' }),
          { name: 'ECDSA', namedCurve: 'P-256' },
          false,
          ['sign'],
        ] as const),
      );
      const ways: [string, oauth.ClientAuth][] = [
        [partner.apiKey, oauth.ClientSecretBasic(partner.apiSecret)],
        [partner.apiKey, oauth.ClientSecretPost(partner.apiSecret)],
        [partner.id, oauth.PrivateKeyJwt({ key, kid: 'first' })],
      ];
      for (const [client_id, way] of ways) {
        const client = { client_id };
        const parameters = { scope: 'quotes:read members:read', resource: `${issuer}/` };
        const response = await oauth.clientCredentialsGrantRequest(server, client, way, parameters, insecure);
        const token = await oauth.processClientCredentialsResponse(server, client, response);
        assert.equal(token.expires_in, 600);
        // Less than was asked for, and said so.
        assert.equal(token.scope, 'quotes:read');
        const request = new Request(`${issuer}/v1/quotes`, {
          headers: { authorization: `Bearer ${token.access_token}` },
        });
        const claims = await oauth.validateJwtAccessToken(server, request, issuer, insecure);
        assert.equal(claims.sub, partner.id);
        assert.equal((await fetch(request)).status, 200);
      }
    });

    test('oauth4webapi finds the resource, and learns what is wrong', async () => {
      const url = new URL(issuer);
      const found = await oauth.resourceDiscoveryRequest(url, insecure);
      const resource = await oauth.processResourceDiscoveryResponse(url, found);
      assert.deepEqual(resource.authorization_servers, [issuer]);
      assert.deepEqual(resource.bearer_methods_supported, ['header']);
      const server = await oauth.processDiscoveryResponse(
        url,
        await oauth.discoveryRequest(url, { algorithm: 'oauth2', ...insecure }),
      );
      const client = { client_id: here.console.apiKey };
      const get = async (way: oauth.ClientAuth, scope = 'quotes:read') =>
        oauth.processClientCredentialsResponse(
          server,
          client,
          await oauth.clientCredentialsGrantRequest(server, client, way, { scope }, insecure),
        );
      await assert.rejects(get(oauth.ClientSecretPost('hgs_wrong')), {
        error: 'invalid_client',
        status: 401,
      });
      await assert.rejects(
        get(oauth.ClientSecretBasic('hgs_wrong')),
        (error) => error instanceof oauth.WWWAuthenticateChallengeError,
      );
      const right = oauth.ClientSecretBasic(here.console.apiSecret);
      await assert.rejects(get(right, 'consumers:write'), { error: 'invalid_scope', status: 400 });
    });

    test('openid-client gets tokens', async () => {
      const options: openid.DiscoveryRequestOptions = {
        algorithm: 'oauth2',
        execute: [openid.allowInsecureRequests],
      };
      const { apiKey, apiSecret } = here.console;
      const config = await openid.discovery(new URL(issuer), apiKey, apiSecret, undefined, options);
      const token = await openid.clientCredentialsGrant(config, { scope: 'members:read' });
      assert.equal(token.scope, 'members:read');
      assert.ok((token.expiresIn() ?? 0) > 590);
      assert.equal((await calls.call('/v1/members?limit=1', token.access_token)).status, 200);
    });

    test('oauth4webapi finds the issuer of tokens for the tools by their address alone', async () => {
      const tools = new URL(`${issuer}/mcp`);
      const response = await oauth.resourceDiscoveryRequest(tools, { [oauth.allowInsecureRequests]: true });
      const { authorization_servers } = await oauth.processResourceDiscoveryResponse(tools, response);
      assert.deepEqual(authorization_servers, [issuer]);
      const fields = { ...calls.withPair(here.console), resource: tools.href };
      const token = await calls.tokenFor(fields);
      const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      assert.equal((await fetch(tools, { method: 'POST', headers, body: JSON.stringify(list) })).status, 200);
    });

    test('the metadata has what stricter clients need', async () => {
      const read = async (path: string) =>
        (await (await fetch(issuer + path)).json()) as Record<string, unknown>;
      const server = await read('/.well-known/oauth-authorization-server');
      assert.equal(server['issuer'], issuer);
      assert.deepEqual(server['response_types_supported'], []);
      const refusal = await fetch(
        `${String(server['authorization_endpoint'])}?response_type=code&client_id=x`,
      );
      await calls.assertError(refusal, 400, 'unsupported_response_type');
      for (const path of ['', '/mcp']) {
        const { resource, authorization_servers } = await read(
          `/.well-known/oauth-protected-resource${path}`,
        );
        assert.deepEqual([resource, authorization_servers], [issuer + path, [issuer]]);
      }
      const token = await calls.tokenFor(calls.withPair(here.console));
      const keys = createRemoteJWKSet(new URL(String(server['jwks_uri'])));
      const { payload } = await jwtVerify(token, keys, { issuer, audience: issuer, typ: 'at+jwt' });
      assert.equal(payload.sub, here.console.id);
      const { keys: published } = (await read('/oauth/jwks')) as { keys: object[] };
      for (const key of published)
        assert.deepEqual(Object.keys(key).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y']);
    });

    for (const alg of algorithms) {
      test(`a private key of the kind ${alg} is enough`, async () => {
        const response = await calls.askWithAssertion(await calls.newPartner(alg), {}, { kid: 'first' });
        assert.equal(response.status, 200, await response.text());
      });
    }
  });

  describe('are issued', () => {
    test('for all that the consumer may, unless less is asked for', async () => {
      const partner = await calls.newConsumer();
      const scopeOf = async (fields: object) =>
        ((await (await calls.ask({ ...calls.withPair(partner), ...fields })).json()) as { scope: string })
          .scope;
      assert.equal(await scopeOf({}), 'quotes:read quotes:write');
      assert.equal(await scopeOf({ scope: '' }), 'quotes:read quotes:write');
      assert.equal(await scopeOf({ scope: 'quotes:write quotes:delete offline_access' }), 'quotes:write');
      for (const scope of ['quotes:delete', 'quotes', '*', ' ', 'QUOTES:READ'])
        await calls.assertError(await calls.ask({ ...calls.withPair(partner), scope }), 400, 'invalid_scope');
    });

    test('for this service only', async () => {
      const get = (resource: string) => calls.ask({ ...calls.withPair(here.console), resource });
      for (const resource of [issuer, `${issuer}/`, `${issuer}/mcp`])
        assert.equal((await get(resource)).status, 200, resource);
      for (const resource of ['https://other.example.com', `${issuer}.evil.example`, `${issuer}/#x`, 'x'])
        await calls.assertError(await get(resource), 400, 'invalid_target');
    });

    test('for a form and nothing else', async () => {
      const post = (body: string, type: string) =>
        fetch(`${issuer}/oauth/token`, { method: 'POST', headers: { 'content-type': type }, body });
      const json = JSON.stringify({ grant_type: 'client_credentials', ...calls.withPair(here.console) });
      for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x'])
        await assertProblem(await post(json, type), 415, 'unsupported_media_type');
      const form = new URLSearchParams({ grant_type: 'client_credentials', ...calls.withPair(here.console) });
      assert.equal(
        (await post(String(form), 'Application/X-WWW-Form-URLEncoded; charset=UTF-8')).status,
        200,
      );
      await assertProblem(
        await post(`${String(form)}&x=${'x'.repeat(20_000)}`, 'application/x-www-form-urlencoded'),
        413,
        'payload_too_large',
      );
      await assertProblem(
        await here.request('/api/v1/handoff', {
          body: 'a=b',
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
        }),
        415,
        'unsupported_media_type',
      );
      assert.equal((await fetch(`${issuer}/oauth/token`)).status, 405);
    });

    test('where the request is in order', async () => {
      const pair = Object.entries(calls.withPair(here.console));
      for (const name of ['scope', 'client_secret', 'nonsense', '__proto__']) {
        const body = new URLSearchParams([
          ['grant_type', 'client_credentials'],
          ...pair,
          [name, 'x'],
          [name, 'x'],
        ]);
        const response = await fetch(`${issuer}/oauth/token`, { method: 'POST', body });
        await calls.assertError(response, 400, 'invalid_request');
      }
      const types = {
        '': 'invalid_request',
        password: 'unsupported_grant_type',
        refresh_token: 'unsupported_grant_type',
      };
      for (const [grant_type, error] of Object.entries(types))
        await calls.assertError(await calls.ask({ ...calls.withPair(here.console), grant_type }), 400, error);
      const { apiKey, apiSecret } = here.console;
      const basic = (id: string, secret: string) => ({ authorization: `Basic ${btoa(`${id}:${secret}`)}` });
      await calls.assertError(
        await calls.ask(calls.withPair(here.console), basic(apiKey, apiSecret)),
        400,
        'invalid_request',
      );
      await calls.assertError(
        await calls.ask({ client_id: here.admin.apiKey }, basic(apiKey, apiSecret)),
        400,
        'invalid_request',
      );
      await calls.assertError(
        await calls.ask({ ...calls.withPair(here.console), client_assertion_type: assertionType }),
        400,
        'invalid_request',
      );
      assert.equal(
        (await calls.ask({}, basic(encodeURIComponent(apiKey).replaceAll('_', '%5F'), apiSecret))).status,
        200,
      );
      assert.equal((await calls.ask({ client_id: apiKey }, basic(apiKey, apiSecret))).status, 200);
    });

    test('to nobody else', async () => {
      const { console, admin } = here;
      const wrong: Record<string, Record<string, string>> = {
        'another secret': { client_id: console.apiKey, client_secret: admin.apiSecret },
        'an unknown id': { client_id: 'hgk_x', client_secret: console.apiSecret },
        'the id of the consumer': { client_id: console.id, client_secret: console.apiSecret },
        'no secret': { client_id: console.apiKey },
        nothing: {},
      };
      for (const [what, fields] of Object.entries(wrong)) {
        const response = await calls.ask(fields);
        assert.equal(response.headers.get('www-authenticate'), null, what);
        const { error_description } = await calls.assertError(response, 401, 'invalid_client');
        assert.match(error_description, /^Authenticate as a client that exists/);
      }
      for (const authorization of [
        'Basic',
        'Basic %%%',
        `Basic ${btoa('x')}`,
        `Basic ${btoa('%:%')}`,
        'Bearer x',
        'Digest x',
      ]) {
        const response = await calls.ask({}, { authorization });
        assert.match(response.headers.get('www-authenticate') ?? '', /^Basic /, authorization);
        await calls.assertError(response, 401, 'invalid_client');
      }
    });
  });

  describe('public keys of a consumer', () => {
    test('are shown as they were set, and refused where they are of no use', async () => {
      const keys = algorithms.map((alg, i) => ({ ...makeKeys(alg).jwk, kid: `k${i}` }));
      const { id } = await calls.newConsumer({ publicKeys: keys });
      const shown = await calls.administer('GET', `/${id}`);
      assert.deepEqual(
        shown['publicKeys'],
        keys.map(({ kty, crv, x, y, n, e, kid }) =>
          JSON.parse(JSON.stringify({ kty, crv, x, y, n, e, kid })),
        ),
      );
      const patch = (publicKeys: unknown) =>
        here.request(`/v1/admin/consumers/${id}`, { method: 'PATCH', as: here.admin, body: { publicKeys } });
      const { jwk, privateKey } = makeKeys('ES256');
      const secret = privateKey.export({ format: 'jwk' });
      const refused = await assertProblem(await patch([secret]), 400, 'invalid_request', '#/publicKeys/0/d');
      assert.ok(!JSON.stringify(refused).includes(String(secret.d)));
      const wrong = [
        { ...jwk, crv: 'P-384' },
        { ...jwk, y: jwk.x },
        { ...jwk, alg: 'HS256' },
        { ...jwk, use: 'enc' },
        { kty: 'RSA', n: 'AQAB', e: 'AQAB' },
      ];
      for (const key of wrong)
        await assertProblem(await patch([jwk, key]), 400, 'invalid_request', '#/publicKeys/1');
      const even = Buffer.from(makeKeys('RS256').jwk.n as string, 'base64url');
      even[even.length - 1] = (even.at(-1) as number) & 0xfe;
      const forgeable = [{ kty: 'RSA', e: 'AQAB', n: even.toString('base64url') }, ...smallOrderKeys()];
      for (const key of forgeable)
        await assertProblem(await patch([jwk, key]), 400, 'invalid_request', '#/publicKeys/1');
      await assertProblem(
        await patch([{ kty: 'oct', k: 'c2VjcmV0' }]),
        400,
        'invalid_request',
        '#/publicKeys/0/kty',
        '#/publicKeys/0/k',
      );
      await assertProblem(await patch([...keys, jwk]), 400, 'invalid_request', '#/publicKeys');
      assert.equal((await patch([{ ...jwk, ext: true, key_ops: ['verify'] }])).status, 200);
      assert.deepEqual(
        (await calls.administer('GET', `/${id}`))['publicKeys'],
        [jwk].map(({ kty, crv, x, y }) => ({ kty, crv, x, y })),
      );
      const { data } = (await (
        await here.request(`/v1/admin/audit-events?target_id=${id}`, { as: here.admin })
      ).json()) as { data: { changes: { field: string; to: string[] }[] }[] };
      assert.equal(data[0]?.changes.find(({ field }) => field === 'publicKeys')?.to.length, 1);
    });
  });
});

/** The points of Ed25519 whose order divides 8, as keys, with both signs and with what is not reduced. */
function smallOrderKeys() {
  const all = [
    `00${'00'.repeat(31)}`,
    `01${'00'.repeat(31)}`,
    `ec${'ff'.repeat(30)}7f`,
    `ed${'ff'.repeat(30)}7f`,
    `ee${'ff'.repeat(30)}7f`,
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  ];
  return all.flatMap((hex) => {
    const bytes = Buffer.from(hex, 'hex');
    const other = Buffer.from(bytes);
    other[31] = (bytes[31] as number) | 0x80;
    return [bytes, other].map((x) => ({ kty: 'OKP', crv: 'Ed25519', x: x.toString('base64url') }));
  });
}
