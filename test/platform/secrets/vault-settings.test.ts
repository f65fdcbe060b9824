import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { loadSettings } from '../../../src/app/settings.ts';
import { vaultOptions } from '../../../src/platform/secrets/secrets.ts';
import { SettingsError } from '../../../src/platform/settings/settings.ts';

const optionsOf = (env: Record<string, string>) =>
  vaultOptions(loadSettings({ SECRETS_MANAGER: 'vault', ...env }).vault);

const faultsOf = (env: Record<string, string>) => {
  try {
    optionsOf(env);
    return [];
  } catch (error) {
    assert.ok(error instanceof SettingsError);
    return error.faults;
  }
};

/** Of the message about one setting, its variable. */
const variableOf = (fault: string) => /\((VAULT_[A-Z0-9_]+)\)/.exec(fault)?.[1];

describe('the settings of Vault', () => {
  it('are complete with an address and a token', () => {
    const env = { VAULT_ADDR: 'https://vault.example.com:8200/', VAULT_TOKEN: 'hvs.x', VAULT_MOUNT: '' };
    assert.deepEqual(optionsOf(env), {
      address: 'https://vault.example.com:8200',
      mount: 'secret',
      prefix: 'handoff-gateway',
      signIn: { method: 'token', token: 'hvs.x' },
      namespace: undefined,
      ca: undefined,
    });
  });

  it('are complete with an address and a Kubernetes role', () => {
    const env = { VAULT_ADDR: 'http://127.0.0.1:8200', VAULT_K8S_ROLE: 'gateway', VAULT_NAMESPACE: 'a/b' };
    const result = optionsOf({ ...env, VAULT_MOUNT: 'kv/team', VAULT_K8S_MOUNT: 'k8s' });
    assert.equal(result.mount, 'kv/team');
    assert.equal(result.namespace, 'a/b');
    assert.deepEqual(result.signIn, {
      method: 'kubernetes',
      role: 'gateway',
      tokenFile: '/var/run/secrets/kubernetes.io/serviceaccount/token',
      mount: 'k8s',
    });
  });

  it('are named when they are missing or wrong, all at once and without the token', () => {
    assert.equal(faultsOf({}).length, 2);
    const faults = faultsOf({
      VAULT_ADDR: 'vault:8200',
      VAULT_TOKEN: 'hunter2 ü',
      VAULT_MOUNT: '/secret/',
      VAULT_PREFIX: '../../x',
      VAULT_K8S_MOUNT: 'a b',
      VAULT_CACERT: '/does/not/exist',
    });
    const names = [
      'VAULT_ADDR',
      'VAULT_CACERT',
      'VAULT_K8S_MOUNT',
      'VAULT_MOUNT',
      'VAULT_PREFIX',
      'VAULT_TOKEN',
    ];
    assert.deepEqual(faults.map(variableOf).sort(), names);
    assert.ok(!faults.join().includes('hunter2'));
  });

  it('hold one way to sign in, and no address in the clear in production', () => {
    const env = { VAULT_ADDR: 'http://vault.internal:8200', VAULT_TOKEN: 'hvs.x' };
    assert.deepEqual(faultsOf(env), []);
    assert.match(faultsOf({ ...env, NODE_ENV: 'production' }).join(), /\(VAULT_ADDR\) must start with https/);
    assert.match(faultsOf({ ...env, VAULT_K8S_ROLE: 'r' }).join(), /both set/);
    assert.match(faultsOf({ ...env, VAULT_ADDR: 'https://u:p@vault' }).join(), /\(VAULT_ADDR\) must be/);
  });

  it('take authorities from a file that holds a certificate', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'handoff-vault-'));
    const file = join(folder, 'ca.pem');
    const env = { VAULT_ADDR: 'https://vault', VAULT_TOKEN: 'hvs.x', VAULT_CACERT: file };
    await writeFile(file, 'nothing');
    assert.match(faultsOf(env).join(), /no PEM certificate/);
    await writeFile(file, '-----BEGIN CERTIFICATE-----\n');
    const result = optionsOf(env);
    assert.ok(result.ca?.startsWith('-----BEGIN'));
    await rm(folder, { recursive: true });
  });
});
