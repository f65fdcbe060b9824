import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import type { SecretsManager } from '../../../src/platform/secrets/secrets-manager.ts';
import { createVaultSecretsManager } from '../../../src/platform/secrets/vault.ts';
import type { VaultSignIn } from '../../../src/platform/secrets/vault-session.ts';
import { recordLog } from '../../support/log.ts';
import { VaultServer } from '../../support/vault-server.ts';

const renewal = 'auth/token/renew-self';
const logIn = 'auth/kubernetes/login';
const jwt = 'eyJhbGciOiJSUzI1NiJ9.service-account.signature';

const { log, lines } = recordLog();
const open: SecretsManager[] = [];
let folder: string;
let tokenFile: string;
let server: VaultServer;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'handoff-vault-'));
  tokenFile = join(folder, 'token');
  await writeFile(tokenFile, `${jwt}\n`);
  server = await VaultServer.start();
});
afterEach(async () => {
  server.fault = () => undefined;
  server.calls.length = 0;
  for (const manager of open.splice(0)) await manager.close();
});
after(async () => {
  await server.stop();
  await rm(folder, { recursive: true });
});

function connect(signIn: VaultSignIn): SecretsManager {
  const options = { address: server.address, mount: 'secret', prefix: 'gateway', signIn, log };
  const manager = createVaultSecretsManager(options);
  open.push(manager);
  return manager;
}

function connectPod(options: { ttl: number; maxTtl?: number; role?: string }): SecretsManager {
  const { ttl, maxTtl = 3600, role = 'gateway' } = options;
  server.roles.set('gateway', { jwt, ttl, maxTtl });
  return connect({ method: 'kubernetes', role, tokenFile, mount: 'kubernetes' });
}

function countOf(path: string): number {
  return server.calls.filter((call) => call.path === path).length;
}

/** While the test waits for a timer of the session, which keeps no process alive, this does. */
async function awake<T>(work: Promise<T>): Promise<T> {
  const timer = setTimeout(() => undefined, 60_000);
  return work.finally(() => clearTimeout(timer));
}

describe('a Vault token from the settings', () => {
  it('is renewed before it runs out', async () => {
    const token = server.makeToken(4);
    await connect({ method: 'token', token }).read('a');
    for (let i = 0; i < 3; i++) assert.equal((await awake(server.next(renewal))).status, 200);
    assert.deepEqual(new Set(server.calls.map((call) => call.token)), new Set([token]));
  });

  it('is not renewed when it has no end', async () => {
    const token = server.makeToken();
    const manager = connect({ method: 'token', token });
    await Promise.all([manager.read('a'), manager.read('b')]);
    assert.equal(countOf('auth/token/lookup-self'), 1);
  });

  it('is announced to run out when it cannot be renewed, and named when it has', async () => {
    const token = server.makeToken(3600, { renewable: false });
    const manager = connect({ method: 'token', token });
    await manager.read('a');
    assert.ok(
      lines.some(({ level, message }) => level === 'warn' && message.includes('VAULT_TOKEN expires soon')),
    );
    server.revoke(token);
    await assert.rejects(manager.read('a'), (error: Error) => {
      return /refuses the token in VAULT_TOKEN/.test(error.message) && !error.message.includes(token);
    });
  });

  it('survives a Vault that is unavailable when it is due', async () => {
    const manager = connect({ method: 'token', token: server.makeToken(6) });
    await manager.read('a');
    server.fault = ({ path }) => (path === renewal ? 'sealed' : undefined);
    assert.equal((await awake(server.next(renewal))).status, 503);
    server.fault = () => undefined;
    assert.equal((await awake(server.next(renewal))).status, 200);
    assert.ok(lines.some(({ message }) => message.startsWith("couldn't renew the Vault token")));
  });
});

describe('a Kubernetes service account', () => {
  it('signs in once, however many calls wait for it', async () => {
    const manager = connectPod({ ttl: 3600 });
    await Promise.all(['a', 'b', 'c', 'd'].map((name) => manager.read(name)));
    assert.equal(countOf(logIn), 1);
  });

  it('renews its token, and signs in again near the longest life of one', async () => {
    const manager = connectPod({ ttl: 4, maxTtl: 6 });
    await manager.read('a');
    const again = server.next(logIn);
    const first = await awake(server.next(renewal));
    assert.equal((await awake(again)).status, 200);
    const second = await awake(server.next(renewal));
    assert.deepEqual([first.status, second.status], [200, 200]);
    assert.notEqual(second.token, first.token);
  });

  it('signs in again when its token is refused, once for all calls', async () => {
    const manager = connectPod({ ttl: 3600 });
    await manager.read('a');
    server.revoke(server.calls.at(-1)?.token ?? '');
    await Promise.all(['a', 'b', 'c', 'd'].map((name) => manager.read(name)));
    assert.equal(countOf(logIn), 2);
  });

  it('does not sign in again for a permission that its policy lacks', async () => {
    const manager = connectPod({ ttl: 3600 });
    await manager.read('a');
    server.fault = ({ path }) => (path.includes('gateway/b') ? 'forbidden' : undefined);
    await assert.rejects(manager.read('b'), /permission denied: the token's policy/);
    assert.equal(countOf(logIn), 1);
  });

  it('reads its own token again, which Kubernetes replaces', async () => {
    const manager = connectPod({ ttl: 3600 });
    await manager.read('a');
    server.roles.set('gateway', { jwt: 'second', ttl: 3600, maxTtl: 3600 });
    await writeFile(tokenFile, 'second\n');
    server.revoke(server.calls.at(-1)?.token ?? '');
    await manager.read('a');
    await writeFile(tokenFile, `${jwt}\n`);
  });

  it('says what is wrong with the role or the file, without showing the token', async () => {
    await assert.rejects(connectPod({ ttl: 60, role: 'other' }).read('a'), /refuses the role other/);
    server.roles.set('gateway', { jwt: 'of another pod', ttl: 60, maxTtl: 60 });
    const refused = connect({ method: 'kubernetes', role: 'gateway', tokenFile, mount: 'kubernetes' });
    await assert.rejects(refused.read('a'), (error: Error) => {
      return /refuses the role gateway/.test(error.message) && !error.message.includes('service-account');
    });
    const missing = { method: 'kubernetes' as const, role: 'gateway', mount: 'kubernetes' };
    await assert.rejects(
      connect({ ...missing, tokenFile: join(folder, 'none') }).read('a'),
      /VAULT_K8S_TOKEN_FILE.*ENOENT/,
    );
    await assert.rejects(
      connect({ ...missing, tokenFile, mount: 'other' }).read('a'),
      /sign-in at auth\/other\/login/,
    );
  });

  it('shows no token in any line of the log', () => {
    const text = JSON.stringify(lines);
    assert.ok(lines.length > 0 && !text.includes('hvs.') && !text.includes('service-account'));
  });
});
