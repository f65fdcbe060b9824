import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { permissionActions, permissionResources } from '../../../src/identity/consumers/consumer.ts';
import { viewOfConsumer } from '../../../src/identity/consumers/consumer-view.ts';
import { BrokenConsumer, consumerSecretName } from '../../../src/identity/consumers/stored-consumer.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { VersionConflict } from '../../../src/platform/secrets/secrets-manager.ts';
import { createTestConsumers, createTestSecrets, readQuotes } from './fixture.ts';

/** The parts of a record that the first versions check, as they check them. */
const firstSchema = Type.Object({
  permissions: Type.Array(
    Type.Object({
      resource: Type.Enum(['members', 'quotes', 'bookings', 'consumers']),
      actions: Type.Array(Type.Enum(['read', 'write', 'delete']), { minItems: 1 }),
    }),
  ),
  certificateFingerprints: Type.Array(Type.String()),
  rotatedAt: Type.Union([Type.String(), Type.Null()]),
});

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

  it('stores what earlier versions can load, and grants nothing there that they would take for more', async () => {
    const { create, find } = consumerStore();
    const permissions = [
      { resource: 'quotes', actions: ['read', 'write'], records: 'own' },
      { resource: 'bookings', actions: ['read'], records: 'all' },
      { resource: 'webhooks', actions: ['read'] },
    ];
    const { consumer } = await create({ name: 'shop', permissions });
    const name = consumerSecretName(consumer.id);
    const { value = '', version = '' } = (await store.secrets.read(name)) ?? {};
    const stored = JSON.parse(value);
    assert.ok(Compile(firstSchema).Check(stored));
    assert.deepEqual(stored.permissions, [{ resource: 'bookings', actions: ['read'] }]);
    assert.deepEqual(new Set((await find(consumer.id))?.consumer.permissions), new Set(consumer.permissions));
    // An older version changes what it knows and keeps the rest.
    const change = { ...stored, permissions: [{ resource: 'quotes', actions: ['read'] }] };
    await store.secrets.write(name, JSON.stringify(change), version);
    assert.deepEqual((await find(consumer.id))?.consumer.permissions, [
      { resource: 'quotes', actions: ['read'] },
      { resource: 'webhooks', actions: ['read'] },
    ]);
  });

  it('stores a permission that needs approval or names fields so that no earlier version grants it', async () => {
    const { create, find, save } = consumerStore();
    const permissions = [
      { resource: 'quotes', actions: ['write'], records: 'own', approval: true },
      { resource: 'bookings', actions: ['read'], fields: ['name'] },
    ];
    const { consumer, version } = await create({ name: 'shop', permissions });
    await save(consumer, version);
    const name = consumerSecretName(consumer.id);
    const stored = JSON.parse((await store.secrets.read(name))?.value ?? '');
    assert.deepEqual(stored.permissions, []);
    // Earlier versions grant only what has one of these two.
    assert.equal(stored.furtherPermissions.length, 2);
    for (const { records } of stored.furtherPermissions)
      assert.ok(![undefined, 'all', 'own'].includes(records));
    assert.deepEqual((await find(consumer.id))?.consumer.permissions, permissions);
  });

  it('loads a record with permissions of a newer version, which grant nothing and are kept', async () => {
    const { create, find, save } = consumerStore();
    const { consumer, version } = await create({ name: 'shop', permissions: readQuotes });
    const name = consumerSecretName(consumer.id);
    const newer = [
      { resource: 'trips', actions: ['read'] },
      { resource: 'bookings', actions: ['read', 'fly'] },
      { resource: 'bookings', actions: ['read'], records: 'some' },
      { resource: 'members', actions: ['read'], records: 'own' },
      { resource: 'members', actions: ['read'], approval: true },
      { resource: 'bookings', actions: ['read'], onlyOn: 'Mondays' },
    ];
    const text = JSON.stringify({ ...consumer, permissions: [...readQuotes, ...newer] });
    await store.secrets.write(name, text, version);
    const loaded = await find(consumer.id);
    assert.ok(loaded);
    assert.deepEqual(loaded.consumer.permissions, readQuotes);
    await save({ ...loaded.consumer, name: 'changed' }, loaded.version);
    const stored = JSON.parse((await store.secrets.read(name))?.value ?? '');
    assert.deepEqual([stored.permissions, stored.furtherPermissions], [readQuotes, newer]);
    assert.deepEqual((await find(consumer.id))?.consumer.unknownPermissions, newer);
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

  it('fits a secret with all pairs, limits and waiting events that a consumer can have', async () => {
    const { consumers, clock } = createTestConsumers(store.secrets);
    const text = (i: number) => `2001:db8:1111:2222:3333:4444:5555:${(4096 + i).toString(16)}/128`;
    const addresses = Array.from({ length: 100 }, (_, i) => text(i));
    const fingerprints = Array.from({ length: 20 }, (_, i) => String(i).padStart(64, 'a'));
    const { administration } = consumers;
    const everything = permissionResources.map((resource) => ({ resource, actions: [...permissionActions] }));
    const { consumer } = await administration.create({
      ...{ name: '€'.repeat(100), permissions: everything },
      ...{ allowedAddresses: addresses, certificateFingerprints: fingerprints },
    });
    const forget = async () => {
      const { auditEvents = [] } = (await consumers.store.find(consumer.id))?.consumer ?? {};
      await consumers.store.forgetEvents(
        consumer.id,
        new Set(auditEvents.map((event) => (event as { id: string }).id)),
      );
    };
    for (let pairs = 0; pairs < 150; pairs++) {
      clock.advance(1000);
      await administration.rotate(consumer.id, pairs < 35 ? 0 : 1000);
      if (pairs % 20 === 0) await forget();
    }
    await forget();
    const change = { allowedAddresses: addresses.toReversed(), certificateFingerprints: ['b'.repeat(64)] };
    await administration.change(consumer.id, change);
    const name = (i: number) => administration.change(consumer.id, { name: `${'€'.repeat(98)}${i}` });
    await assert.rejects(
      async () => {
        for (let i = 0; i < 50; i++) await name(i);
      },
      (error) => error instanceof Problem && error.code === 'conflict',
    );
    assert.equal((await consumers.store.find(consumer.id))?.consumer.credentials.length, 150);
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
