import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { makeFirstConsumers } from '../../../src/identity/consumers/first-start.ts';
import { SecretsUnavailable } from '../../../src/platform/secrets/secrets-manager.ts';
import { createTestConsumers, createTestSecrets, readQuotes } from './fixture.ts';

const all = ['read', 'write', 'delete'];

describe('first start', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  let dataDir: string;
  const children: ChildProcess[] = [];
  beforeEach(async () => {
    store = await createTestSecrets();
    dataDir = join(store.folder, 'data');
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    await store.remove();
  });
  const makeFirst = (consumers = createTestConsumers(store.secrets).consumers) =>
    makeFirstConsumers({ secrets: store.secrets, consumers, secretsDir: store.dir, dataDir });
  const startProcess = async (dieAt?: number) => {
    const script = join(import.meta.dirname, 'first-start-process.ts');
    const child = fork(script, [store.dir, dataDir, ...(dieAt === undefined ? [] : [String(dieAt)])]);
    children.push(child);
    const [code, signal] = await once(child, 'exit');
    return signal ?? code;
  };
  const revoke = async (...ids: string[]) => {
    const { consumers } = createTestConsumers(store.secrets);
    for (const id of ids) await consumers.administration.revoke(id);
  };
  const readCredentials = async () => JSON.parse(await readFile(join(dataDir, 'credentials.json'), 'utf8'));

  /** Two consumers, and a file whose credentials are good for them. */
  const assertWhole = async () => {
    const { consumers } = createTestConsumers(store.secrets);
    await consumers.start();
    const credentials = await readCredentials();
    assert.deepEqual(Object.keys(credentials), ['console', 'admin']);
    for (const name of ['console', 'admin']) {
      assert.deepEqual(Object.keys(credentials[name]), ['id', 'apiKey', 'apiSecret']);
      const answer = await consumers.authenticate(credentials[name]);
      assert.ok(answer.result === 'accepted');
      assert.deepEqual([answer.consumer.id, answer.consumer.name], [credentials[name].id, name]);
      const business = ['members', 'quotes', 'bookings'];
      const resources = [...business, ...(name === 'admin' ? ['consumers'] : []), 'webhooks'];
      const expected = resources.map((resource) => ({ resource, actions: all }));
      assert.deepEqual(answer.consumer.permissions, expected);
    }
    assert.equal((await consumers.store.list()).length, 2);
    assert.deepEqual(await readdir(dataDir), ['credentials.json']);
    assert.equal((await stat(join(dataDir, 'credentials.json'))).mode & 0o777, 0o600);
    await consumers.stop();
  };

  it('makes console and admin and writes their credentials', async () => {
    assert.equal(await makeFirst(), join(dataDir, 'credentials.json'));
    await assertWhole();
    const before = await readCredentials();
    assert.equal(await makeFirst(), undefined);
    assert.deepEqual(await readCredentials(), before);
  });

  it('makes none where a consumer exists, be its record broken', async () => {
    const { consumers } = createTestConsumers(store.secrets);
    await consumers.store.create({ name: 'shop', permissions: readQuotes });
    assert.equal(await makeFirst(), undefined);
    const [name = ''] = await store.secrets.list('consumers');
    await writeFile(join(store.dir, name), 'broken');
    assert.equal(await makeFirst(), undefined);
    assert.equal((await store.secrets.list('consumers')).length, 1);
  });

  it('makes two consumers when several processes start at once', async () => {
    assert.deepEqual(await Promise.all([startProcess(), startProcess(), startProcess()]), [0, 0, 0]);
    await assertWhole();
  });

  for (const dieAt of [1, 2, 3]) {
    it(`is completed by the next start when it was killed at write ${dieAt}`, async () => {
      assert.equal(await startProcess(dieAt), 'SIGKILL');
      await assert.rejects(readCredentials());
      await makeFirst();
      await assertWhole();
    });
  }

  it('begins again where the draft of a crash is of no use', async () => {
    await makeFirst();
    const { admin, console } = await readCredentials();
    await revoke(admin.id, console.id);
    for (const content of [
      '',
      '{"console":',
      '{}',
      JSON.stringify({ console, admin: { ...admin, id: 'con_x' } }),
    ]) {
      await writeFile(join(dataDir, 'credentials.json~draft'), content);
    }
    await makeFirst();
    await assertWhole();
    assert.notEqual((await readCredentials()).admin.id, admin.id);
  });

  it('makes none where those that the file names were lost, until that is deleted', async () => {
    await makeFirst();
    const { admin } = await readCredentials();
    await rm(store.dir, { recursive: true });
    const lost = (error: unknown) =>
      error instanceof SecretsUnavailable && /credentials\.json/.test(error.message);
    await assert.rejects(makeFirst(), lost);
    await mkdir(store.dir, { recursive: true });
    await assert.rejects(makeFirst(), lost);
    assert.equal((await readCredentials()).admin.id, admin.id);
    assert.deepEqual(await store.secrets.list('keys'), []);
    await rm(join(dataDir, 'credentials.json'));
    await makeFirst();
    await assertWhole();
  });
});
