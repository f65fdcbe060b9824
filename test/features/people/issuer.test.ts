import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';
import { Browser, clientId, type MadeUpIssuer, startMadeUpIssuer } from '../../support/openid.ts';

/** What an issuer that is wrong, attacked or set up otherwise can send. */
describe('what an issuer sends', () => {
  let issuer: MadeUpIssuer;
  let gateway: TestGateway;
  let desk: Credentials;

  before(async () => {
    issuer = await startMadeUpIssuer();
    gateway = await startGateway({
      PEOPLE_ISSUER: issuer.issuer,
      PEOPLE_CLIENT_ID: clientId,
      PEOPLE_IDLE_MINUTES: '0.02',
    });
    desk = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const body = { people: [{ claim: 'groups', value: 'desk' }] };
    await gateway.request(`/v1/admin/consumers/${desk.id}`, { method: 'PATCH', as: gateway.admin, body });
  });
  after(async () => {
    await gateway.stop();
    await issuer.stop();
  });
  afterEach(() => {
    issuer.claims = {};
    issuer.forge = false;
    issuer.tokenAnswer = undefined;
  });

  async function signIn(claims: MadeUpIssuer['claims']) {
    issuer.claims = { groups: ['desk'], ...claims };
    const browser = new Browser();
    const { url, response } = await browser.open(`${gateway.url}/console/sign-in`);
    const isIn = url === `${gateway.url}/console/` && browser.cookie(gateway.url, 'handoff') !== undefined;
    return { browser, isIn, status: response?.status, text: (await response?.text()) ?? '' };
  }

  test('asks with PKCE, state and nonce, and takes a right token', async () => {
    const { isIn, browser } = await signIn({});
    assert.equal(isIn, true);
    const { asked } = issuer;
    assert.equal(asked.get('code_challenge_method'), 'S256');
    assert.equal(asked.get('response_type'), 'code');
    assert.equal(asked.get('scope'), 'openid email profile');
    const secrets = ['state', 'nonce', 'code_challenge'].map((name) => asked.get(name));
    assert.equal(new Set(secrets).size, 3);
    const begun = browser.cookie(gateway.url, 'handoff-sign-in') ?? '';
    assert.ok(secrets.every((text) => text !== null && !text.includes(begun)));
  });

  const now = () => Math.floor(Date.now() / 1000);
  for (const [what, claims] of [
    ['another nonce', { nonce: 'x' }],
    ['no nonce', { nonce: undefined }],
    ['another client', { aud: 'somebody-else' }],
    ['several clients, of which another one asked', { aud: [clientId, 'other'], azp: 'other' }],
    ['another issuer', { iss: 'https://issuer.example' }],
    ['no subject', { sub: undefined }],
    ['an end in the past', { exp: now() - 600, iat: now() - 900 }],
  ] as const)
    test(`refuses a token with ${what}`, async () => {
      const { isIn, status } = await signIn(claims);
      assert.deepEqual([isIn, status], [false, 400]);
    });

  test('refuses a token that the issuer has not signed', async () => {
    issuer.forge = true;
    assert.equal((await signIn({})).isIn, false);
  });

  test('takes a token of an issuer whose clock is half a minute off', async () => {
    assert.equal((await signIn({ iat: now() + 30, nbf: now() + 30 })).isIn, true);
    assert.equal((await signIn({ iat: now() - 330, exp: now() - 30 })).isIn, true);
  });

  test('knows the key that the issuer has changed to, and no longer the one before', async () => {
    assert.equal((await signIn({})).isIn, true);
    issuer.rotate();
    assert.equal((await signIn({})).isIn, true);
  });

  test('says so where the token leaves out groups since there are too many', async () => {
    const { isIn, status, text } = await signIn({
      groups: undefined,
      _claim_names: { groups: 'src1' },
      _claim_sources: { src1: { endpoint: 'https://graph.example/groups' } },
    });
    assert.deepEqual([isIn, status], [false, 403]);
    assert.match(text, /too many groups/);
  });

  test('takes preferred_username and then sub where no verified e-mail address is there', async () => {
    const actorOf = async (claims: MadeUpIssuer['claims']) => {
      const { browser } = await signIn(claims);
      const session = await browser.ask(`${gateway.url}/console/session`);
      return ((await session.json()) as { person: { name: string; email: null } }).person;
    };
    const upn = { email: 'a@example.com', preferred_username: 'ana@example.com' };
    assert.deepEqual(await actorOf(upn), { name: 'ana@example.com', email: null });
    assert.deepEqual(await actorOf({}), { name: 'marta', email: null });
    assert.deepEqual(await actorOf({ preferred_username: 'a\u202eb' }), { name: 'a\\u202eb', email: null });
  });

  test('an issuer that fails while it is asked is said to be away', async () => {
    issuer.tokenAnswer = (response) => void response.writeHead(503).end();
    assert.equal((await signIn({})).status, 503);
    issuer.tokenAnswer = (response) => void response.destroy();
    assert.equal((await signIn({})).status, 503);
    issuer.tokenAnswer = (response) => {
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}');
    };
    assert.equal((await signIn({})).status, 400);
  });

  test('signing out answers null where the issuer has no page for it', async () => {
    const { browser } = await signIn({});
    const out = await browser.ask(`${gateway.url}/console/sign-out`, { method: 'POST' });
    assert.deepEqual(await out.json(), { end_session_url: null });
  });

  test('a session that is not used ends', async () => {
    const { browser } = await signIn({});
    assert.equal((await browser.ask(`${gateway.url}/v1/quotes`)).status, 200);
    const { expires_at } = (await (await browser.ask(`${gateway.url}/console/session`)).json()) as {
      expires_at: string;
    };
    await sleep(Date.parse(expires_at) - Date.now() + 300);
    assert.equal((await browser.ask(`${gateway.url}/v1/quotes`)).status, 401);
  });
});
