import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { jwtVerify, SignJWT } from 'jose';
import { hashConnection } from '../../src/crm/token/access-token.ts';
import { Backoff } from '../../src/crm/token/backoff.ts';
import { AssertionSigner } from '../../src/crm/token/jwt.ts';
import { createTokenEndpoint, TokenFailure } from '../../src/crm/token/token-endpoint.ts';
import { noteOrg, readKnownOrg } from '../../src/crm/token/token-provider.ts';
import { createMemoryCache } from '../../src/platform/cache/memory.ts';
import { createHttp, type Http } from '../../src/platform/http/http.ts';
import { certificateOf } from '../support/certificates.ts';
import { recordLog } from '../support/log.ts';
import { keySecret, keys, TestSecrets } from './crm-harness.ts';

const connection = {
  loginUrl: 'https://login.example',
  audience: 'https://audience.example',
  clientId: 'client-id',
  username: 'gateway@example.com',
};

it('the certificate behind the key says when it ends, and whether it is that of the key', async () => {
  const secrets = new TestSecrets();
  const noted: unknown[] = [];
  const signer = new AssertionSigner({
    ...{ ...connection, secrets, privateKeySecret: keySecret, now: Date.now },
    onKey: (certificate) => noted.push(certificate?.fits),
  });
  const other = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  const ofOther = await certificateOf(other.export({ type: 'pkcs8', format: 'pem' }) as string, 9);
  for (const behind of [
    '',
    await certificateOf(keys.privateKey, 9),
    ofOther,
    '-----BEGIN CERTIFICATE-----\nx',
  ]) {
    secrets.put(keySecret, keys.privateKey + behind);
    await signer.sign();
  }
  assert.deepEqual(noted, [undefined, true, false, undefined]);
  secrets.put(keySecret, (await certificateOf(keys.privateKey, 9)) + keys.privateKey);
  await signer.sign();
  const days = ((signer.certificate?.endsAt ?? 0) - Date.now()) / 86_400_000;
  assert.ok(days > 8 && days < 10, `${days}`);
});

it('another org than before is said in the log, and the address of the last one is known', async () => {
  const cache = createMemoryCache();
  const { log, lines } = recordLog();
  const note = (orgId: string | undefined, instanceUrl: string) =>
    noteOrg(
      { orgId, instanceUrl, accessToken: 'x', lifetimeSeconds: undefined },
      { cache, environment: 'dev', log },
    );
  await note('00D000000000001AAA', 'https://acme.my.example');
  await note(undefined, 'https://acme.my.example');
  assert.equal(lines.length, 0);
  await note('00D000000000002AAA', 'https://acme2.my.example');
  const [line] = lines;
  assert.deepEqual(
    [line?.message, line?.facts['formerOrgId']],
    ['Salesforce is a different org than before', '00D000000000001AAA'],
  );
  assert.equal((await readKnownOrg(cache, 'dev')).instanceUrl, 'https://acme2.my.example');
  assert.deepEqual(await readKnownOrg(cache, 'prod'), { id: undefined, instanceUrl: undefined });
});

it('the assertion says who asks whom, for three minutes, signed with RSA-SHA256', async () => {
  const secrets = new TestSecrets();
  secrets.put(keySecret, keys.privateKey);
  const now = Date.now();
  const signer = new AssertionSigner({
    ...connection,
    secrets,
    privateKeySecret: keySecret,
    now: () => now,
  });
  const { payload, protectedHeader } = await jwtVerify(await signer.sign(), createPublicKey(keys.publicKey));
  const exp = Math.floor(now / 1000) + 180;
  assert.deepEqual(payload, {
    iss: 'client-id',
    sub: 'gateway@example.com',
    aud: 'https://audience.example',
    exp,
  });
  assert.deepEqual(protectedHeader, { alg: 'RS256' });
});

it('the hash of a connection depends on each of its parts', () => {
  const hashes = [
    connection,
    { ...connection, loginUrl: 'x' },
    { ...connection, audience: 'x' },
    { ...connection, clientId: 'x' },
    { ...connection, username: 'x' },
  ].map(hashConnection);
  assert.equal(new Set(hashes).size, 5);
});

describe('the token endpoint', () => {
  let answer: { status: number; type: string; body: string };
  let asked: { url: string | undefined; method: string | undefined; type: string | undefined; body: string };
  let server: Server;
  let http: Http;
  let loginUrl: string;
  before(async () => {
    server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        asked = { url: request.url, method: request.method, type: request.headers['content-type'], body };
        response
          .writeHead(answer.status, { 'content-type': answer.type, location: '/elsewhere' })
          .end(answer.body);
      });
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    loginUrl = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
    http = createHttp(1000);
  });
  after(async () => {
    await http.close();
    server.close();
  });

  const request = (body: unknown, status = 200, type = 'application/json') => {
    answer = { status, type, body: typeof body === 'string' ? body : JSON.stringify(body) };
    return createTokenEndpoint({ http, loginUrl: `${loginUrl}/`, timeoutMs: 1000 }).request('the.assertion');
  };
  const good = () => ({ access_token: '00Dxx!AQ.opaque', instance_url: loginUrl });

  it('sends the two parameters of the flow as a form', async () => {
    assert.deepEqual(await request(good()), {
      accessToken: '00Dxx!AQ.opaque',
      instanceUrl: loginUrl,
      lifetimeSeconds: undefined,
      orgId: undefined,
    });
    assert.deepEqual(asked, {
      url: '/services/oauth2/token',
      method: 'POST',
      type: 'application/x-www-form-urlencoded',
      body: 'grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=the.assertion',
    });
  });

  it('takes the lifetime from the answer, or from a token in JWT format by that token’s own clock', async () => {
    for (const expires_in of [900, '900']) {
      assert.equal((await request({ ...good(), expires_in })).lifetimeSeconds, 900);
    }
    const jwt = (iat: number) =>
      new SignJWT()
        .setProtectedHeader({ alg: 'RS256' })
        .setIssuedAt(iat)
        .setExpirationTime(iat + 600);
    const token = await jwt(1_000_000).sign(createPrivateKey(keys.privateKey));
    assert.equal((await request({ ...good(), access_token: token })).lifetimeSeconds, 600);
    assert.equal((await request({ ...good(), expires_in: 'soon' })).lifetimeSeconds, undefined);
  });

  const permanent: [string, string, RegExp][] = [
    ['invalid_grant', "user hasn't approved this consumer", /approved/],
    ['invalid_grant', 'audience is invalid', /crm\.audience/],
    ['invalid_grant', 'Audience validation failed', /crm\.audience/],
    ['invalid_grant', 'invalid assertion', /certificate/],
    ['invalid_grant', 'expired authorization code', /clock/],
    ['invalid_grant', 'user is locked', /locked/],
    ['invalid_grant', 'ip restricted', /this machine's address/],
    ['OAUTH_APP_BLOCKED', 'this app is blocked by admin', /Unblock it in Setup/],
    ['OAUTH_APPROVAL_ERROR_GENERIC', '', /API Access Control/],
    [
      'OAUTH_APP_ACCESS_DENIED',
      'user is not admin approved to access this app',
      /Assign the app's permission set/,
    ],
    ['invalid_grant', '', /crm\.username/],
    ['invalid_client_id', 'client identifier invalid', /crm\.clientId/],
    ['invalid_client_credentials', '', /crm\.clientId/],
    ['invalid_app_access', 'user is not admin approved to access this app', /permission set/],
    ['inactive_user', '', /Activate/],
    ['inactive_org', '', /org/],
    ['unsupported_grant_type', 'grant type not supported', /JWT bearer flow/],
    ['invalid_request', '', /JWT bearer flow/],
    ['something_new', 'x', /doesn't know this error/],
  ];
  for (const [error, error_description, advice] of permanent) {
    it(`${error} (${error_description}) is for the operator to fix`, async () => {
      await assert.rejects(request({ error, error_description }, 400), (failure: TokenFailure) => {
        assert.ok(failure instanceof TokenFailure);
        assert.deepEqual([failure.permanent, failure.reason], [true, error]);
        assert.match(failure.advice, advice);
        return true;
      });
    });
  }

  const passing: [string, unknown, number, string?][] = [
    ['a limit on logins', { error: 'rate_limit_exceeded' }, 400],
    ['an error of the server', { error: 'invalid_grant' }, 500],
    ['an edge that answers in HTML', '<html>', 503, 'text/html'],
    ['a proxy that answers in HTML', '<html>', 403, 'text/html'],
    ['a redirect, which is not followed', '', 302],
    ['an answer without a token', { instance_url: 'https://x.example' }, 200],
    ['a token that no header can carry', { access_token: 'a b', instance_url: 'https://x.example' }, 200],
    ['an instance that is no URL', { access_token: 'a', instance_url: 'javascript' }, 200],
    ['an instance of another kind', { access_token: 'a', instance_url: 'file:///etc' }, 200],
    ['an instance with a path', { access_token: 'a', instance_url: 'https://x.example/some/path' }, 200],
    [
      'an instance without TLS elsewhere',
      { access_token: 'a', instance_url: 'http://127.0.0.1.example' },
      200,
    ],
    ['no JSON at all', 'access_token=a', 200],
  ];
  for (const [name, body, status, type] of passing) {
    it(`${name} may pass`, async () => {
      await assert.rejects(request(body, status, type), { name: 'TokenFailure', permanent: false });
    });
  }

  it('an answer without end is not read', async () => {
    const endless = `{"access_token": "${'x'.repeat(1_000_000)}"}`;
    await assert.rejects(request(endless), { name: 'TokenFailure', permanent: false });
  });

  it('an error says nothing of what was sent or what came', async () => {
    const body = { error: 'x'.repeat(500), error_description: 'the.assertion' };
    await assert.rejects(request(body, 400), ({ message }: Error) => {
      assert.doesNotMatch(message, /the\.assertion|x{100}/);
      return true;
    });
  });
});

describe('the back-off', () => {
  it('doubles from about a second to five minutes, is shared, and forgets after a quiet minute', async () => {
    let now = 1_000_000;
    const passing = { advice: null, refusal: null };
    const lasting = {
      advice: 'approve the app',
      refusal: { error: 'invalid_grant', error_description: null },
    };
    const cache = createMemoryCache({ now: () => now });
    const make = (connectionHash = 'same') =>
      new Backoff({ cache, key: 'b', connectionHash, now: () => now });
    const [one, two] = [make(), make()];
    for (let failures = 1; failures <= 12; failures++) {
      const waitMs = await (failures % 2 === 0 ? one : two).failed('v1', passing);
      const middle = Math.min(300_000, 1000 * 2 ** (failures - 1));
      assert.ok(
        waitMs >= Math.max(1000, 0.75 * middle) && waitMs <= Math.min(300_000, 1.25 * middle),
        `${waitMs}`,
      );
      assert.equal((await one.current())?.until, now + waitMs);
      assert.equal((await two.current())?.failures, failures);
      assert.equal(await make('changed settings').current(), undefined);
      now += waitMs;
      assert.equal(await one.current(), undefined);
    }
    now += 60_000;
    assert.ok((await one.failed('v1', passing)) <= 1250);
    assert.equal(await one.failed('v1', lasting), 300_000);
    const { advice, refusal } = (await two.fault()) ?? {};
    assert.deepEqual({ advice, refusal }, lasting);
    now += 360_000;
    assert.equal(await two.fault(), undefined);
  });

  it('lets the first refused token go free', async () => {
    const now = () => 1_000_000;
    const backoff = new Backoff({
      cache: createMemoryCache({ now }),
      key: 'b',
      connectionHash: 'c',
      now,
    });
    assert.equal(await backoff.refused('v1'), 0);
    assert.equal(await backoff.current(), undefined);
    assert.ok((await backoff.refused('v1')) >= 1000);
    await backoff.end('failed');
    assert.ok(await backoff.current());
    await backoff.end('refused');
    assert.equal(await backoff.current(), undefined);
  });
});
