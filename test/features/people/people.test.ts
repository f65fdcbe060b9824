import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';
import { offerFor } from '../../support/handoffs.ts';
import { Browser, type Company, clientId, clientSecret, startCompany } from '../../support/openid.ts';
import { startPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';

const postgres = await startPostgres();
const marta = {
  sub: 'marta-1',
  name: 'Marta Ruiz',
  email: 'marta.ruiz@example.com',
  email_verified: true,
  groups: ['all-staff', 'travel-desk'],
};

interface Session {
  person: { name: string; email: string | null };
  consumer: { id: string; name: string };
  consumers: { id: string; name: string }[];
  expires_at: string;
}

describe('people who sign in', { skip: !postgres && 'no postgres' }, () => {
  let company: Company;
  let gateway: TestGateway;
  let env: NodeJS.ProcessEnv;
  let desk: Credentials;

  before(async () => {
    company = await startCompany();
    env = {
      DATABASE_URL: postgres?.url,
      PEOPLE_ISSUER: company.issuer,
      PEOPLE_CLIENT_ID: clientId,
      PEOPLE_LABEL: 'Example Travel',
      RATE_LIMIT_PER_MINUTE: '0',
    };
    // The issuer is away: it begins to answer later.
    gateway = await startGateway(env);
    env = { ...env, SECRETS_DIR: `${gateway.dataDir}/secrets` };
    await mkdir(`${gateway.dataDir}/secrets/people/dev`, { recursive: true, mode: 0o700 });
    await writeFile(`${gateway.dataDir}/secrets/people/dev/client-secret`, clientSecret, { mode: 0o600 });
    desk = await gateway.newConsumer(
      { resource: 'quotes', actions: ['read', 'write'] },
      { resource: 'bookings', actions: ['read', 'write'] },
      { resource: 'members', actions: ['read'] },
    );
    await givePeople(desk.id, 'groups=travel-desk');
  });
  after(async () => {
    await gateway.stop();
    await company.stop();
    await postgres?.stop();
  });

  async function givePeople(id: string, ...entries: string[]): Promise<void> {
    const people = entries.map((entry) => ({ claim: entry.split('=')[0], value: entry.split('=')[1] }));
    const path = `/v1/admin/consumers/${id}`;
    const changed = await gateway.request(path, { method: 'PATCH', as: gateway.admin, body: { people } });
    assert.equal(changed.status, 200, await changed.text());
  }
  async function signIn(person: Company['person'], of = gateway): Promise<Browser> {
    company.person = person;
    const browser = new Browser();
    const { url } = await browser.open(`${of.url}/console/sign-in`);
    assert.equal(url, `${of.url}/console/`);
    return browser;
  }
  async function sessionOf(browser: Browser, of = gateway): Promise<Session> {
    const response = await browser.ask(`${of.url}/console/session`);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as Session;
  }
  const statusOf = async (browser: Browser, path: string, of = gateway) =>
    (await browser.ask(of.url + path)).status;
  async function untilStatus(status: number, browser: Browser, path: string): Promise<void> {
    await eventually(async () => assert.equal(await statusOf(browser, path), status));
  }
  const handOff = (browser: Browser, more: { headers?: object } = {}) =>
    browser.ask(`${gateway.url}/api/v1/handoff`, {
      method: 'POST',
      body: offerFor(gateway.org.memberId),
      headers: { 'idempotency-key': randomUUID(), ...more.headers },
    });

  test('an issuer that is away keeps nobody from starting, and is said on the page', async () => {
    const { response } = await new Browser().open(`${gateway.url}/console/sign-in`);
    assert.equal(response?.status, 503);
    assert.match((await response?.text()) ?? '', /sign-in isn't responding/);
    company.serve(gateway.url);
  });

  test('somebody in a group that a consumer names acts as that consumer', async () => {
    const browser = await signIn(marta);
    const { expires_at, ...session } = await sessionOf(browser);
    const consumer = { id: desk.id, name: 'test' };
    assert.deepEqual(session, {
      person: { name: 'Marta Ruiz', email: 'marta.ruiz@example.com' },
      consumer,
      consumers: [consumer],
    });
    assert.ok(Date.parse(expires_at) > Date.now() + 3_000_000);
    assert.equal(await statusOf(browser, '/v1/quotes'), 200);
    assert.equal(await statusOf(browser, '/v1/admin/consumers'), 403);
    assert.equal((await new Browser().ask(`${gateway.url}/console/session`)).status, 401);
  });

  test('a group claim may be one text, and a group of another name lets nobody in', async () => {
    const browser = await signIn({ ...marta, sub: 'text', groups: 'travel-desk' });
    assert.equal((await sessionOf(browser)).consumer.id, desk.id);
    company.person = { ...marta, sub: 'other', groups: ['Travel-Desk', 'travel-desk-2'] };
    const { response } = await new Browser().open(`${gateway.url}/console/sign-in`);
    assert.equal(response?.status, 403);
    assert.equal(response?.headers.get('set-cookie'), null);
    assert.match((await response?.text()) ?? '', /your account has no access/);
  });

  test('an e-mail address that is not verified is neither an actor nor a way in', async () => {
    const owner = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    await givePeople(owner.id, 'email=boss@example.com');
    for (const email_verified of [false, undefined, 'true']) {
      const thief = { sub: 'thief', email: 'boss@example.com', email_verified, preferred_username: 'thief' };
      company.person = thief;
      const { response } = await new Browser().open(`${gateway.url}/console/sign-in`);
      assert.equal(response?.status, 403);
      const browser = await signIn({ ...thief, groups: ['travel-desk'] });
      assert.equal((await sessionOf(browser)).person.email, null);
      const made = await handOff(browser);
      assert.equal(made.status, 201, await made.text());
    }
    const browser = await signIn({ sub: 'boss', email: 'boss@example.com', email_verified: true });
    assert.equal((await sessionOf(browser)).consumer.id, owner.id);
  });

  test('the person is the actor, whatever X-Actor says', async () => {
    const browser = await signIn(marta);
    const made = await handOff(browser, { headers: { 'x-actor': 'somebody.else@example.com' } });
    const text = await made.text();
    assert.equal(made.status, 201, text);
    const { external_id: id } = JSON.parse(text) as { external_id: string };
    const record = await (await browser.ask(`${gateway.url}/v1/quotes/${id}`)).json();
    const created_by = {
      consumer_id: desk.id,
      consumer_name: 'test',
      actor: 'marta.ruiz@example.com',
      verified: true,
    };
    assert.deepEqual((record as { created_by: object }).created_by, created_by);
    const list = await (await browser.ask(`${gateway.url}/v1/quotes?consumer_id=${desk.id}`)).json();
    const listed = (list as { data: { id: string; created_by: object }[] }).data.find((one) => one.id === id);
    assert.deepEqual(listed?.created_by, created_by);
    const [row] = await gateway.org.records('Quote__c', { External_Id__c: id });
    assert.equal(row?.['Actor_Verified__c'], true);
    const history = await (await browser.ask(`${gateway.url}/v1/quotes/${id}/history`)).json();
    const { data } = history as { data: { kind: string; by: { actor: string; verified: boolean } | null }[] };
    assert.deepEqual(
      data.map(({ kind, by }) => [kind, by?.actor, by?.verified]),
      [
        ['requested', 'marta.ruiz@example.com', true],
        ['created', 'marta.ruiz@example.com', true],
      ],
    );
    await eventually(async () => {
      const page = await gateway.request(`/v1/admin/auth-attempts?consumer_id=${desk.id}`, {
        as: gateway.admin,
      });
      const attempts = (
        (await page.json()) as { data: { endpoint: string; person: string | null; api_key: null }[] }
      ).data;
      const found = attempts.find(
        ({ endpoint, person }) => endpoint === 'POST /api/v1/handoff' && person === 'marta.ruiz@example.com',
      );
      assert.equal(found?.api_key, null);
    });
  });

  test('what X-Actor says is not proven, and changes of consumers say which it is', async () => {
    const as = desk;
    const body = offerFor(gateway.org.memberId);
    const headers = { 'x-actor': 'marta.ruiz@example.com', prefer: 'respond-async' };
    const waiting = await gateway.request('/api/v1/handoff', { as, body, headers });
    assert.equal(waiting.status, 202);
    const { external_id: id } = (await waiting.json()) as { external_id: string };
    const shown = await (await gateway.request(`/v1/handoffs/${id}`, { as })).json();
    const { created_by: by } = (shown as { request: { created_by: object } }).request;
    assert.deepEqual(by, {
      consumer_id: desk.id,
      consumer_name: 'test',
      actor: 'marta.ruiz@example.com',
      verified: false,
    });
    const boss = await gateway.newConsumer({ resource: 'consumers', actions: ['read', 'write'] });
    await givePeople(boss.id, 'groups=admins');
    const browser = await signIn({ ...marta, groups: ['admins'] });
    const path = `${gateway.url}/v1/admin/consumers/${boss.id}`;
    assert.equal((await browser.ask(path, { method: 'PATCH', body: { name: 'renamed' } })).status, 200);
    await eventually(async () => {
      const events = await gateway.request(
        `/v1/admin/audit-events?target_id=${boss.id}&action=consumer.updated`,
        { as: gateway.admin },
      );
      const { data } = (await events.json()) as {
        data: { actor: { person: string | null; verified: boolean } }[];
      };
      assert.deepEqual(
        data.map(({ actor }) => [actor.person, actor.verified]),
        [
          ['marta.ruiz@example.com', true],
          [null, false],
        ],
      );
    });
  });

  test('who has handed something off cannot decide on it, as whatever consumer', async () => {
    const asking = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    const deciding = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'] });
    await givePeople(asking.id, 'groups=trainees');
    await givePeople(deciding.id, 'groups=leads');
    const browser = await signIn({ ...marta, groups: ['trainees', 'leads'] });
    const choose = async (of: Browser, id: string) =>
      assert.equal(
        (await of.ask(`${gateway.url}/console/session`, { method: 'POST', body: { consumer_id: id } }))
          .status,
        200,
      );
    await choose(browser, asking.id);
    const waiting = await handOff(browser);
    assert.equal(waiting.status, 202);
    const { external_id: id } = (await waiting.json()) as { external_id: string };
    await choose(browser, deciding.id);
    const decide = (of: Browser, what: string, body?: object) =>
      of.ask(`${gateway.url}/v1/handoffs/${id}/${what}`, { method: 'POST', ...(body && { body }) });
    await assertProblem(await decide(browser, 'approve'), 403, 'permission_denied');
    await assertProblem(await decide(browser, 'reject', { reason: 'no' }), 403, 'permission_denied');
    // Another session of the same person, after the address has changed.
    const again = await signIn({ ...marta, email: 'm.ruiz@example.com', groups: ['leads'] });
    await assertProblem(await decide(again, 'approve'), 403, 'permission_denied');
    const lead = await signIn({
      sub: 'lead',
      email: 'lead@example.com',
      email_verified: true,
      groups: ['leads'],
    });
    const approved = await decide(lead, 'approve');
    const text = await approved.text();
    assert.equal(approved.status, 202, text);
    const { approval } = JSON.parse(text) as { approval: { decided_by: object } };
    assert.deepEqual(approval.decided_by, {
      consumer_id: deciding.id,
      consumer_name: 'test',
      actor: 'lead@example.com',
      verified: true,
    });
  });

  test('a person changes to any consumer that they may act as, and to no other', async () => {
    const second = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const browser = await signIn(marta);
    const to = (id: string) =>
      browser.ask(`${gateway.url}/console/session`, { method: 'POST', body: { consumer_id: id } });
    await assertProblem(await to(second.id), 404, 'not_found');
    await givePeople(second.id, 'sub=marta-1');
    assert.equal((await to(second.id)).status, 200);
    const session = await sessionOf(browser);
    assert.equal(session.consumer.id, second.id);
    assert.deepEqual(session.consumers.map(({ id }) => id).toSorted(), [desk.id, second.id].toSorted());
    assert.equal(await statusOf(browser, '/v1/members'), 403);
    await givePeople(second.id);
  });

  test('a session counts for requests of the console only', async () => {
    const browser = await signIn(marta);
    const quotes = `${gateway.url}/v1/quotes`;
    for (const site of ['cross-site', 'same-site', 'none'])
      await assertProblem(
        await browser.send(quotes, { headers: { 'sec-fetch-site': site } }),
        403,
        'permission_denied',
      );
    await assertProblem(await browser.send(quotes), 403, 'permission_denied');
    const unmarked = { headers: { 'x-handoff-session': '0', 'idempotency-key': randomUUID() } };
    const body = offerFor(gateway.org.memberId);
    const forged = await browser.ask(`${gateway.url}/api/v1/handoff`, { method: 'POST', body, ...unmarked });
    await assertProblem(forged, 403, 'permission_denied');
    assert.equal((await browser.send(`${gateway.url}/console/session`, {})).status, 200, 'of no browser');
    for (const path of ['sign-out', 'session']) {
      const url = `${gateway.url}/console/${path}`;
      const own = { method: 'POST', ...(path === 'session' && { body: { consumer_id: desk.id } }) };
      const fromElsewhere = await browser.ask(url, { ...own, headers: { 'sec-fetch-site': 'cross-site' } });
      await assertProblem(fromElsewhere, 403, 'permission_denied');
      await assertProblem(
        await browser.ask(url, { ...own, headers: { 'x-handoff-session': '' } }),
        403,
        'permission_denied',
      );
    }
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    await assertProblem(
      await browser.ask(`${gateway.url}/mcp`, { method: 'POST', body: message }),
      403,
      'permission_denied',
    );
    const pair = { 'x-api-key': desk.apiKey, 'x-api-secret': desk.apiSecret };
    await assertProblem(await browser.ask(quotes, { headers: pair }), 400, 'invalid_request', 'Cookie');
    await assertProblem(
      await browser.ask(quotes, { headers: { authorization: 'Bearer x' } }),
      400,
      'invalid_request',
      'Cookie',
    );
    // Nothing of it has ended the session.
    assert.equal(await statusOf(browser, '/v1/quotes'), 200);
  });

  test('a session does not become a key', async () => {
    const browser = await signIn(marta);
    const rotated = await browser.ask(`${gateway.url}/v1/consumer/rotate`, { method: 'POST' });
    const { detail } = await assertProblem(rotated, 403, 'permission_denied');
    assert.match(detail, /person's session can't rotate/);
    const grant = 'grant_type=client_credentials';
    const token = await browser.send(`${gateway.url}/oauth/token`, {
      method: 'POST',
      body: grant,
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'sec-fetch-site': 'same-origin',
        'x-handoff-session': '1',
      },
    });
    assert.equal(token.status >= 400, true);
  });

  test('the cookie is new with each sign-in, and one that somebody has planted is no session', async () => {
    company.person = marta;
    const browser = new Browser();
    const planted = 'p'.repeat(43);
    browser.setCookie(gateway.url, 'handoff', planted);
    await browser.open(`${gateway.url}/console/sign-in`);
    const first = browser.cookie(gateway.url, 'handoff');
    assert.ok(first && first !== planted);
    await browser.open(`${gateway.url}/console/sign-in`);
    assert.notEqual(browser.cookie(gateway.url, 'handoff'), first);
    const attacker = new Browser();
    attacker.setCookie(gateway.url, 'handoff', planted);
    assert.equal(await statusOf(attacker, '/v1/quotes'), 401);
    assert.equal(await statusOf(attacker, '/console/session'), 401);
  });

  test('what comes back counts once, unchanged, and in the browser that began', async () => {
    company.person = marta;
    const callback = `${gateway.url}/console/callback`;
    const begin = async (browser: Browser) =>
      (await browser.open(`${gateway.url}/console/sign-in`, callback)).url;
    const browser = new Browser();
    const url = await begin(browser);
    const isRefused = async (of: Browser, address: string) => {
      const response = await of.send(address);
      assert.equal(response.status, 400, address);
      assert.doesNotMatch(response.headers.get('set-cookie') ?? '', /handoff=/);
    };
    await isRefused(new Browser(), url);
    const other = new Browser();
    await begin(other);
    await isRefused(other, url);
    const tampered = new URL(url);
    tampered.searchParams.set('state', 'x'.repeat(43));
    await isRefused(browser, tampered.href);
    const foreign = new URL(url);
    foreign.searchParams.set('iss', 'https://issuer.example');
    await isRefused(browser, foreign.href);
    await isRefused(browser, callback);
    await isRefused(browser, `${callback}?error=server_error`);
    const entered = await browser.send(`${url}&return_to=https://attacker.example`);
    assert.equal(entered.status, 303);
    assert.equal(entered.headers.get('location'), '/console/');
    await isRefused(browser, url);
  });

  test('a session ends on signing out, also for a stolen cookie, and the issuer is told where', async () => {
    const browser = await signIn(marta);
    const stolen = browser.cookie(gateway.url, 'handoff') ?? '';
    const out = await browser.ask(`${gateway.url}/console/sign-out`, { method: 'POST' });
    assert.equal(out.status, 200);
    const { end_session_url } = (await out.json()) as { end_session_url: string };
    const url = new URL(end_session_url);
    assert.equal(url.origin, company.issuer);
    assert.equal(url.searchParams.get('post_logout_redirect_uri'), `${gateway.url}/console/`);
    assert.ok(url.searchParams.get('id_token_hint'));
    assert.equal(browser.cookie(gateway.url, 'handoff'), undefined);
    const thief = new Browser();
    thief.setCookie(gateway.url, 'handoff', stolen);
    assert.equal(await statusOf(thief, '/v1/quotes'), 401);
    assert.equal(await statusOf(thief, '/console/session'), 401);
  });

  test('it holds on all replicas and over a restart', async () => {
    const browser = await signIn(marta);
    const cookie = browser.cookie(gateway.url, 'handoff') ?? '';
    for (const _ of [1, 2]) {
      const replica = await startGateway(env);
      try {
        browser.setCookie(replica.url, 'handoff', cookie);
        assert.equal((await sessionOf(browser, replica)).consumer.id, desk.id);
        assert.equal(await statusOf(browser, '/v1/quotes', replica), 200);
      } finally {
        await replica.stop();
      }
    }
  });

  test('it ends for good when its consumer is disabled or no longer names the person, whether or not anybody asks meanwhile', async () => {
    const shortly = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const change = async (body: object) => {
      const path = `/v1/admin/consumers/${shortly.id}`;
      const changed = await gateway.request(path, { method: 'PATCH', as: gateway.admin, body });
      assert.equal(changed.status, 200);
      assert.doesNotMatch(await changed.text(), /enabledAt|addedAt/);
    };
    const entry = { claim: 'groups', value: 'temps' };
    const other = { claim: 'email', value: 'ana@example.com' };
    const person = { ...marta, groups: ['temps'] };
    for (const isAsked of [true, false]) {
      for (const [end, again] of [
        [{ enabled: false }, { enabled: true }],
        [{ people: [other] }, { people: [other, entry] }],
      ] as const) {
        await change({ people: [entry] });
        const browser = await signIn(person);
        await change({ people: [entry, other] });
        assert.equal(await statusOf(browser, '/v1/quotes'), 200);
        await change(end);
        if (isAsked) await untilStatus(401, browser, '/v1/quotes');
        await change(again);
        await untilStatus(401, browser, '/v1/quotes');
        assert.equal(await statusOf(browser, '/console/session'), 401);
        assert.equal(await statusOf(await signIn(person), '/v1/quotes'), 200);
      }
    }
  });

  test('it ends after people.sessionHours, however much it is used', async (t) => {
    const hours = 0.0015;
    const short = await startGateway({ ...env, PEOPLE_SESSION_HOURS: String(hours) });
    t.after(async () => {
      await short.stop();
      company.serve(gateway.url);
    });
    company.serve(short.url);
    const began = performance.now();
    const browser = await signIn(marta, short);
    const first = await statusOf(browser, '/v1/quotes', short);
    assert.ok(first === 200 || performance.now() - began > hours * 3_600_000, String(first));
    await eventually(async () => assert.equal(await statusOf(browser, '/v1/quotes', short), 401));
    assert.equal(await statusOf(browser, '/console/session', short), 401);
  });

  test('only who may grant all that a consumer has says who acts as it', async () => {
    const boss = await gateway.newConsumer(
      { resource: 'consumers', actions: ['read', 'write'] },
      { resource: 'quotes', actions: ['read'] },
    );
    const people = [{ claim: 'groups', value: 'mine' }];
    const wide = await gateway.request(`/v1/admin/consumers/${desk.id}`, {
      method: 'PATCH',
      as: boss,
      body: { people },
    });
    await assertProblem(wide, 403, 'permission_denied');
    const wrong = await gateway.request(`/v1/admin/consumers/${boss.id}`, {
      method: 'PATCH',
      as: boss,
      body: { people: [{ claim: 'iss', value: company.issuer }] },
    });
    await assertProblem(wrong, 400, 'invalid_request', '#/people/0/claim');
  });

  test('the console is told how people sign in', async () => {
    const facts = await (await fetch(`${gateway.url}/console/settings`)).json();
    assert.deepEqual((facts as { people: object }).people, { label: 'Example Travel', only: false });
  });
});
