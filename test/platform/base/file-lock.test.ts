import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { acquireFileLock, FileLockHeld } from '../../../src/platform/base/file-lock.ts';

describe('lock file', () => {
  let folder: string;
  const children: ChildProcess[] = [];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handoff-lock-'));
  });
  after(async () => {
    for (const child of children) child.kill('SIGKILL');
    await rm(folder, { recursive: true });
  });
  const start = (...args: string[]) => {
    const child = fork(join(import.meta.dirname, 'hold-lock.ts'), args);
    children.push(child);
    return child;
  };
  const hold = async (path: string) => {
    const child = start('hold', path);
    await once(child, 'message');
    return child;
  };

  it('is held by one at a time, and names the holder and what it protects', async () => {
    const path = join(folder, 'one');
    const lock = await acquireFileLock(path, { purpose: 'handoff serve' });
    const second = acquireFileLock(path, { purpose: 'another', subject: '/srv/.data' });
    await assert.rejects(second, (error: Error) => {
      assert.ok(error instanceof FileLockHeld);
      assert.match(
        error.message,
        /^\/srv\/\.data is in use by process \d+ \(handoff serve, since 2\d{3}-.*Z\)$/,
      );
      return error.holder.pid === process.pid;
    });
    await lock.release();
    await (await acquireFileLock(path, { purpose: 'another' })).release();
  });

  it('leaves nothing behind', async () => {
    const inside = join(folder, 'clean');
    await (await acquireFileLock(inside, { purpose: 'test' })).release();
    assert.deepEqual(
      (await readdir(folder)).filter((name) => name.startsWith('clean')),
      [],
    );
  });

  it('waits for the holder to release', async () => {
    const path = join(folder, 'waiting');
    const first = await acquireFileLock(path, { purpose: 'first' });
    const second = acquireFileLock(path, { purpose: 'second' }, 10_000);
    await first.release();
    await (await second).release();
  });

  it('never removes the lock of another holder', async () => {
    const path = join(folder, 'foreign');
    const first = await acquireFileLock(path, { purpose: 'first' });
    await rm(path);
    const second = await acquireFileLock(path, { purpose: 'second' });
    await first.release();
    await assert.rejects(acquireFileLock(path, { purpose: 'third' }), FileLockHeld);
    await second.release();
  });

  it('respects a living process and replaces one that was killed', async () => {
    const path = join(folder, 'killed');
    const child = await hold(path);
    await assert.rejects(acquireFileLock(path, { purpose: 'test' }), (error: Error) =>
      error.message.includes(`process ${child.pid} (test holder`),
    );
    child.kill('SIGKILL');
    await once(child, 'exit');
    const lock = await acquireFileLock(path, { purpose: 'test' });
    await lock.release();
  });

  it('replaces a holder whose process id now belongs to another process', {
    skip: process.platform !== 'linux',
  }, async () => {
    const path = join(folder, 'reused');
    const child = await hold(path);
    const holder = JSON.parse(await readFile(path, 'utf8'));
    await writeFile(path, JSON.stringify({ ...holder, processStart: 'another boot/1' }));
    await (await acquireFileLock(path, { purpose: 'test' })).release();
    child.kill('SIGKILL');
  });

  it('replaces a file that names nobody', async () => {
    for (const content of ['', '{"pid":', '{}', '[]', '{"pid":-1}']) {
      const path = join(folder, 'torn');
      await writeFile(path, content);
      await (await acquireFileLock(path, { purpose: 'test' })).release();
    }
  });

  it('keeps processes apart that find the lock of a dead one at once, and dead removers too', async () => {
    const path = join(folder, 'counted');
    const dead = await hold(path);
    const deadRemover = await hold(`${path}.break`);
    for (const child of [dead, deadRemover]) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    const number = join(folder, 'number');
    await writeFile(number, '0');
    const counters = Array.from({ length: 5 }, () => start('count', path, number, '10'));
    await Promise.all(counters.map((child) => once(child, 'exit')));
    assert.equal(await readFile(number, 'utf8'), '50');
  });
});
