import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import {
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from '../../../src/platform/secrets/secrets-manager.ts';
import { createVaultSecretsManager, type VaultOptions } from '../../../src/platform/secrets/vault.ts';
import { lostSecretsConformance } from '../../conformance/lost-secrets.ts';
import { addLines, secretsManagerConformance } from '../../conformance/secrets-manager.ts';
import { recordLog } from '../../support/log.ts';
import { type VaultFault, VaultServer } from '../../support/vault-server.ts';

const { log, lines } = recordLog();
const open: SecretsManager[] = [];
let server: VaultServer;
let token: string;
let stores = 0;

before(async () => {
  server = await VaultServer.start();
  token = server.makeToken();
});
afterEach(() => {
  server.fault = () => undefined;
});
after(async () => {
  for (const manager of open) await manager.close();
  await server.stop();
});

function connect(options: Partial<VaultOptions> = {}): SecretsManager {
  const manager = createVaultSecretsManager({
    address: server.address,
    mount: 'secret',
    prefix: 'gateway',
    signIn: { method: 'token', token },
    log,
    ...options,
  });
  open.push(manager);
  return manager;
}

secretsManagerConformance(
  'vault',
  async () => {
    const prefix = `store-${++stores}`;
    return {
      connect: async () => connect({ prefix }),
      addInAnotherProcess: async (name, count) => {
        const script = join(import.meta.dirname, 'add-lines-remotely.ts');
        const env = { VAULT_ADDR: server.address, VAULT_TOKEN: token, VAULT_PREFIX: prefix };
        await promisify(execFile)(process.execPath, [script, 'vault', name, String(count)], {
          env: { ...process.env, ...env },
        });
      },
    };
  },
  { reportsChanges: false },
);

lostSecretsConformance('vault', () => {
  const prefix = `store-${++stores}`;
  return () => connect({ prefix });
});

describe('secrets in Vault', () => {
  it('loses no write of many writers on many clients', async () => {
    const managers = Array.from({ length: 4 }, () => connect());
    await Promise.all(
      managers.flatMap((manager) => [addLines(manager, 'race', 5), addLines(manager, 'race', 5)]),
    );
    const text = (await managers[0]?.read('race'))?.value ?? '';
    assert.equal(new Set(text.trim().split('\n')).size, 40);
  });

  it('removes the history with a secret, and keeps versions apart that have the same number', async () => {
    const manager = connect();
    const first = await manager.write('again/a', 'one', null);
    await manager.delete('again/a', first);
    assert.deepEqual(
      server.paths().filter((path) => path.includes('again')),
      [],
    );
    assert.deepEqual(await manager.list('again'), []);
    const second = await manager.write('again/a', 'two', null);
    assert.notEqual(second, first);
    await assert.rejects(manager.write('again/a', 'three', first), VersionConflict);
    await assert.rejects(manager.delete('again/a', first), VersionConflict);
    assert.deepEqual(await manager.read('again/a'), { value: 'two', version: second });
  });

  it('creates again what was deleted softly by hand', async () => {
    const manager = connect();
    await manager.write('soft/a', 'one', null);
    server.softDelete('gateway/soft/a');
    assert.equal(await manager.read('soft/a'), undefined);
    const outcomes = await Promise.allSettled([
      manager.write('soft/a', 'two', null),
      connect().write('soft/a', 'two', null),
    ]);
    assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    assert.equal((await manager.read('soft/a'))?.value, 'two');
  });

  it('never removes what was created while a deletion is under way', async () => {
    const manager = connect();
    const version = await manager.write('slow/a', 'one', null);
    const removal = Promise.withResolvers<void>();
    server.fault = ({ method, path }) => {
      if (method !== 'DELETE' || !path.endsWith('slow/a')) return undefined;
      removal.resolve();
      return 'reset';
    };
    const deleted = assert.rejects(manager.delete('slow/a', version), SecretsUnavailable);
    await removal.promise;
    // Marked and not removed yet: nothing to be read, nothing to be written over.
    assert.equal(await manager.read('slow/a'), undefined);
    await assert.rejects(manager.write('slow/a', 'x', version), VersionConflict);
    const created = connect().write('slow/a', 'two', null);
    await deleted;
    await server.next('secret/data/gateway/slow/a');
    server.remove('gateway/slow/a');
    await created;
    assert.equal((await manager.read('slow/a'))?.value, 'two');
  });

  it('says what a secret needs that is not as the gateway writes it', async () => {
    server.put('gateway/odd/a', { password: 'hunter2' });
    const reads = connect().read('odd/a');
    await assert.rejects(
      reads,
      (error: Error) => /key "value"/.test(error.message) && !error.message.includes('hunter2'),
    );
    server.put('gateway/odd/b', { value: 'é'.repeat(33_000) });
    await assert.rejects(connect().read('odd/b'), /odd\/b in Vault: a secret can have at most 65536 bytes/);
    await assert.rejects(connect().write('odd/c', 'é'.repeat(33_000), null), /65536 bytes/);
  });

  it('leaves out names that the gateway could not read', async () => {
    server.put('gateway/names/.hidden', { value: 'x' });
    server.put('gateway/names/with space', { value: 'x' });
    server.put('gateway/names/good', { value: 'x' });
    assert.deepEqual(await connect().list('names'), ['names/good']);
  });

  it('takes the mount for missing, not the secret, where no engine serves it', async () => {
    const manager = connect({ mount: 'nowhere' });
    for (const work of [manager.read('a'), manager.list('a'), manager.write('a', 'x', null)])
      await assert.rejects(work, /no such path: check VAULT_ADDR, VAULT_MOUNT/);
  });

  it('sends the namespace', async () => {
    server.namespace = 'team/a';
    try {
      await connect({ namespace: 'team/a' }).write('spaced', 'x', null);
      await assert.rejects(connect().read('spaced'), SecretsUnavailable);
    } finally {
      server.namespace = undefined;
    }
  });
});

describe('a failing Vault', () => {
  const faults: Record<Exclude<VaultFault, 'lost'>, RegExp> = {
    sealed: /it's sealed/,
    forbidden: /permission denied/,
    throttled: /rate limit is reached/,
    broken: /failing or not ready/,
    hang: /took too long/,
    reset: /UND_ERR_SOCKET|ECONNRESET/,
    html: /no such path/,
    huge: /more than 8388608 bytes/,
    echo: /failing or not ready/,
  };
  for (const [fault, reason] of Object.entries(faults)) {
    it(`says so: ${fault}`, async () => {
      // Only one that hangs is to take as long as that.
      const manager = connect({ timeoutMs: fault === 'hang' ? 2000 : 10_000 });
      await manager.read('warm');
      server.fault = ({ path }) => (path.includes('/gateway/') ? (fault as VaultFault) : undefined);
      for (const work of [
        () => manager.read('a'),
        () => manager.list('a'),
        () => manager.write('a', 'hunter2', null),
        () => manager.delete('a', 'x'),
      ]) {
        await assert.rejects(work(), (error: Error) => {
          assert.ok(error instanceof SecretsUnavailable, String(error));
          assert.match(error.message, reason);
          return !showsSecret(error);
        });
      }
    });
  }

  it('says that a write may have been done, and reads once more where a connection was lost', async () => {
    const manager = connect();
    server.fault = ({ method }) => (method === 'POST' ? 'lost' : undefined);
    await assert.rejects(manager.write('lost/a', 'x', null), /the call may have taken effect/);
    let times = 0;
    server.fault = () => (times++ === 0 ? 'reset' : undefined);
    assert.equal((await manager.read('lost/a'))?.value, 'x');
  });

  it('says which address does not answer', async () => {
    const gone = await VaultServer.start();
    const { address } = gone;
    await gone.stop();
    const manager = connect({ address });
    await assert.rejects(manager.checkHealth(), (error: Error) => {
      return (
        error instanceof SecretsUnavailable &&
        error.message.includes(address) &&
        /ECONNREFUSED/.test(error.message)
      );
    });
  });

  it('answers many questions for its health with one call, and notices a failure at once', async () => {
    const manager = connect();
    await manager.read('a');
    const from = server.calls.length;
    await Promise.all(Array.from({ length: 50 }, () => manager.checkHealth()));
    assert.equal(server.calls.length, from + 1);
    server.fault = () => 'sealed';
    await assert.rejects(manager.read('a'), /sealed/);
    await assert.rejects(manager.checkHealth(), /sealed/);
  });

  it('shows neither the token nor a secret in any line of the log', () => {
    assert.ok(!JSON.stringify(lines).includes(token));
    assert.ok(!JSON.stringify(lines).includes('hunter2'));
  });
});

function showsSecret(error: Error): boolean {
  const text = `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`;
  return text.includes(token) || text.includes('hunter2');
}
