import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { type Certificate, type Certificates, createCertificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../support/gateway.ts';
import { createSecureClient, type SecureClient } from '../support/tls-client.ts';

describe('mutual TLS', () => {
  let certificates: Certificates;
  let authority: Certificate;
  let server: Certificate;
  let client: Certificate;
  let other: Certificate;
  let stranger: Certificate;
  let expired: Certificate;
  let opened: SecureClient[] = [];

  before(async () => {
    certificates = await createCertificates();
    authority = await certificates.authority('authority');
    server = await certificates.issue('server', authority);
    client = await certificates.issue('client', authority);
    other = await certificates.issue('other', authority);
    expired = await certificates.issueEnding('expired', authority, -1);
    stranger = await certificates.issue('stranger', await certificates.authority('foreign'));
  });
  after(() => certificates.remove());
  afterEach(() => {
    for (const open of opened) open.close();
    opened = [];
  });

  function start(env: NodeJS.ProcessEnv): Promise<TestGateway> {
    return startGateway({ TLS_CERT_FILE: server.certFile, TLS_KEY_FILE: server.keyFile, ...env });
  }

  function startChecking(auth: 'optional' | 'required', env: NodeJS.ProcessEnv = {}): Promise<TestGateway> {
    return start({ TLS_CLIENT_CA_FILE: authority.certFile, TLS_CLIENT_AUTH: auth, ...env });
  }

  function connect(gateway: TestGateway, own?: Certificate, options = {}): SecureClient {
    const made = createSecureClient(gateway.url, authority, own, options);
    opened.push(made);
    return made;
  }

  async function statusOf(gateway: TestGateway, as: Credentials, own?: Certificate, options = {}) {
    return (await connect(gateway, own, options).ask('/v1/quotes', { as })).status;
  }

  /** As the administrator would, over a connection of its own. */
  async function administer(gateway: TestGateway, method: string, body?: object): Promise<void> {
    const path = `/v1/admin/consumers/${gateway.console.id}`;
    const answer = await connect(gateway, other).ask(path, {
      method,
      as: gateway.admin,
      ...(body && { body }),
    });
    assert.ok(answer.status < 300, answer.body);
  }

  function attemptsOf(gateway: TestGateway, result: string) {
    return gateway.logLines.filter(({ message, facts }) => message === 'request' && facts.result === result);
  }

  /** The one attempt with that result: it is logged once the answer is out, which may be a moment after it has come. */
  async function assertOneAttempt(gateway: TestGateway, result: string): Promise<void> {
    await eventually(() => assert.notEqual(attemptsOf(gateway, result).length, 0), { everyMs: 5 });
    assert.equal(attemptsOf(gateway, result).length, 1);
  }

  describe('required', () => {
    let gateway: TestGateway;
    before(async () => {
      gateway = await startChecking('required');
    });
    after(() => gateway.stop());

    test('every answer says that only TLS is spoken here', async () => {
      const secure = connect(gateway);
      for (const path of ['/v1/healthz', '/v1/docs', '/v1/quotes', '/nothing/here', '/console/']) {
        const { headers } = await secure.ask(path);
        assert.equal(headers['strict-transport-security'], 'max-age=31536000', path);
      }
    });

    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      test(`answers 401 without a certificate that is valid, and serves those with one (${version})`, async () => {
        const options = { minVersion: version, maxVersion: version };
        assert.equal(await statusOf(gateway, gateway.console, undefined, options), 401);
        assert.equal(await statusOf(gateway, gateway.console, stranger, options), 401);
        assert.equal(await statusOf(gateway, gateway.console, client, options), 200);
      });
    }

    test('takes no certificate that has expired', async () => {
      assert.equal(await statusOf(gateway, gateway.console, expired), 401);
    });

    test('leaves the public routes open, and all other checks in force', async () => {
      const anonymous = connect(gateway);
      assert.equal((await anonymous.ask('/v1/healthz')).status, 200);
      assert.equal((await anonymous.ask('/v1/docs')).status, 200);
      assert.equal((await connect(gateway, client).ask('/v1/quotes')).status, 401);
      const wrong = { ...gateway.console, apiSecret: gateway.admin.apiSecret };
      assert.equal(await statusOf(gateway, wrong, client), 401);
    });

    test('gives one answer for every reason and keeps the reason', async () => {
      const { length } = attemptsOf(gateway, 'certificate');
      const { body } = await connect(gateway).ask('/v1/quotes', { as: gateway.console });
      assert.equal(JSON.parse(body).code, 'invalid_credentials');
      const { detail } = JSON.parse((await connect(gateway, client).ask('/v1/quotes')).body);
      assert.equal(JSON.parse(body).detail, detail);
      const attempts = attemptsOf(gateway, 'certificate');
      assert.equal(attempts.length, length + 1);
      assert.equal(attempts.at(-1)?.facts.consumer_id, gateway.console.id);
    });

    test('keeps the metrics port plain', async () => {
      assert.equal((await fetch(`${gateway.operationsUrl}/readyz`)).status, 200);
    });
  });

  describe('optional', () => {
    let gateway: TestGateway;
    before(async () => {
      gateway = await startChecking('optional');
    });
    after(() => gateway.stop());
    afterEach(() => administer(gateway, 'PATCH', { certificateFingerprints: [], certificateNames: [] }));

    test('asks for the right certificate only where a consumer is bound to one', async () => {
      assert.equal(await statusOf(gateway, gateway.console), 200);
      assert.equal(await statusOf(gateway, gateway.console, stranger), 200);
      for (const form of [client.fingerprint, client.fingerprint.replaceAll(':', '').toLowerCase()]) {
        await administer(gateway, 'PATCH', { certificateFingerprints: [stranger.fingerprint, form] });
        assert.equal(await statusOf(gateway, gateway.console), 401);
        assert.equal(await statusOf(gateway, gateway.console, other), 401);
        // Bound to, but of an authority that nobody trusts.
        assert.equal(await statusOf(gateway, gateway.console, stranger), 401);
        assert.equal(await statusOf(gateway, gateway.console, client), 200);
      }
    });

    test('a binding that is removed ends at the next request on an open connection', async () => {
      await administer(gateway, 'PATCH', { certificateFingerprints: [client.fingerprint] });
      const open = connect(gateway, client);
      const first = await open.ask('/v1/quotes', { as: gateway.console });
      const second = await open.ask('/v1/quotes', { as: gateway.console });
      assert.deepEqual([first.status, second.status], [200, 200]);
      await administer(gateway, 'PATCH', { certificateFingerprints: [other.fingerprint] });
      const third = await open.ask('/v1/quotes', { as: gateway.console });
      assert.deepEqual([third.status, third.connection], [401, first.connection]);
      assert.equal(third.headers.connection, 'close');
    });

    test('takes any certificate of a name that the consumer is bound to, so that a renewed one needs no change', async () => {
      const names =
        'DNS:Orders.Partner.example,URI:spiffe://partner.example/orders,email:ops@Partner.example';
      const first = await certificates.issue('named', authority, names);
      const renewed = await certificates.issue('renewed', authority, names);
      const foreign = await certificates.issue('pretender', await certificates.authority('elsewhere'), names);
      for (const name of [
        'orders.PARTNER.example',
        'spiffe://partner.example/orders',
        'ops@partner.EXAMPLE',
      ]) {
        await administer(gateway, 'PATCH', { certificateNames: ['other.example', name] });
        for (const [own, status] of [
          [undefined, 401],
          [client, 401],
          [foreign, 401],
          [first, 200],
          [renewed, 200],
        ] as const)
          assert.equal(await statusOf(gateway, gateway.console, own), status, name);
      }
      // One of either list.
      await administer(gateway, 'PATCH', { certificateFingerprints: [client.fingerprint] });
      assert.equal(await statusOf(gateway, gateway.console, client), 200);
      assert.equal(await statusOf(gateway, gateway.console, renewed), 200);
      assert.equal(await statusOf(gateway, gateway.console, other), 401);
      await administer(gateway, 'PATCH', { certificateNames: [] });
      assert.equal(await statusOf(gateway, gateway.console, renewed), 401);
    });

    test('a name in a header of a proxy proves nothing', async () => {
      await administer(gateway, 'PATCH', { certificateNames: ['orders.partner.example'] });
      const named = await certificates.issue('proxied', authority, 'DNS:orders.partner.example');
      const pem = encodeURIComponent(named.cert);
      const headers = {
        'x-forwarded-client-cert': `By=x;Cert="${pem}";DNS=orders.partner.example`,
        'x-client-cert': pem,
        'x-ssl-client-verify': 'SUCCESS',
        'ssl-client-cert': pem,
        'client-cert': `:${Buffer.from(named.cert).toString('base64')}:`,
      };
      for (const own of [undefined, client])
        assert.equal(
          (await connect(gateway, own).ask('/v1/quotes', { as: gateway.console, headers })).status,
          401,
        );
      assert.equal(await statusOf(gateway, gateway.console, named), 200);
    });

    test('a name in another form, a wildcard or a part of one is no match', async () => {
      const odd = await certificates.issue(
        'odd',
        authority,
        'DNS:*.partner.example,URI:dns:orders.partner.example,email:a@orders.partner.example',
      );
      await administer(gateway, 'PATCH', { certificateNames: ['orders.partner.example'] });
      assert.equal(await statusOf(gateway, gateway.console, odd), 401);
      await administer(gateway, 'PATCH', { certificateNames: ['partner.example'] });
      assert.equal(await statusOf(gateway, gateway.console, odd), 401);
    });

    test('an entry that is no name of a certificate is refused', async () => {
      const wrong = [
        '*.partner.example',
        '10.0.0.1',
        'a b',
        'a,DNS:b.example',
        '@partner.example',
        'a@*.example',
      ];
      for (const name of wrong) {
        const answer = await connect(gateway, other).ask(`/v1/admin/consumers/${gateway.console.id}`, {
          method: 'PATCH',
          as: gateway.admin,
          body: { certificateNames: ['right.example', name] },
        });
        assert.equal(answer.status, 400, name);
        assert.equal(JSON.parse(answer.body).errors[0].pointer, '#/certificateNames/1');
      }
    });

    test('a change of names holds on the other replica, too', async (t) => {
      const named = await certificates.issue('elsewhere-too', authority, 'DNS:orders.partner.example');
      const second = await startChecking('optional', { SECRETS_DIR: `${gateway.dataDir}/secrets` });
      const until = (status: number, own?: Certificate) =>
        eventually(async () => assert.equal(await statusOf(second, gateway.console, own), status));
      t.after(async () => {
        await second.stop();
      });
      await until(200);
      await administer(gateway, 'PATCH', { certificateNames: ['orders.partner.example'] });
      await until(401);
      await until(200, named);
      await administer(gateway, 'PATCH', { certificateNames: ['other.example'] });
      await until(401, named);
      await administer(gateway, 'PATCH', { certificateNames: [] });
      await until(200);
    });

    test('a consumer has at most 20 names', async () => {
      const names = Array.from({ length: 21 }, (_, index) => `${index}.partner.example`);
      const change = async (certificateNames: string[]) => {
        const path = `/v1/admin/consumers/${gateway.console.id}`;
        const options = { method: 'PATCH', as: gateway.admin, body: { certificateNames } };
        return connect(gateway, other).ask(path, options);
      };
      const { status, body } = await change(names);
      assert.equal(status, 400, body);
      assert.equal(JSON.parse(body).errors[0].pointer, '#/certificateNames');
      assert.equal((await change(names.slice(1))).status, 200);
    });

    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      test(`a resumed session proves no more than the one before (${version})`, async () => {
        await administer(gateway, 'PATCH', { certificateFingerprints: [client.fingerprint] });
        for (const [own, status] of [
          [undefined, 401],
          [stranger, 401],
          [client, 200],
        ] as const) {
          const { first, second } = await askTwice(gateway, own, version);
          assert.deepEqual([first, second], [status, status]);
        }
      });
    }

    test('a consumer that is revoked is refused at the next request on an open connection', async (t) => {
      const own = await startChecking('optional');
      t.after(async () => {
        await own.stop();
      });
      const open = connect(own, client);
      const first = await open.ask('/v1/quotes', { as: own.console });
      await administer(own, 'DELETE');
      const second = await open.ask('/v1/quotes', { as: own.console });
      assert.deepEqual([first.status, second.status], [200, 401]);
      assert.equal(first.connection, second.connection);
    });
  });

  test('a consumer that is bound to a certificate is refused where clients are not asked for one', async (t) => {
    const gateway = await start({});
    t.after(async () => {
      await gateway.stop();
    });
    assert.equal(await statusOf(gateway, gateway.console, client), 200);
    await administer(gateway, 'PATCH', { certificateFingerprints: [client.fingerprint] });
    assert.equal(await statusOf(gateway, gateway.console, client), 401);
    await assertOneAttempt(gateway, 'certificate');
  });

  test('and where there is no TLS at all', async (t) => {
    const gateway = await startGateway();
    t.after(async () => {
      await gateway.stop();
    });
    const body = { certificateFingerprints: [client.fingerprint] };
    const path = `/v1/admin/consumers/${gateway.console.id}`;
    const changed = await gateway.request(path, { method: 'PATCH', as: gateway.admin, body });
    assert.equal(changed.status, 200);
    assert.equal((await gateway.request('/v1/quotes')).status, 401);
    await assertOneAttempt(gateway, 'certificate');
  });

  /** Two connections, of which the second resumes the session of the first. */
  async function askTwice(gateway: TestGateway, own: Certificate | undefined, version: string) {
    const options = { minVersion: version, maxVersion: version, maxCachedSessions: 0 };
    const firstClient = connect(gateway, own, options);
    const first = await firstClient.ask('/v1/quotes', { as: gateway.console });
    const session = firstClient.session();
    assert.ok(session);
    const secondClient = connect(gateway, own, { ...options, session });
    const second = await secondClient.ask('/v1/quotes', { as: gateway.console });
    assert.equal(secondClient.isResumed(), true);
    return { first: first.status, second: second.status };
  }
});
