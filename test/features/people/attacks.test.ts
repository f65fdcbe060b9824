import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { PeopleSessions } from '../../../src/features/people/sessions.ts';
import { SessionsTable } from '../../../src/features/people/sessions-table.ts';
import type { Consumer } from '../../../src/identity/consumers/consumer.ts';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';
import { createTestConsumers } from '../../identity/consumers/fixture.ts';
import { CommandLine } from '../../support/command-line.ts';
import { useTestDatabase } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';
import { offerFor } from '../../support/handoffs.ts';
import { Browser, clientId, type MadeUpIssuer, startMadeUpIssuer } from '../../support/openid.ts';
import { startPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const postgres = await startPostgres();
const marta = { sub: 'marta-1', email: 'Marta.Ruiz@example.com', email_verified: true };

/** What somebody tries who has a key, a cookie or a page of their own, and what goes wrong meanwhile. */
describe('sessions under attack', { skip: !postgres && 'no postgres' }, () => {
  let issuer: MadeUpIssuer;
  let gateway: TestGateway;
  let proxy: TcpProxy;
  let env: NodeJS.ProcessEnv;
  let desk: Credentials;
  let asking: Credentials;
  const commands = new CommandLine();

  before(async () => {
    issuer = await startMadeUpIssuer();
    proxy = await startTcpProxy(postgres?.url ?? '');
    env = { DATABASE_URL: proxy.url, PEOPLE_ISSUER: issuer.issuer, PEOPLE_CLIENT_ID: clientId };
    gateway = await startGateway(env);
    env = { ...env, SECRETS_DIR: `${gateway.dataDir}/secrets` };
    const quotes = { resource: 'quotes', actions: ['read', 'write'] } as const;
    desk = await gateway.newConsumer({ ...quotes, actions: [...quotes.actions] });
    asking = await gateway.newConsumer({ ...quotes, actions: [...quotes.actions], approval: true });
    await change(desk.id, { people: [{ claim: 'groups', value: 'desk' }] });
    await change(asking.id, { people: [{ claim: 'groups', value: 'trainees' }] });
  });
  after(async () => {
    commands.stop();
    await gateway.stop();
    await proxy.close();
    await issuer.stop();
    await postgres?.stop();
  });

  async function change(id: string, body: object): Promise<void> {
    const path = `/v1/admin/consumers/${id}`;
    const changed = await gateway.request(path, { method: 'PATCH', as: gateway.admin, body });
    assert.equal(changed.status, 200, await changed.text());
  }
  async function signIn(claims: object = marta, of = gateway): Promise<Browser> {
    issuer.claims = { groups: ['desk', 'trainees'], ...claims };
    const browser = new Browser();
    const { url } = await browser.open(`${of.url}/console/sign-in`);
    assert.equal(url, `${of.url}/console/`);
    return browser;
  }
  const actAs = async (browser: Browser, { id }: Credentials) => {
    const body = { consumer_id: id };
    const chosen = await browser.ask(`${gateway.url}/console/session`, { method: 'POST', body });
    assert.equal(chosen.status, 200);
  };
  const status = async (browser: Browser, of = gateway) =>
    (await browser.ask(`${of.url}/v1/quotes?limit=1`)).status;

  test('a session is good for no token and no tool, whatever comes with it', async () => {
    const browser = await signIn();
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const own = { 'sec-fetch-site': 'same-origin', 'x-handoff-session': '1' };
    const pair = Buffer.from(`${desk.apiKey}:${desk.apiSecret}`).toString('base64');
    for (const more of [{}, own, { authorization: `Basic ${pair}` }]) {
      const init = { method: 'POST', body: 'grant_type=client_credentials', headers: { ...form, ...more } };
      const token = await browser.send(`${gateway.url}/oauth/token`, init);
      await assertProblem(token, 403, 'permission_denied');
    }
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    for (const headers of [{}, { 'x-actor': 'boss@example.com' }])
      await assertProblem(
        await browser.ask(`${gateway.url}/mcp`, { method: 'POST', body, headers }),
        403,
        'permission_denied',
      );
    // Without the cookie the same form gets one.
    const alone = await fetch(`${gateway.url}/oauth/token`, {
      method: 'POST',
      body: 'grant_type=client_credentials',
      headers: { ...form, authorization: `Basic ${pair}` },
    });
    assert.equal(alone.status, 200);
  });

  test('a tab that shows somebody else ends no session and switches none', async () => {
    const browser = await signIn();
    await actAs(browser, desk);
    const session = `${gateway.url}/console/session`;
    const signOut = `${gateway.url}/console/sign-out`;
    const mark = (await browser.ask(session)).headers.get('x-handoff-person') as string;
    const body = { consumer_id: desk.id };
    const post = (url: string, headers: object) =>
      browser.ask(url, { method: 'POST', ...(url === session && { body }), headers });
    for (const url of [session, signOut])
      await assertProblem(await post(url, { 'x-handoff-person': 'another' }), 403, 'permission_denied');
    const stale = { 'x-handoff-person': mark, 'x-handoff-consumer': 'con_0000000000000000' };
    await assertProblem(await post(session, stale), 403, 'permission_denied');
    assert.equal(await status(browser), 200);
    assert.equal(
      (await post(session, { 'x-handoff-person': mark, 'x-handoff-consumer': desk.id })).status,
      200,
    );
    // Whoever signs out means the person, as whatever consumer.
    assert.equal((await post(signOut, stale)).status, 200);
    assert.equal(await status(browser), 401);
  });

  test('nothing in a header makes somebody else of a person', async () => {
    const browser = await signIn();
    await actAs(browser, desk);
    for (const actor of ['boss@example.com', 'boss%40example.com', '%E0%A4%A', '%00', 'x'.repeat(300)]) {
      const headers = { 'idempotency-key': randomUUID(), 'x-actor': actor };
      const body = offerFor(gateway.org.memberId);
      const made = await browser.ask(`${gateway.url}/api/v1/handoff`, { method: 'POST', body, headers });
      const text = await made.text();
      assert.equal(made.status, 201, text);
      const { external_id: id } = JSON.parse(text) as { external_id: string };
      const quote = await (await browser.ask(`${gateway.url}/v1/quotes/${id}`)).json();
      const { actor: shown, verified } = (quote as { created_by: Record<string, unknown> }).created_by;
      assert.deepEqual([shown, verified], ['Marta.Ruiz@example.com', true]);
    }
  });

  test('who has handed off can decide neither by a session nor by a key', async () => {
    const send = (path: string, by: Credentials | Browser, body?: object, actor?: string) => {
      const headers = { 'idempotency-key': randomUUID(), ...(actor && { 'x-actor': actor }) };
      if (by instanceof Browser)
        return by.ask(gateway.url + path, { method: 'POST', headers, ...(body && { body }) });
      return gateway.request(path, { method: 'POST', as: by, headers, ...(body && { body }) });
    };
    const waiting = async (by: Credentials | Browser, actor?: string) => {
      const made = await send('/api/v1/handoff', by, offerFor(gateway.org.memberId), actor);
      const text = await made.text();
      assert.equal(made.status, 202, text);
      return `/v1/handoffs/${(JSON.parse(text) as { external_id: string }).external_id}`;
    };
    const browser = await signIn();
    // A key in her name, in other letters; and herself, then a key in her name.
    const byKey = await waiting(asking, 'marta.ruiz@EXAMPLE.com');
    await actAs(browser, asking);
    const bySession = await waiting(browser);
    await actAs(browser, desk);
    for (const path of [byKey, bySession])
      for (const [verdict, body] of [['approve'], ['reject', { reason: 'no' }]] as const)
        await assertProblem(await send(`${path}/${verdict}`, browser, body), 403, 'permission_denied');
    const inHerName = 'marta.ruiz@example.com';
    await assertProblem(
      await send(`${bySession}/approve`, desk, undefined, inHerName),
      403,
      'permission_denied',
    );
    assert.equal((await send(`${bySession}/approve`, desk, undefined, 'lead@example.com')).status, 202);
    const lead = await signIn({ sub: 'lead', email: 'lead@example.com', email_verified: true });
    await actAs(lead, desk);
    assert.equal((await send(`${byKey}/approve`, lead)).status, 202);
  });

  test('who replaces what waits, while they approve it in another session, cannot decide on it', async () => {
    const asTrainee = await signIn({ ...marta, groups: ['trainees'] });
    const asDesk = await signIn({ ...marta, groups: ['desk'] });
    for (const change of [{}, { result: { name: 'Hotel Mar', source: 'hotelbeds', details: {} } }]) {
      const body = offerFor(gateway.org.memberId, { reference: 'HB-1', on_repeat: 'update' });
      const asked = await gateway.request('/api/v1/handoff', { body, as: asking });
      const { external_id: id } = (await asked.json()) as { external_id: string };
      const decision = proxy.holdRequests("set status = 'accepted'");
      const approved = asDesk.ask(`${gateway.url}/v1/handoffs/${id}/approve`, { method: 'POST' });
      await decision.hit();
      const again = { method: 'POST', body: { ...body, ...change } };
      assert.equal((await asTrainee.ask(`${gateway.url}/api/v1/handoff`, again)).status, 202);
      decision.release();
      await assertProblem(await approved, 403, 'permission_denied');
    }
  });

  test('a stolen cookie ends with the session, the consumer and the entry, on every replica', async (t) => {
    const replica = await startGateway(env);
    t.after(async () => {
      await replica.stop();
    });
    const thiefOf = (browser: Browser) => {
      const thief = new Browser();
      const cookie = browser.cookie(gateway.url, 'handoff') ?? '';
      for (const { url } of [gateway, replica]) thief.setCookie(url, 'handoff', cookie);
      return thief;
    };
    const isOut = (thief: Browser) =>
      eventually(async () =>
        assert.deepEqual([await status(thief), await status(thief, replica)], [401, 401]),
      );
    const browser = await signIn();
    await actAs(browser, desk);
    const first = thiefOf(browser);
    assert.deepEqual([await status(first), await status(first, replica)], [200, 200]);
    assert.equal((await browser.ask(`${gateway.url}/console/sign-out`, { method: 'POST' })).status, 200);
    assert.deepEqual([await status(first), await status(first, replica)], [401, 401]);
    for (const [end, again] of [
      [{ enabled: false }, { enabled: true }],
      [{ people: [] }, { people: [{ claim: 'groups', value: 'desk' }] }],
    ]) {
      const next = await signIn();
      await actAs(next, desk);
      const thief = thiefOf(next);
      await eventually(async () => assert.equal(await status(thief, replica), 200));
      await change(desk.id, end as object);
      await isOut(thief);
      await change(desk.id, again as object);
    }
  });

  test('a consumer that was disabled has ended its sessions, and no later one, also by a clock that is wrong', async (t) => {
    const secrets = createFileSecretsManager({ dir: `${gateway.dataDir}/secrets` });
    t.after(() => secrets.close());
    for (const minutes of [-1, 1]) {
      const { consumers, clock } = createTestConsumers(secrets);
      clock.advance(minutes * 60_000);
      const brief = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
      await change(brief.id, { people: [{ claim: 'office', value: `${minutes}` }] });
      const person = { ...marta, groups: [], office: minutes };
      const browser = await signIn(person);
      for (const enabled of [false, true]) {
        await consumers.administration.change(brief.id, { enabled });
        const wanted = enabled ? 200 : 401;
        await eventually(async () =>
          assert.equal((await gateway.request('/v1/consumer', { as: brief })).status, wanted),
        );
      }
      assert.equal(await status(browser), 401);
      assert.equal(await status(await signIn(person)), 200);
    }
  });

  test('a person is forgotten: sessions and the log of access, and nobody else', async () => {
    const [browser, other] = [
      await signIn({ sub: 'gone', email: 'gone@example.com', email_verified: true }),
      await signIn({ sub: 'stays', email: 'stays@example.com', email_verified: true }),
    ];
    const named = async () => {
      const path = `/v1/admin/auth-attempts?limit=200&consumer_id=`;
      const people: unknown[] = [];
      for (const { id } of [desk, asking]) {
        const page = await (await gateway.request(path + id, { as: gateway.admin })).json();
        people.push(...(page as { data: { person: string | null }[] }).data.map(({ person }) => person));
      }
      return people;
    };
    assert.deepEqual([await status(browser), await status(other)], [200, 200]);
    await eventually(async () => {
      const people = await named();
      assert.ok(people.includes('gone@example.com') && people.includes('stays@example.com'));
    });
    const forget = (...args: string[]) =>
      commands.run(['person', 'forget', ...args], { env: { ...env, DATA_DIR: gateway.dataDir } });
    const forgotten = await forget('GONE@example.com', '--json');
    assert.equal(forgotten.code, 0, forgotten.stderr);
    const { sessions, attempts } = JSON.parse(forgotten.stdout) as { sessions: number; attempts: number };
    assert.equal(sessions, 1);
    assert.ok(attempts >= 1);
    assert.deepEqual([await status(browser), await status(other)], [401, 200]);
    const people = await named();
    assert.ok(!people.includes('gone@example.com') && people.includes('stays@example.com'));
    const again = await forget('gone@example.com');
    assert.equal(
      again.stdout.trim(),
      'Ended 0 sessions, and erased the person from 0 entries in the access log.',
    );
    assert.equal((await forget(' ')).code, 2);
  });

  test('while the database is away nobody is let in, and a session is there again after it', async () => {
    const browser = await signIn();
    const callback = `${gateway.url}/console/callback`;
    const { url } = await browser.open(`${gateway.url}/console/sign-in`, callback);
    await proxy.cut();
    try {
      const page = await browser.send(url);
      assert.equal(page.status, 503);
      assert.match(await page.text(), /couldn't store your session/);
      await assertProblem(await browser.ask(`${gateway.url}/v1/quotes`), 503, 'store_unavailable');
      await assertProblem(await browser.ask(`${gateway.url}/console/session`), 503, 'store_unavailable');
      const out = await browser.ask(`${gateway.url}/console/sign-out`, { method: 'POST' });
      await assertProblem(out, 503, 'store_unavailable');
    } finally {
      await proxy.restore();
    }
    await eventually(async () => assert.equal(await status(browser), 200));
  });

  test('over https the cookie is of this host alone, and without it nobody can sign in', async () => {
    for (const [PUBLIC_URL, expected] of [
      ['https://handoff.example.com', 303],
      ['http://handoff.example.com', 403],
    ] as const) {
      const replica = await startGateway({ ...env, PUBLIC_URL });
      try {
        const begun = await fetch(`${replica.url}/console/sign-in`, { redirect: 'manual' });
        assert.equal(begun.status, expected);
        const [cookie = ''] = begun.headers.getSetCookie();
        const right =
          /^__Host-handoff-sign-in=[\w-]{43}; Max-Age=900; Path=\/; HttpOnly; SameSite=Lax; Secure$/;
        assert.equal(right.test(cookie), expected === 303, cookie);
        const browser = await signIn();
        browser.setCookie(replica.url, 'handoff', browser.cookie(gateway.url, 'handoff') ?? '');
        assert.equal(await status(browser, replica), 401);
      } finally {
        await replica.stop();
      }
    }
  });

  test('a consumer names at most twenty claims of people', async () => {
    const people = Array.from({ length: 21 }, (_, i) => ({ claim: 'groups', value: `group-${i}` }));
    const path = `/v1/admin/consumers/${asking.id}`;
    const tooMany = { method: 'PATCH', as: gateway.admin, body: { people } };
    await assertProblem(await gateway.request(path, tooMany), 400, 'invalid_request', '#/people');
  });
});

test('a process that was suspended asks again whether the session is still there', async () => {
  const consumer = { id: 'con_1', people: [{ claim: 'sub', value: 'marta-1' }], updatedAt: '2026-01-01' };
  const found = { subject: 'marta-1', actor: 'marta', claims: { sub: 'marta-1' }, consumer_id: 'con_1' };
  // It ends while the answer that it's there waits in the suspended process.
  const answers = [{ ...found, chosen_at: new Date() }, undefined];
  const pauses = [Promise.resolve(), undefined];
  const sessions = new PeopleSessions({
    table: { use: async () => answers.shift() } as never,
    directory: { consumer: () => consumer, newestFirst: () => [], catchUp: () => pauses.shift() } as never,
  });
  assert.equal((await sessions.authenticate('session')).result, 'unknown_key');
});

describe('a session that ends while its person changes to another consumer', () => {
  const opened = useTestDatabase();

  test('stays ended, and the answer says so', async () => {
    const lifetime = { issuer: 'https://login.example.com', idleMinutes: 60, sessionHours: 12 };
    const table = new SessionsTable(opened.replicas[0], lifetime);
    const consumer = { id: 'con_1', name: 'Desk', updatedAt: '2027-01-01T00:00:00.000Z' } as Consumer;
    const sessions = new PeopleSessions({ table, directory: {} as never });
    const person = { subject: 'marta-1', actor: 'marta', name: null, email: null, claims: {} };
    const session = await sessions.begin(person, 'token', [consumer]);
    assert.equal(await sessions.choose(session, consumer), true);
    await sessions.end(session);
    assert.equal(await sessions.choose(session, consumer), false);
  });
});
