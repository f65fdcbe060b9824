import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cp, mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { connect as connectPlain } from 'node:net';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { type Certificate, type Certificates, createCertificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { createSecureClient, type SecureClient } from '../support/tls-client.ts';

describe('the secure port, while it runs', () => {
  let certificates: Certificates;
  let authority: Certificate;
  let secondAuthority: Certificate;
  let server: Certificate;
  let newServer: Certificate;
  let client: Certificate;
  let secondClient: Certificate;
  let gateway: TestGateway;
  /** Where the gateway finds its files, laid out as Kubernetes mounts secrets. */
  let folder: string;
  let versions = 0;
  let opened: SecureClient[] = [];

  before(async () => {
    certificates = await createCertificates();
    authority = await certificates.authority('authority');
    secondAuthority = await certificates.authority('second-authority');
    server = await certificates.issue('server', authority);
    newServer = await certificates.issue('new-server', authority);
    client = await certificates.issue('client', authority);
    secondClient = await certificates.issue('second-client', secondAuthority);
  });
  after(() => certificates.remove());
  beforeEach(async () => {
    versions++;
    folder = join(certificates.dir, `mount-${versions}`);
    await mkdir(folder);
    await publish({ cert: server.cert, key: server.key, ca: authority.cert });
    for (const name of ['cert', 'key', 'ca']) await symlink(`..data/${name}`, join(folder, name));
    gateway = await startGateway({
      TLS_CERT_FILE: join(folder, 'cert'),
      TLS_KEY_FILE: join(folder, 'key'),
      TLS_CLIENT_CA_FILE: join(folder, 'ca'),
      TLS_CLIENT_AUTH: 'required',
    });
  });
  afterEach(async () => {
    for (const open of opened) open.close();
    opened = [];
    await gateway.stop();
  });

  /** Replaces the link to the folder of the files in one step. */
  async function publish(files: Record<string, string>): Promise<void> {
    versions++;
    const version = `..version-${versions}`;
    await cp(join(folder, '..data'), join(folder, version), { recursive: true, dereference: true }).catch(
      () => mkdir(join(folder, version)),
    );
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, version, name), text);
    await symlink(version, join(folder, '..data_new'));
    await rename(join(folder, '..data_new'), join(folder, '..data'));
  }

  async function publishAndAwait(files: Record<string, string>, message: RegExp): Promise<void> {
    const count = () => gateway.logLines.filter((line) => message.test(line.message)).length;
    const earlier = count();
    await publish(files);
    await eventually(() => assert.notEqual(count(), earlier));
  }

  const loaded = /certificates were loaded again/;

  function connect(own: Certificate | undefined, options = {}): SecureClient {
    const made = createSecureClient(gateway.url, authority, own, options);
    opened.push(made);
    return made;
  }

  const ask = (open: SecureClient) => open.ask('/v1/quotes', { as: gateway.console });

  test('new connections get the new certificate, and the open ones stay', async () => {
    const open = connect(client);
    const first = await ask(open);
    await publishAndAwait({ cert: newServer.cert, key: newServer.key }, loaded);
    const second = await ask(open);
    assert.deepEqual([first.status, second.status], [200, 200]);
    assert.equal(second.connection, first.connection);
    assert.equal(open.serverFingerprint(), server.fingerprint);
    const later = connect(client);
    assert.equal((await ask(later)).status, 200);
    assert.equal(later.serverFingerprint(), newServer.fingerprint);
    // Still asked for, since the new context was given everything again.
    assert.equal((await ask(connect(undefined))).status, 401);
  });

  test('files that can not be served are logged once, and change nothing', async () => {
    const broken = /can't use the new TLS files/;
    for (const files of [
      { key: client.key },
      { key: 'no key' },
      { key: server.key, ca: 'no authority' },
      { ca: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----' },
    ]) {
      await publishAndAwait(files, broken);
      assert.equal((await ask(connect(client))).status, 200);
    }
    assert.equal(gateway.logLines.filter(({ message }) => broken.test(message)).length, 4);
    assert.ok(!JSON.stringify(gateway.logLines).includes('PRIVATE KEY'));
    await publishAndAwait({ ca: authority.cert, cert: newServer.cert, key: newServer.key }, loaded);
    assert.equal((await ask(connect(client))).status, 200);
  });

  test('an authority that is added is trusted, and no connection ends for it', async () => {
    const open = connect(client);
    const first = await ask(open);
    assert.equal((await ask(connect(secondClient))).status, 401);
    await publishAndAwait({ ca: authority.cert + secondAuthority.cert }, loaded);
    const second = await ask(open);
    assert.deepEqual([second.status, second.connection], [200, first.connection]);
    assert.equal((await ask(connect(secondClient))).status, 200);
  });

  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`an authority that is removed opens nothing more, not even what is open (${version})`, async () => {
      await publishAndAwait({ ca: authority.cert + secondAuthority.cert }, loaded);
      const versionOnly = { minVersion: version, maxVersion: version, maxCachedSessions: 0 };
      const open = connect(client, versionOnly);
      const stays = connect(secondClient, versionOnly);
      const first = await ask(open);
      const firstOfOther = await ask(stays);
      assert.deepEqual([first.status, firstOfOther.status], [200, 200]);
      const session = open.session();
      assert.ok(session);
      const handshake = await startHandshake();

      await publishAndAwait({ ca: secondAuthority.cert }, loaded);
      const second = await ask(open);
      assert.deepEqual([second.status, second.connection], [401, first.connection]);
      assert.equal(second.headers.connection, 'close');
      const secondOfOther = await ask(stays);
      assert.deepEqual([secondOfOther.status, secondOfOther.connection], [200, firstOfOther.connection]);

      const resuming = connect(client, { ...versionOnly, session });
      assert.equal((await ask(resuming)).status, 401);
      assert.equal(resuming.isResumed(), false);
      // Verified against the old authorities, since its handshake began before.
      assert.match(await handshake.finish(versionOnly), /^HTTP\/1\.1 401 /);
    });
  }

  /** A connection that the server has accepted, and on which nothing has been said yet. */
  async function startHandshake() {
    const { port } = new URL(gateway.url);
    const socket = connectPlain(Number(port), '127.0.0.1');
    await once(socket, 'connect');
    // A client that gets an answer to a later connection knows that this one was accepted.
    assert.equal((await connect(undefined).ask('/v1/healthz')).status, 200);
    return {
      async finish(options: ConnectionOptions): Promise<string> {
        const { cert, key } = client;
        const secure = connectTls({ socket, ca: authority.cert, cert, key, host: '127.0.0.1', ...options });
        const { apiKey, apiSecret } = gateway.console;
        const headers = `host: a\r\nx-api-key: ${apiKey}\r\nx-api-secret: ${apiSecret}`;
        secure.write(`GET /v1/quotes HTTP/1.1\r\n${headers}\r\nconnection: close\r\n\r\n`);
        return Buffer.concat(await secure.toArray()).toString();
      },
    };
  }

  test('what is no TLS, no TLS of today or no HTTP harms nobody', async () => {
    const { port } = new URL(gateway.url);
    const open = connect(client);
    const first = await ask(open);
    const plain = connectPlain(Number(port), '127.0.0.1');
    plain.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    plain.resume();
    await once(plain, 'close');
    const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' } as const;
    for (const options of [old, { ...old, minVersion: 'TLSv1' as const, maxVersion: 'TLSv1' as const }]) {
      const refused = connectTls({ port: Number(port), host: '127.0.0.1', ca: authority.cert, ...options });
      await assert.rejects(once(refused, 'secureConnect'));
    }
    // Gone in the middle of the handshake, with the start of one said and without.
    for (const bytes of ['', '\u0016\u0003\u0001']) {
      const gone = connectPlain(Number(port), '127.0.0.1');
      await once(gone, 'connect');
      gone.write(bytes, 'latin1');
      gone.destroy();
    }
    const noHttp = connectTls({ port: Number(port), host: '127.0.0.1', ca: authority.cert });
    noHttp.write('hello\r\n\r\n');
    const answer = Buffer.concat(await noHttp.toArray()).toString();
    assert.match(answer, /^HTTP\/1\.1 400 [^]*application\/problem\+json[^]*"code":"invalid_request"/);

    const second = await ask(open);
    assert.deepEqual([second.status, second.connection], [200, first.connection]);
    const failures = /^handoff_tls_handshake_failures_total ([0-9]+)$/m;
    const metrics = async () => {
      const answer = await fetch(`${gateway.operationsUrl}/metrics`);
      return answer.text();
    };
    await eventually(async () => assert.ok(Number(failures.exec(await metrics())?.[1]) >= 5));
    const logged = gateway.logLines.filter(({ message }) => message === 'a TLS handshake failed');
    assert.equal(logged.length, 5);
    assert.ok(logged.every(({ level, facts }) => level === 'debug' && Object.keys(facts).join() === 'code'));
  });

  test('files that can not be served keep the service from starting, in words', async () => {
    const files = { TLS_CERT_FILE: server.certFile, TLS_KEY_FILE: client.keyFile };
    await assert.rejects(startGateway(files), /tls\.certFile and tls\.keyFile can't be served: .*key values/);
    const missing = { ...files, TLS_KEY_FILE: join(folder, 'none') };
    await assert.rejects(startGateway(missing), /tls\.keyFile can't be read: ENOENT/);
  });
});
