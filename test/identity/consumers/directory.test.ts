import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Permission } from '../../../src/identity/consumers/consumer.ts';
import type { CreatedConsumer } from '../../../src/identity/consumers/consumer-store.ts';
import type { Consumers } from '../../../src/identity/consumers/consumers.ts';
import { makeConsumerId, makeCredentialPair } from '../../../src/identity/consumers/credentials.ts';
import { consumerSecretName } from '../../../src/identity/consumers/stored-consumer.ts';
import { type SecretsManager, SecretsUnavailable } from '../../../src/platform/secrets/secrets-manager.ts';
import { eventually } from '../../support/eventually.ts';
import { standStill } from '../../support/late-answers.ts';
import { createTestConsumers, createTestSecrets, readQuotes } from './fixture.ts';

type Fixture = ReturnType<typeof createTestConsumers>;

/** Resolves when the pair is answered like that; the change of a file is announced by the system, not by us. */
async function until(consumers: Consumers, pair: CreatedConsumer, result: string): Promise<void> {
  for (let i = 0; (await consumers.authenticate(pair)).result !== result; i++) {
    assert.ok(i < 6000, `never ${result}`);
    await delay(10);
  }
}

describe('directory of consumers', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  const started: Consumers[] = [];
  beforeEach(async () => {
    store = await createTestSecrets();
  });
  afterEach(async () => {
    for (const consumers of started.splice(0)) await consumers.stop();
    await store.remove();
  });
  const start = async (
    secrets: SecretsManager = store.secrets,
    refreshSeconds?: number,
  ): Promise<Fixture> => {
    const fixture = createTestConsumers(secrets, refreshSeconds);
    started.push(fixture.consumers);
    await fixture.consumers.start();
    await fixture.consumers.directory.refresh();
    return fixture;
  };
  /** Hears of no change by itself, as over a network. */
  const deaf = (): SecretsManager => ({ ...store.secrets, watch: () => () => undefined });
  const create = (fixture: Fixture, name = 'shop') =>
    fixture.consumers.store.create({ name, permissions: readQuotes });
  const resultOf = async ({ consumers }: Fixture, pair: { apiKey: string; apiSecret: string }) =>
    (await consumers.authenticate(pair)).result;

  it('sees a consumer that another instance creates, changes and deletes, when the file changes', async () => {
    const first = await start();
    const second = await start();
    await create(first, 'another');
    const shop = await create(first);
    await until(second.consumers, shop, 'accepted');
    const revoked = { ...shop.consumer, credentials: [] };
    const version = await first.consumers.store.save(revoked, shop.version);
    await until(second.consumers, shop, 'revoked');
    const back = await first.consumers.store.save(shop.consumer, version);
    await until(second.consumers, shop, 'accepted');
    await store.secrets.delete(consumerSecretName(shop.consumer.id), back);
    await until(second.consumers, shop, 'revoked');
  });

  it('refreshes by itself every refreshSeconds', async () => {
    const fixture = await start(deaf(), 0.02);
    await create(fixture, 'another');
    const shop = await create(fixture);
    fixture.consumers.directory.put(shop.consumer, shop.version);
    await store.secrets.delete(consumerSecretName(shop.consumer.id), shop.version);
    await until(fixture.consumers, shop, 'revoked');
  });

  it('reads all again after a pause of over a second, before it decides about anybody', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    const other = await create(fixture, 'other');
    await fixture.consumers.directory.refresh();
    await fixture.consumers.store.save({ ...shop.consumer, enabled: false }, shop.version);
    const permissions: Permission[] = [{ resource: 'quotes', actions: ['read', 'write'] }];
    await fixture.consumers.store.save({ ...other.consumer, permissions }, other.version);
    standStill(300);
    assert.equal(await resultOf(fixture, shop), 'accepted');
    standStill(1100);
    const answers = await Promise.all([shop, other, shop].map((pair) => resultOf(fixture, pair)));
    assert.deepEqual(answers, ['disabled', 'accepted', 'disabled']);
    assert.deepEqual(fixture.consumers.directory.consumer(other.consumer.id)?.permissions, permissions);
    assert.ok(!(fixture.consumers.authenticate(shop) instanceof Promise));
  });

  it('decides again where it pauses while it decides', async () => {
    const answer = Promise.withResolvers<void>();
    let isPaused = false;
    const secrets = deaf();
    const read = async (name: string) => {
      const secret = await secrets.read(name);
      if (isPaused) await answer.promise;
      return secret;
    };
    const fixture = await start({ ...secrets, read });
    const maker = await start(deaf());
    const shop = await create(maker);
    isPaused = true;
    const deciding = resultOf(fixture, shop);
    await eventually(() => assert.ok(store.reads.includes(consumerSecretName(shop.consumer.id))), {
      everyMs: 1,
    });
    await maker.consumers.store.save({ ...shop.consumer, enabled: false }, shop.version);
    isPaused = false;
    standStill(1100);
    answer.resolve();
    assert.equal(await deciding, 'disabled');
  });

  it('goes on with what is loaded where a pause ends while the secrets manager is unavailable', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    await fixture.consumers.directory.refresh();
    store.failWith(new SecretsUnavailable('no route to the vault'));
    standStill(1100);
    assert.equal(await resultOf(fixture, shop), 'accepted');
  });

  it('finds a new consumer by the one read that its key is worth', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    store.reads.length = 0;
    const answers = await Promise.all(Array.from({ length: 20 }, () => resultOf(fixture, shop)));
    assert.deepEqual(new Set(answers), new Set(['accepted']));
    assert.deepEqual(store.reads, [consumerSecretName(shop.consumer.id)]);
    // Also once the clock was set back.
    fixture.clock.advance(-3_600_000);
    assert.equal(await resultOf(fixture, await create(fixture)), 'accepted');
  });

  it('reads once a second at most under a flood of random keys, and valid callers notice nothing', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    await fixture.consumers.directory.refresh();
    store.reads.length = 0;
    for (let second = 1; second <= 3; second++) {
      const flood = Array.from({ length: 2000 }, () => {
        const pair = makeCredentialPair(makeConsumerId());
        return resultOf(fixture, pair);
      });
      assert.ok(!(fixture.consumers.authenticate(shop) instanceof Promise));
      assert.equal(await resultOf(fixture, shop), 'accepted');
      assert.deepEqual(new Set(await Promise.all(flood)), new Set(['unknown_key']));
      assert.equal(store.reads.length, second);
      fixture.clock.advance(1000);
    }
  });

  it('reads nothing for a key with a wrong checksum or one that was missed lately, until a refresh', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    const deleted = await create(await start(deaf()), 'deleted');
    await store.secrets.delete(consumerSecretName(deleted.consumer.id), deleted.version);
    store.reads.length = 0;
    const damaged = {
      ...shop,
      apiKey: `${shop.apiKey.slice(0, -1)}${shop.apiKey.endsWith('0') ? '1' : '0'}`,
    };
    assert.equal(await resultOf(fixture, damaged), 'unknown_key');
    assert.equal(store.reads.length, 0);
    for (let i = 0; i < 3; i++) {
      assert.equal(await resultOf(fixture, deleted), 'unknown_key');
      fixture.clock.advance(1000);
    }
    assert.equal(store.reads.length, 1);
    await fixture.consumers.directory.refresh();
    store.reads.length = 0;
    assert.equal(await resultOf(fixture, deleted), 'unknown_key');
    assert.equal(store.reads.length, 1);
  });

  it('keeps what is loaded while the secrets manager is unavailable, says so with the age, and recovers', async () => {
    const fixture = await start(deaf());
    const { consumers, clock, lines } = fixture;
    const shop = await create(fixture);
    await consumers.directory.refresh();
    assert.deepEqual(consumers.directory.status(), { connected: true, consumers: 1, ageSeconds: 0 });
    store.failWith(new SecretsUnavailable('no route to the vault'));
    clock.advance(90_000);
    await consumers.directory.refresh();
    assert.deepEqual(consumers.directory.status(), { connected: false, consumers: 1, ageSeconds: 90 });
    assert.equal(await resultOf(fixture, shop), 'accepted');
    assert.equal(await resultOf(fixture, makeCredentialPair(makeConsumerId())), 'unknown_key');
    assert.ok(lines.some(({ level }) => level === 'error'));
    store.failWith(undefined);
    await consumers.directory.refresh();
    assert.deepEqual(consumers.directory.status(), { connected: true, consumers: 1, ageSeconds: 0 });
  });

  it('reads a change that was announced meanwhile once the secrets manager is back, long before the next refresh', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    await fixture.consumers.directory.refresh();
    await fixture.consumers.store.save({ ...shop.consumer, credentials: [] }, shop.version);
    store.failWith(new SecretsUnavailable('unavailable'));
    await fixture.consumers.directory.readAgain(shop.consumer.id);
    assert.equal(await resultOf(fixture, shop), 'accepted');
    store.failWith(undefined);
    await until(fixture.consumers, shop, 'revoked');
  });

  it('reads no more often while the secrets manager is unavailable, however many changes were announced', async (t) => {
    const fixture = await start(deaf());
    const { consumer } = await create(fixture);
    store.failWith(new SecretsUnavailable('unavailable'));
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const pass = async () => {
      t.mock.timers.tick(100);
      await new Promise(setImmediate);
    };
    for (let n = 0; n < 20; n++) {
      await fixture.consumers.directory.readAgain(consumer.id);
      await pass();
    }
    store.reads.length = 0;
    for (let n = 0; n < 20; n++) await pass();
    assert.equal(store.reads.length, 1);
  });

  it('does not start without the secrets manager', async () => {
    store.failWith(new SecretsUnavailable('no route to the vault'));
    await assert.rejects(start(), SecretsUnavailable);
  });

  it('keeps one consumer that cannot be read as it was, and takes the changes of the others', async () => {
    let unreadable = '';
    const secrets: SecretsManager = {
      ...deaf(),
      read: async (name) => {
        if (name === unreadable) throw new SecretsUnavailable(`${name} is forbidden`);
        return store.secrets.read(name);
      },
    };
    const fixture = await start(secrets);
    const shop = await create(fixture);
    const other = await create(fixture, 'other');
    await fixture.consumers.directory.refresh();
    unreadable = consumerSecretName(shop.consumer.id);
    await store.secrets.delete(consumerSecretName(other.consumer.id), other.version);
    await fixture.consumers.directory.refresh();
    assert.equal(await resultOf(fixture, shop), 'accepted');
    assert.equal(await resultOf(fixture, other), 'revoked');
    assert.equal(fixture.consumers.directory.status().connected, false);
  });

  it('leaves broken records out, names them once and shows nothing of them', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    const record = JSON.stringify(shop.consumer);
    const broken: Record<string, string> = {
      [makeConsumerId()]: record,
      [makeConsumerId()]: 'not json: hgs_private',
      [makeConsumerId()]: '[]',
      [makeConsumerId()]: '',
      'not-an-id': '{}',
    };
    await mkdir(join(store.dir, 'consumers', 'folder'), { recursive: true });
    await writeFile(join(store.dir, 'consumers', 'folder', 'below'), 'null');
    for (const [id, value] of Object.entries(broken))
      await writeFile(join(store.dir, 'consumers', id), value);
    fixture.lines.length = 0;
    await fixture.consumers.directory.refresh();
    await fixture.consumers.directory.refresh();
    const named = fixture.lines.map(({ facts }) => facts['secret']).sort();
    assert.deepEqual(named, [...Object.keys(broken), 'folder/below'].map((id) => `consumers/${id}`).sort());
    assert.ok(!JSON.stringify(fixture.lines).includes('hgs_private'));
    assert.equal(await resultOf(fixture, shop), 'accepted');
    assert.deepEqual(
      (await fixture.consumers.store.list()).map(({ id }) => id),
      [shop.consumer.id],
    );
  });

  it('does not let a refresh that began earlier undo what this process wrote meanwhile', async () => {
    let gate = undefined as Promise<void> | undefined;
    let waiting = 0;
    let bothWait = () => undefined as void;
    const secrets: SecretsManager = {
      ...deaf(),
      read: async (name) => {
        const found = await store.secrets.read(name);
        if (gate === undefined || !name.startsWith('consumers/')) return found;
        if (++waiting === 2) bothWait();
        await gate;
        return found;
      },
    };
    const fixture = await start(secrets);
    const shop = await create(fixture);
    const gone = await create(fixture, 'gone');
    await fixture.consumers.directory.refresh();
    let open = () => undefined as void;
    gate = new Promise((resolve) => {
      open = resolve;
    });
    const read = new Promise<void>((resolve) => {
      bothWait = resolve;
    });
    const refresh = fixture.consumers.directory.refresh();
    await read;
    const rotated = { ...shop.consumer, credentials: [] };
    fixture.consumers.directory.put(rotated, await fixture.consumers.store.save(rotated, shop.version));
    fixture.consumers.directory.put({ ...gone.consumer, revokedAt: new Date().toISOString() }, 'later');
    open();
    await refresh;
    assert.equal(await resultOf(fixture, shop), 'revoked');
    assert.equal(await resultOf(fixture, gone), 'revoked');
  });

  it('lets nobody revoke a consumer of a service whose secrets folder was emptied by calling with its id', async () => {
    const fixture = await start(deaf());
    const shop = await create(fixture);
    await fixture.consumers.directory.refresh();
    await rm(join(store.dir, 'consumers'), { recursive: true });
    // The checksum of a key is no secret.
    assert.equal(await resultOf(fixture, makeCredentialPair(shop.consumer.id)), 'unknown_key');
    assert.equal(await resultOf(fixture, shop), 'accepted');
  });

  it('writes no secret and no API key to the log, whatever happens', async () => {
    const fixture = await start();
    const shop = await create(fixture);
    await until(fixture.consumers, shop, 'accepted');
    await fixture.consumers.authenticate({ apiKey: shop.apiKey, apiSecret: 'guess-of-a-secret' });
    store.failWith(new SecretsUnavailable('unavailable'));
    await fixture.consumers.authenticate(makeCredentialPair(makeConsumerId()));
    await fixture.consumers.directory.refresh();
    store.failWith(undefined);
    await writeFile(
      join(store.dir, consumerSecretName(shop.consumer.id)),
      JSON.stringify({ ...shop, id: 1 }),
    );
    await until(fixture.consumers, shop, 'revoked');
    const text = JSON.stringify(fixture.lines);
    assert.match(text, /broken/);
    assert.doesNotMatch(text, /hgk_|hgs_|guess-of-a-secret/);
    assert.ok(!text.includes(shop.consumer.credentials[0]?.hash ?? '?'));
  });
});
