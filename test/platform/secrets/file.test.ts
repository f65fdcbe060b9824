import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';
import { watchFolder } from '../../../src/platform/secrets/folder-watch.ts';
import { SecretsUnavailable } from '../../../src/platform/secrets/secrets-manager.ts';
import { lostSecretsConformance } from '../../conformance/lost-secrets.ts';
import { secretsManagerConformance } from '../../conformance/secrets-manager.ts';
import { recordChanges } from './changes.ts';

const folders: string[] = [];
after(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
});

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'handoff-secrets-'));
  folders.push(folder);
  return folder;
}

secretsManagerConformance('file', async () => {
  const dir = join(await makeFolder(), 'secrets');
  const script = join(import.meta.dirname, 'add-lines.ts');
  return {
    connect: async () => createFileSecretsManager({ dir }),
    addInAnotherProcess: async (name, count) => {
      await promisify(execFile)(process.execPath, [script, dir, name, String(count)]);
    },
  };
});

let stores = 0;
const parent = await makeFolder();
lostSecretsConformance('file', () => {
  const dir = join(parent, `store-${++stores}`);
  return () => createFileSecretsManager({ dir });
});

describe('secrets as files', () => {
  it('does not take a folder that has vanished for one without secrets', async () => {
    const dir = join(await makeFolder(), 'secrets');
    const manager = createFileSecretsManager({ dir });
    assert.deepEqual(await manager.list('consumers'), []);
    await manager.write('consumers/a', 'x', null);
    await rm(dir, { recursive: true, maxRetries: 5 });
    await assert.rejects(manager.list('consumers'), SecretsUnavailable);
    await assert.rejects(manager.read('consumers/a'), SecretsUnavailable);
    await assert.rejects(manager.checkHealth(), SecretsUnavailable);
    await manager.close();
  });

  it('makes folders that only the owner enters and files that only the owner reads', async () => {
    const dir = join(await makeFolder(), 'data', 'secrets');
    const manager = createFileSecretsManager({ dir });
    await manager.write('crm/dev/private-key', 'x', null);
    const modes = await Promise.all(
      [dir, join(dir, 'crm'), join(dir, 'crm/dev'), join(dir, 'crm/dev/private-key')].map(
        async (path) => (await stat(path)).mode & 0o777,
      ),
    );
    assert.deepEqual(modes, [0o700, 0o700, 0o700, 0o600]);
    assert.deepEqual(await readdir(dir), ['crm', '~writes.lock']);
    assert.deepEqual(await readdir(join(dir, 'crm/dev')), ['private-key']);
  });

  it('reads what was written by hand, newline and all, and follows links', async () => {
    const dir = await makeFolder();
    await mkdir(join(dir, 'crm'));
    await writeFile(join(dir, 'crm/key'), 'by hand\n');
    await symlink('key', join(dir, 'crm/linked'));
    const manager = createFileSecretsManager({ dir });
    assert.equal((await manager.read('crm/linked'))?.value, 'by hand\n');
    assert.deepEqual(await manager.list('crm'), ['crm/key', 'crm/linked']);
    assert.equal(await manager.read('crm'), undefined);
    assert.equal(await manager.read('crm/key/below'), undefined);
  });

  it('lists the others beside a link that leads nowhere', async () => {
    const dir = await makeFolder();
    await mkdir(join(dir, 'consumers'));
    await symlink(join(dir, 'nowhere'), join(dir, 'consumers/con_b'));
    for (const name of ['con_a', 'con_c']) await writeFile(join(dir, 'consumers', name), 'x');
    await symlink('con_c/below', join(dir, 'consumers/con_d'));
    await symlink('con_a', join(dir, 'consumers/con_e'));
    const manager = createFileSecretsManager({ dir });
    assert.deepEqual(await manager.list('consumers'), [
      'consumers/con_a',
      'consumers/con_c',
      'consumers/con_e',
    ]);
  });

  it('leaves locks, drafts and hidden files out of its lists, and survives a draft of a crashed write', async () => {
    const dir = await makeFolder();
    await mkdir(join(dir, 'consumers'));
    for (const name of ['con_a~new', '.DS_Store', '.con_a.swp', '~lock']) {
      await writeFile(join(dir, 'consumers', name), 'rest of a crash');
    }
    const manager = createFileSecretsManager({ dir });
    assert.deepEqual(await manager.list('consumers'), []);
    await manager.write('consumers/con_a', 'whole', null);
    assert.equal((await manager.read('consumers/con_a'))?.value, 'whole');
    assert.ok(!(await readdir(join(dir, 'consumers'))).includes('con_a~new'));
  });

  it('refuses more than 64 KiB, both ways, without showing any of it', async () => {
    const dir = await makeFolder();
    const manager = createFileSecretsManager({ dir });
    const tooLarge = 'é'.repeat(32 * 1024 + 1);
    await manager.write('fits', tooLarge.slice(1), null);
    const namesPath = (error: Error) =>
      error instanceof SecretsUnavailable &&
      error.message.includes(join(dir, 'large')) &&
      !error.message.includes('é');
    await assert.rejects(manager.write('large', tooLarge, null), namesPath);
    await writeFile(join(dir, 'large'), tooLarge);
    await assert.rejects(manager.read('large'), namesPath);
  });

  it('says which path is in the way', async () => {
    const dir = await makeFolder();
    await writeFile(join(dir, 'file'), '');
    const manager = createFileSecretsManager({ dir: join(dir, 'file') });
    await assert.rejects(manager.write('a/b', 'x', null), (error: Error) => {
      return error instanceof SecretsUnavailable && error.message.includes(join(dir, 'file'));
    });
    assert.equal(await manager.read('a/b'), undefined);
  });

  it('reports a folder that cannot be read as unavailable, and one that is not there yet as healthy', async () => {
    const dir = join(await makeFolder(), 'loop');
    const manager = createFileSecretsManager({ dir });
    await manager.checkHealth();
    await symlink('loop', dir);
    for (const work of [
      () => manager.checkHealth(),
      () => manager.list('a'),
      () => manager.read('a'),
      () => manager.write('a', 'x', null),
    ]) {
      await assert.rejects(
        work(),
        (error: Error) => error instanceof SecretsUnavailable && error.message.includes(dir),
      );
    }
  });
});

/** As in two containers: neither process sees that the other one is alive. Needs the rights of root. */
const ownProcessIds = ['--pid', '--fork', '--mount-proc', process.execPath];
const areNamespacesAllowed = await promisify(execFile)('unshare', [...ownProcessIds, '--version']).then(
  () => true,
  () => false,
);
if (!areNamespacesAllowed)
  console.error(
    'SKIPPED: secrets between containers, because namespaces of process ids need the rights of root',
  );

describe('a folder that two containers share', {
  skip: !areNamespacesAllowed && 'no rights to make namespaces of process ids',
}, () => {
  it('loses none of 800 writes', async () => {
    const dir = join(await makeFolder(), 'secrets');
    const script = join(import.meta.dirname, 'add-lines.ts');
    const write = () => promisify(execFile)('unshare', [...ownProcessIds, script, dir, 'consumers/a', '400']);
    await Promise.all([write(), write()]);
    const lines = (await createFileSecretsManager({ dir }).read('consumers/a'))?.value.trim().split('\n');
    assert.equal(new Set(lines).size, 800);
  });
});

describe('watching a folder', () => {
  it('sees edits in place and a folder that was deleted and made again', async () => {
    const folder = join(await makeFolder(), 'a', 'b');
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'x'), '1');
    const changes = recordChanges();
    const stop = watchFolder(folder, changes.changed);
    const edited = changes.next();
    await writeFile(join(folder, 'x'), '2');
    await edited;
    const gone = changes.next();
    await rm(join(folder, '../..'), { recursive: true });
    await gone;
    const back = changes.next();
    await mkdir(folder, { recursive: true });
    await back;
    const again = changes.next();
    await writeFile(join(folder, 'x'), '3');
    await again;
    stop();
  });

  it('sees another folder under its name, as a lost mount leaves one', async () => {
    const folder = join(await makeFolder(), 'a');
    await mkdir(folder);
    const changes = recordChanges();
    const stop = watchFolder(folder, changes.changed);
    const replaced = changes.next();
    await rename(folder, `${folder}-before`);
    await mkdir(folder);
    await replaced;
    const inside = changes.next();
    await writeFile(join(folder, 'x'), '1');
    await inside;
    stop();
  });

  it('compares modification times where the system has no notifications', async () => {
    const folder = await makeFolder();
    const changes = recordChanges();
    const stop = watchFolder(folder, changes.changed, () => {
      throw Object.assign(new Error('no watches left'), { code: 'ENOSPC' });
    });
    const seen = changes.next();
    await writeFile(join(folder, 'x'), '1');
    await utimes(folder, 1, 1);
    await seen;
    stop();
  });
});
