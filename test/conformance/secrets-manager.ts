import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { type SecretsManager, VersionConflict } from '../../src/platform/secrets/secrets-manager.ts';
import { recordChanges } from '../platform/secrets/changes.ts';

/** How the suite reaches one secrets manager: every call makes another client of the same, empty store. */
export interface ManagerUnderTest {
  connect(): Promise<SecretsManager>;
  /** Runs `add(name, count)` of this file in another process and resolves when it ended well. */
  addInAnotherProcess(name: string, count: number): Promise<void>;
}

/** What every implementation of the port promises. `makeManager` makes an empty store. */
export function secretsManagerConformance(
  name: string,
  makeManager: () => Promise<ManagerUnderTest>,
  { reportsChanges } = { reportsChanges: true },
): void {
  describe(`secrets manager: ${name}`, () => {
    const open: SecretsManager[] = [];
    const connectTwice = async () => {
      const store = await makeManager();
      const pair = [await store.connect(), await store.connect()] as const;
      open.push(...pair);
      return { store, pair };
    };
    after(async () => {
      for (const manager of open) await manager.close();
    });

    it('gives back what was written, to every client', async () => {
      const { pair } = await connectTwice();
      const version = await pair[0].write('crm/dev/private-key', 'line 1\nline 2 é\n', null);
      assert.deepEqual(await pair[1].read('crm/dev/private-key'), { value: 'line 1\nline 2 é\n', version });
    });

    it('has undefined for what is not there', async () => {
      const { pair } = await connectTwice();
      assert.equal(await pair[0].read('webhooks/crm'), undefined);
      assert.deepEqual(await pair[0].list('webhooks'), []);
    });

    it('creates only where there is nothing, and the loser reads what the winner wrote', async () => {
      const { pair } = await connectTwice();
      const outcomes = await Promise.allSettled(
        pair.map((manager, i) => manager.write('pepper/x', `by ${i}`, null)),
      );
      assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
      const winner = outcomes.findIndex(({ status }) => status === 'fulfilled');
      const lost = outcomes[1 - winner];
      assert.ok(lost?.status === 'rejected' && lost.reason instanceof VersionConflict);
      assert.equal((await pair[1].read('pepper/x'))?.value, `by ${winner}`);
    });

    it('refuses to write over or delete a version that the writer has not seen', async () => {
      const { pair } = await connectTwice();
      const first = await pair[0].write('a/b', 'one', null);
      const second = await pair[1].write('a/b', 'two', first);
      assert.notEqual(second, first);
      await assert.rejects(pair[0].write('a/b', 'three', first), VersionConflict);
      await assert.rejects(pair[0].delete('a/b', first), VersionConflict);
      await assert.rejects(pair[0].write('a/c', 'one', first), VersionConflict);
      assert.deepEqual(await pair[0].read('a/b'), { value: 'two', version: second });
    });

    it('deletes, and what is deleted can be created again', async () => {
      const { pair } = await connectTwice();
      const version = await pair[0].write('a/b', 'one', null);
      await pair[1].delete('a/b', version);
      assert.equal(await pair[0].read('a/b'), undefined);
      await assert.rejects(pair[0].delete('a/b', version), VersionConflict);
      await pair[0].write('a/b', 'one', null);
      assert.equal((await pair[1].read('a/b'))?.value, 'one');
    });

    it('lists all names below a folder and nothing beside it', async () => {
      const { pair } = await connectTwice();
      for (const secret of ['consumers/a', 'consumers/b.c', 'consumers/deep/d', 'consumers2/e', 'pepper/f']) {
        await pair[0].write(secret, 'x', null);
      }
      assert.deepEqual((await pair[1].list('consumers')).sort(), [
        'consumers/a',
        'consumers/b.c',
        'consumers/deep/d',
      ]);
    });

    it('loses no write of many writers on two clients', async () => {
      const { pair } = await connectTwice();
      const writers = Array.from({ length: 10 }, (_, i) =>
        addLines(pair[i % 2] as SecretsManager, 'race', 5),
      );
      await Promise.all(writers);
      const lines = (await pair[0].read('race'))?.value.trim().split('\n') ?? [];
      assert.equal(lines.length, 50);
      assert.equal(new Set(lines).size, 50);
    });

    it('loses no write of two processes', async () => {
      const { store, pair } = await connectTwice();
      const writers = [store.addInAnotherProcess('race', 25), store.addInAnotherProcess('race', 25)];
      await Promise.all([...writers, addLines(pair[0], 'race', 10)]);
      assert.equal(new Set((await pair[0].read('race'))?.value.trim().split('\n')).size, 60);
    });

    it('lets itself be watched, whether it reports changes or not', async () => {
      const { pair } = await connectTwice();
      const stop = pair[0].watch('crm', () => undefined);
      stop();
      stop();
    });

    it('reports changes below a folder, also one that did not exist', {
      skip: !reportsChanges && 'this secrets manager reports no changes',
    }, async () => {
      const { pair } = await connectTwice();
      const changes = recordChanges();
      const stop = pair[0].watch('crm', changes.changed);
      const first = changes.next();
      const version = await pair[1].write('crm/dev/private-key', 'one', null);
      await first;
      const second = changes.next();
      const next = await pair[1].write('crm/dev/private-key', 'two', version);
      await second;
      const third = changes.next();
      await pair[1].delete('crm/dev/private-key', next);
      await third;
      stop();
    });

    it('refuses names that lead elsewhere', async () => {
      const { pair } = await connectTwice();
      for (const bad of [
        '',
        '/',
        '/a',
        'a/',
        'a//b',
        '../a',
        'a/../b',
        'a/./b',
        'a\\b',
        'a\0b',
        'a b',
        '~lock',
        '.a',
      ]) {
        await assert.rejects(pair[0].read(bad), TypeError, bad);
        await assert.rejects(pair[0].write(bad, 'x', null), TypeError, bad);
        await assert.rejects(pair[0].delete(bad, 'x'), TypeError, bad);
        await assert.rejects(pair[0].list(bad), TypeError, bad);
      }
    });

    it('is healthy while it answers', async () => {
      const { pair } = await connectTwice();
      await pair[0].checkHealth();
    });
  });
}

/** Adds lines to a secret as a rotation adds a pair: read, change, write, and again where another was faster. */
export async function addLines(manager: SecretsManager, name: string, count: number): Promise<void> {
  for (let added = 0; added < count; ) {
    const found = await manager.read(name);
    try {
      await manager.write(name, `${found?.value ?? ''}${crypto.randomUUID()}\n`, found?.version ?? null);
      added++;
    } catch (error) {
      if (!(error instanceof VersionConflict)) throw error;
    }
  }
}
