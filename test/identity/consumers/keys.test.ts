import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { loadOrCreateKey, pepperName } from '../../../src/identity/consumers/keys.ts';
import { KeyUnusable } from '../../../src/platform/secrets/key-set.ts';
import { createTestConsumers, createTestSecrets, readQuotes } from './fixture.ts';

describe('pepper and other keys that are made once', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  beforeEach(async () => {
    store = await createTestSecrets();
  });
  afterEach(() => store.remove());

  it('is made by one of many first starts, and all use the same', async () => {
    const keys = await Promise.all(
      Array.from({ length: 8 }, () => loadOrCreateKey(store.secrets, 'cursor/key')),
    );
    const first = keys[0]?.current.key.export().toString('hex');
    assert.equal(first?.length, 64);
    for (const { current } of keys) assert.equal(current.key.export().toString('hex'), first);
  });

  it('is never made again while a consumer exists', async () => {
    const { consumers } = createTestConsumers(store.secrets);
    await consumers.store.create({ name: 'shop', permissions: readQuotes });
    const { version } = (await store.secrets.read(pepperName)) ?? { version: '' };
    await store.secrets.delete(pepperName, version);
    const again = createTestConsumers(store.secrets).consumers;
    await assert.rejects(again.start(), (error: Error) => {
      assert.match(error.message, /keys\/pepper is missing .* 1 consumer.* Restore keys\/pepper/);
      return error instanceof KeyUnusable;
    });
    await assert.rejects(again.store.create({ name: 'other', permissions: readQuotes }), KeyUnusable);
    await assert.rejects(loadOrCreateKey(store.secrets, 'cursor/key'), KeyUnusable);
    assert.equal(await store.secrets.read(pepperName), undefined);
  });

  it('is read again when it and the first consumer appear between two looks', async () => {
    const { consumers } = createTestConsumers(store.secrets);
    const secrets = {
      ...store.secrets,
      list: async (folder: string) => {
        await consumers.store.create({ name: 'shop', permissions: readQuotes });
        return store.secrets.list(folder);
      },
    };
    const keys = await loadOrCreateKey(secrets, pepperName);
    assert.ok(keys.current.key.equals((await consumers.keys.load()).pepper.current.key));
  });

  it('may have two versions, and the first line is for new work', async () => {
    const one = Buffer.alloc(32, 1).toString('base64');
    const two = Buffer.alloc(32, 2).toString('base64');
    await store.secrets.write(pepperName, `2:${two}\r\n1:${one}\n\n`, null);
    const keys = await loadOrCreateKey(store.secrets, pepperName);
    assert.equal(keys.current.version, 2);
    assert.equal(keys.get(1)?.export().toString('base64'), one);
    assert.equal(keys.get(3), undefined);
  });

  it('is refused when it is not well formed, without showing it', async () => {
    const good = Buffer.alloc(32, 7).toString('base64');
    const bad = ['', '\n', good, `0:${good}`, `1:${good.slice(4)}`, `1:${good}\n1:${good}`, `1:${good}\nx`];
    let version: string | null = null;
    for (const value of bad) {
      version = await store.secrets.write(pepperName, value, version);
      await assert.rejects(loadOrCreateKey(store.secrets, pepperName), (error: Error) => {
        return error instanceof KeyUnusable && !error.message.includes(good.slice(4, 30));
      });
    }
  });

  it('keeps old hashes valid while a new version comes in, without a restart', async () => {
    const { consumers } = createTestConsumers(store.secrets);
    const { apiKey, apiSecret } = await consumers.store.create({ name: 'shop', permissions: readQuotes });
    await consumers.start();
    const old = await store.secrets.read(pepperName);
    const next = Buffer.alloc(32, 9).toString('base64');
    await store.secrets.write(pepperName, `2:${next}\n${old?.value}`, old?.version ?? null);
    await consumers.directory.refresh();
    const created = await consumers.store.create({ name: 'new', permissions: readQuotes });
    assert.equal(created.consumer.credentials[0]?.pepperVersion, 2);
    consumers.directory.put(created.consumer, created.version);
    for (const pair of [{ apiKey, apiSecret }, created]) {
      assert.equal((await consumers.authenticate(pair)).result, 'accepted');
    }
    await consumers.stop();
  });
});
