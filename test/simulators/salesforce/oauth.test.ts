import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, it, mock } from 'node:test';
import { decodeJwt } from 'jose';
import { assertion, keys, publicPem, requestToken, startOrg, useOrg } from './org.ts';

const otherKeys = generateKeyPairSync('rsa', { modulusLength: 2048 });
const otherPem = otherKeys.publicKey.export({ type: 'spki', format: 'pem' }).toString();
const now = (): number => Math.floor(Date.now() / 1000);

describe('token endpoint', () => {
  const org = useOrg();

  const refused = async (
    jwt: string | Promise<string>,
    error: string,
    description: string,
  ): Promise<void> => {
    const answer = await requestToken(org.url, await jwt);
    assert.equal(answer.status, 400);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.deepEqual(answer.body, { error, error_description: description });
  };

  it('answers a valid assertion without a lifetime', async () => {
    const answer = await requestToken(org.url, await assertion(org.url));
    assert.equal(answer.status, 200);
    assert.deepEqual(Object.keys(answer.body).sort(), [
      'access_token',
      'id',
      'instance_url',
      'scope',
      'token_type',
    ]);
    assert.match(answer.body.access_token, /^00D\w{12}!AR/);
    assert.equal(answer.body.instance_url, org.url);
    assert.match(answer.body.id, /\/id\/00D\w{15}\/005\w{15}$/);
  });

  it('knows the app at its own address only, unless the org is an older one', async () => {
    const hosts = ['https://login.salesforce.com', 'https://test.salesforce.com', 'http://login.localhost:1'];
    for (const audience of hosts)
      await refused(assertion(audience), 'app_not_found', 'External client app is not installed in this org');
    await org.control('PATCH', '/org', { loginHosts: 'accepted' });
    for (const audience of hosts.slice(0, 2))
      assert.equal((await requestToken(org.url, await assertion(audience))).status, 200);
    await org.control('POST', '/reset', {});
  });

  it('knows no app where the request goes to a login host', async () => {
    const body = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: await assertion(org.url),
    });
    const { promise, resolve } = Promise.withResolvers<IncomingMessage>();
    const headers = { host: 'test.salesforce.com', 'content-type': 'application/x-www-form-urlencoded' };
    request(`${org.url}/services/oauth2/token`, { method: 'POST', headers }, resolve).end(body.toString());
    assert.match(await text(await promise), /app_not_found/);
  });

  it('names each cause of a refusal', async () => {
    await refused('no-jwt', 'invalid_grant', 'invalid assertion');
    await refused(assertion(org.url, {}, otherKeys.privateKey), 'invalid_grant', 'invalid assertion');
    await refused(assertion('https://elsewhere.example'), 'invalid_grant', 'audience is invalid');
    await refused(assertion(org.url, { exp: now() - 1 }), 'invalid_grant', 'expired authorization code');
    await refused(assertion(org.url, { iss: 'nobody' }), 'invalid_client_id', 'client identifier invalid');
    await refused(
      assertion(org.url, { sub: 'x@y.example' }),
      'invalid_grant',
      "user hasn't approved this consumer",
    );
  });

  it('refuses another grant type', async () => {
    const answer = await requestToken(org.url, await assertion(org.url), 'password');
    assert.equal(answer.body.error, 'unsupported_grant_type');
  });

  it('takes an expiry far ahead unless strict', async (t) => {
    assert.equal(
      (await requestToken(org.url, await assertion(org.url, { exp: now() + 86_400 }))).status,
      200,
    );
    const strict = await startOrg({ strict: true });
    t.after(() => strict.close());
    const answer = await requestToken(strict.url, await assertion(strict.url, { exp: now() + 86_400 }));
    assert.equal(answer.body.error_description, 'invalid assertion');
  });

  it('can be armed with the causes that it does not have by itself', async () => {
    const causes = [
      ['invalid_app_access', 'user is not admin approved to access this app'],
      ['invalid_grant', 'user is locked'],
      ['inactive_user', 'user is inactive'],
      ['rate_limit_exceeded', 'login rate exceeded'],
    ] as const;
    for (const [error, description] of causes) {
      await org.control('POST', '/faults', { effect: { kind: 'tokenError', error, description }, times: 1 });
      await refused(assertion(org.url), error, description);
    }
    await org.control('POST', '/faults', {
      match: { operation: 'token' },
      effect: { kind: 'down' },
      times: 1,
    });
    const down = await requestToken(org.url, await assertion(org.url));
    assert.equal(down.status, 503);
    assert.match(down.headers.get('content-type') ?? '', /text\/html/);
    assert.equal((await requestToken(org.url, await assertion(org.url))).status, 200);
  });
});

describe('keys', () => {
  it('accepts each of several keys, so that one can replace another', async (t) => {
    const org = await startOrg({ publicKey: [otherPem, publicPem] });
    t.after(() => org.close());
    for (const key of [keys.privateKey, otherKeys.privateKey]) {
      assert.equal((await requestToken(org.url, await assertion(org.url, {}, key))).status, 200);
    }
  });

  it('accepts an X.509 certificate beside a key, and refuses text that is neither', async () => {
    const certificate = readFileSync(new URL('./fixtures/certificate.pem', import.meta.url), 'utf8');
    const org = await startOrg({ publicKey: [certificate, publicPem] });
    await org.close();
    await assert.rejects(startOrg({ publicKey: 'secret text' }), (error: Error) => {
      assert.match(error.message, /public key 1/);
      assert.doesNotMatch(error.message, /secret text/);
      return true;
    });
  });
});

describe('sessions', () => {
  it('ends after an idle window, and only use in its second half extends it', async () => {
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const org = await startOrg({ tokenLifetimeSeconds: 100 });
    const statusAfter = async (seconds: number): Promise<number> => {
      mock.timers.setTime(Date.now() + seconds * 1000);
      return (await org.data('GET', '/limits')).status;
    };
    try {
      assert.equal(await statusAfter(40), 200, 'first half: not extended');
      assert.equal(await statusAfter(20), 200, 'second half: extended by a whole window');
      assert.equal(await statusAfter(99), 200);
      mock.timers.setTime(Date.now() + 101_000);
      const expired = await org.data('GET', '/limits');
      assert.equal(expired.status, 401);
      assert.deepEqual(expired.body, [
        { message: 'Session expired or invalid', errorCode: 'INVALID_SESSION_ID' },
      ]);
      await org.login();
      assert.equal(await statusAfter(40), 200);
      assert.equal(await statusAfter(61), 401, 'use in the first half alone does not keep it alive');
    } finally {
      mock.timers.reset();
      await org.close();
    }
  });

  it('issues JWT access tokens that carry their own end', async (t) => {
    const org = await startOrg({ tokenFormat: 'jwt', tokenLifetimeSeconds: 600 });
    t.after(() => org.close());
    const { exp = 0 } = decodeJwt(org.token);
    assert.ok(Math.abs(exp - now() - 600) < 5);
    assert.equal((await org.data('GET', '/limits')).status, 200);
  });

  it('revokes one token by its holder and all of them by control', async (t) => {
    const org = await startOrg();
    const revoke = (token: string) =>
      fetch(`${org.url}/services/oauth2/revoke`, { method: 'POST', body: new URLSearchParams({ token }) });
    t.after(() => org.close());
    assert.equal((await revoke(org.token)).status, 200);
    assert.equal((await revoke(org.token)).status, 400);
    assert.equal((await org.data('GET', '/limits')).status, 401);
    await org.login();
    assert.deepEqual((await org.control('POST', '/tokens/revoke')).body, { revoked: 1 });
    assert.equal((await org.data('GET', '/limits')).status, 401);
    assert.equal((await org.call('GET', '/services/oauth2/userinfo')).body, 'Bad_OAuth_Token');
  });
});

describe('who am I', () => {
  it('gives the user by userinfo, by the identity URL and by a query', async (t) => {
    const org = await startOrg();
    t.after(() => org.close());
    const info = await org.call('GET', '/services/oauth2/userinfo');
    assert.equal(info.body.name, 'Gateway Integration');
    assert.match(info.body.user_id, /^005\w{15}$/);
    const resources = await org.data('GET', '');
    const identity = await org.call('GET', new URL(resources.body.identity).pathname);
    assert.equal(identity.body.display_name, 'Gateway Integration');
    assert.equal(identity.body.user_id, info.body.user_id);
    assert.match(identity.body.urls.rest, /\/services\/data\/v\{version\}\/$/);
    const user = await org.query(`SELECT Id, Name, Username FROM User WHERE Id = '${info.body.user_id}'`);
    assert.equal(user.body.records[0].Name, 'Gateway Integration');
  });
});
