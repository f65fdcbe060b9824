import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Problem } from '../../src/base/problem.ts';
import { BrokenConsumer, consumerSecretName } from '../../src/consumers/consumer.ts';
import { viewOfConsumer } from '../../src/consumers/consumer-view.ts';
import { VersionConflict } from '../../src/secrets/secrets-manager.ts';
import { createTestConsumers, createTestSecrets, readQuotes } from './fixture.ts';

describe('consumers in the secrets manager', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  beforeEach(async () => {
    store = await createTestSecrets();
  });
  afterEach(() => store.remove());
  const consumerStore = () => createTestConsumers(store.secrets).consumers.store;

  it('stores a keyed hash and never the secret', async () => {
    const { consumer, apiSecret } = await consumerStore().create({ name: 'shop', permissions: readQuotes });
    const stored = (await store.secrets.read(consumerSecretName(consumer.id)))?.value ?? '';
    assert.ok(!stored.includes(apiSecret));
    assert.deepEqual(JSON.parse(stored), consumer);
    const [credential] = consumer.credentials;
    assert.deepEqual(
      [credential?.algorithm, credential?.pepperVersion, credential?.state],
      ['hmac-sha256', 1, 'active'],
    );
    assert.ok(!JSON.stringify(viewOfConsumer(consumer, Date.now())).includes(credential?.hash ?? '?'));
  });

  it('saves only over the version that was read, and keeps what it does not know', async () => {
    const { create, find, save } = consumerStore();
    const { consumer, version } = await create({ name: 'shop', permissions: readQuotes });
    const newer = { ...consumer, madeByANewerVersion: { kept: true } };
    await save(newer, version);
    await assert.rejects(save(consumer, version), VersionConflict);
    assert.deepEqual((await find(consumer.id))?.consumer, newer);
    assert.equal(await find('con_0000000000000000'), undefined);
  });

  it('loses none of two changes at once that are made again on conflict', async () => {
    const { create } = consumerStore();
    const { consumer } = await create({ name: '0', permissions: readQuotes });
    const addOne = async (consumers: ReturnType<typeof consumerStore>): Promise<void> => {
      const { find, save } = consumers;
      const found = await find(consumer.id);
      assert.ok(found);
      try {
        await save({ ...found.consumer, name: String(Number(found.consumer.name) + 1) }, found.version);
      } catch (error) {
        assert.ok(error instanceof VersionConflict);
        await addOne(consumers);
      }
    };
    await Promise.all(Array.from({ length: 8 }, () => addOne(consumerStore())));
    assert.equal((await consumerStore().find(consumer.id))?.consumer.name, '8');
  });

  it('names every fault of a new consumer by where it stands', async () => {
    const permissions = [
      { resource: 'quotes', actions: [] },
      { resource: 'qoutes', actions: ['read', 'fly'] },
    ];
    await assert.rejects(consumerStore().create({ name: 'x', permissions }), (error: Error) => {
      assert.ok(error instanceof Problem && error.code === 'invalid_request');
      const where = error.facts.errors?.map((fault) => 'pointer' in fault && fault.pointer);
      assert.deepEqual(where, [
        '#/permissions/0/actions',
        '#/permissions/1/resource',
        '#/permissions/1/actions',
      ]);
      return true;
    });
    const none = consumerStore().create({ name: 'x', permissions: [] });
    await assert.rejects(none, (error: Error) => error instanceof Problem);
    for (const name of ['', '   ', 'x'.repeat(101), 'a\nb', 'x'.repeat(1_000_000)]) {
      await assert.rejects(consumerStore().create({ name, permissions: readQuotes }), Problem);
    }
    await consumerStore().create({ name: '🎉'.repeat(100), permissions: readQuotes });
  });

  it('says which record is broken', async () => {
    const { consumer, version } = await consumerStore().create({ name: 'shop', permissions: readQuotes });
    await store.secrets.write(consumerSecretName(consumer.id), '{"id": 1}', version);
    await assert.rejects(consumerStore().find(consumer.id), (error: Error) => {
      return error instanceof BrokenConsumer && error.message.includes(consumer.id);
    });
  });
});
