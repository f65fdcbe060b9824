import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Provider } from '../../../src/features/people/provider.ts';
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
    assert.equal(browser.cookie(gateway.url, 'handoff-sign-in'), undefined);
    await browser.open(`${gateway.url}/console/sign-in`, `${gateway.url}/console/callback`);
    const begun = browser.cookie(gateway.url, 'handoff-sign-in');
    assert.ok(begun && secrets.every((text) => text !== null && !text.includes(begun)));
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
    issuer.forge = false;
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const alg of ['none', 'HS256']) {
      issuer.tokenAnswer = (response) => {
        const right = { iss: issuer.issuer, aud: clientId, sub: 'marta', iat: now(), exp: now() + 300 };
        const claims = { ...right, groups: ['desk'], nonce: issuer.asked.get('nonce') };
        const signed = `${part({ alg })}.${part(claims)}`;
        const signature =
          alg === 'none' ? '' : createHmac('sha256', clientId).update(signed).digest('base64url');
        const id_token = `${signed}.${signature}`;
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ access_token: 'a', token_type: 'Bearer', id_token }));
      };
      assert.equal((await signIn({})).isIn, false, alg);
    }
  });

  test('claims of the userinfo endpoint do not count, and are not asked for', async () => {
    const boss = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const body = { people: [{ claim: 'groups', value: 'admins' }] };
    await gateway.request(`/v1/admin/consumers/${boss.id}`, { method: 'PATCH', as: gateway.admin, body });
    const { browser } = await signIn({});
    const session = (await (await browser.ask(`${gateway.url}/console/session`)).json()) as {
      person: { email: null };
      consumers: { id: string }[];
    };
    assert.equal(session.person.email, null);
    assert.deepEqual(
      session.consumers.map(({ id }) => id),
      [desk.id],
    );
    assert.ok(!issuer.requests.includes('/userinfo'));
  });

  test('takes 300 groups, and says so where there are more than it keeps', async () => {
    const groups = (count: number) => ['desk', ...Array.from({ length: count }, (_, i) => `group-${i}`)];
    assert.equal((await signIn({ groups: groups(300) })).isIn, true);
    const { isIn, status, text } = await signIn({ groups: groups(20_000) });
    assert.deepEqual([isIn, status], [false, 403]);
    assert.match(text, /more about your account than we can store/);
  });

  test('takes claims with text that no database holds', async () => {
    const odd = { department: 'a\0b', title: 'cut \ud83d', 'c\0d': 'e', groups: ['desk', '\0'] };
    assert.equal((await signIn(odd)).isIn, true);
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

describe('sessions that are used', () => {
  let issuer: MadeUpIssuer;
  let gateway: TestGateway;

  before(async () => {
    issuer = await startMadeUpIssuer();
    issuer.metadata = { end_session_endpoint: `${issuer.issuer}/end?tenant=1` };
    issuer.claims = { groups: ['desk'] };
    gateway = await startGateway({ PEOPLE_ISSUER: issuer.issuer, PEOPLE_CLIENT_ID: clientId });
    const desk = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const body = { people: [{ claim: 'groups', value: 'desk' }] };
    await gateway.request(`/v1/admin/consumers/${desk.id}`, { method: 'PATCH', as: gateway.admin, body });
  });
  after(async () => {
    await gateway.stop();
    await issuer.stop();
  });
  const signIn = async (browser = new Browser()) => {
    await browser.open(`${gateway.url}/console/sign-in`);
    return browser;
  };
  const status = async (browser: Browser) => (await browser.ask(`${gateway.url}/v1/quotes`)).status;

  test('one person has twenty sessions at most, and a new one ends that of its browser', async () => {
    const first = await signIn();
    const thief = new Browser();
    thief.setCookie(gateway.url, 'handoff', first.cookie(gateway.url, 'handoff') ?? '');
    assert.equal(await status(thief), 200);
    await signIn(first);
    assert.deepEqual([await status(first), await status(thief)], [200, 401]);
    const others: Browser[] = [];
    for (let signedIn = 0; signedIn < 20; signedIn++) others.push(await signIn());
    assert.deepEqual([await status(first), await status(others[0] as Browser)], [401, 200]);
  });

  test('several tabs can sign in at once, and an old one is told to begin again', async () => {
    const callback = `${gateway.url}/console/callback`;
    const browser = new Browser();
    const begin = async () => (await browser.open(`${gateway.url}/console/sign-in`, callback)).url;
    const tabs: string[] = [];
    for (let tab = 0; tab < 5; tab++) tabs.push(await begin());
    const [tooOld = '', ...others] = tabs;
    assert.equal((await browser.send(tooOld)).status, 400);
    for (const tab of others) {
      assert.equal((await browser.send(tab)).headers.get('location'), '/console/');
      assert.equal((await browser.send(tab)).status, 400, 'again');
      assert.equal(await status(browser), 200);
    }
    assert.equal(browser.cookie(gateway.url, 'handoff-sign-in'), undefined);
  });

  test('the address for signing out carries no token that it would be too long for, and leads to no page that is not safe', async () => {
    const urlOf = async (groups: string[]) => {
      issuer.claims = { groups };
      const browser = await signIn();
      const out = await browser.ask(`${gateway.url}/console/sign-out`, { method: 'POST' });
      assert.equal(out.status, 200);
      return new URL(((await out.json()) as { end_session_url: string }).end_session_url);
    };
    const short = await urlOf(['desk']);
    assert.deepEqual([...short.searchParams.keys()].toSorted(), [
      ...['client_id', 'id_token_hint', 'post_logout_redirect_uri', 'tenant'],
    ]);
    const long = await urlOf(['desk', 'x'.repeat(5000)]);
    assert.equal(long.searchParams.get('client_id'), clientId);
    assert.ok(!long.searchParams.has('id_token_hint') && long.href.length < 2000);
    issuer.metadata = { end_session_endpoint: 'javascript:alert(1)' };
    const secrets = { read: async () => undefined };
    const options = { issuer: issuer.issuer, clientId, scopes: 'openid', secretName: 'none', secrets };
    assert.equal(await new Provider(options).signOutUrl('token', 'https://gateway.example/console/'), null);
  });

  test('signing out works while the issuer is away', async () => {
    issuer.claims = { groups: ['desk'] };
    const browser = await signIn();
    await issuer.stop();
    const out = await browser.ask(`${gateway.url}/console/sign-out`, { method: 'POST' });
    assert.equal(out.status, 200);
    assert.match(((await out.json()) as { end_session_url: string }).end_session_url, /\/end\?/);
    assert.equal(await status(browser), 401);
    assert.equal(browser.cookie(gateway.url, 'handoff'), undefined);
    issuer = await startMadeUpIssuer();
  });
});
