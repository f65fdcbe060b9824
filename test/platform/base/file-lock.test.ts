import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { acquireFileLock, FileLockHeld } from '../../../src/platform/base/files.ts';

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
    const lock = await acquireFileLock(path, { purpose: 'handoff serve', subject: '/srv/.data' });
    await assert.rejects(
      acquireFileLock(path, { purpose: 'another', subject: '/srv/.data' }),
      (error: Error) => {
        assert.ok(error instanceof FileLockHeld);
        assert.match(
          error.message,
          /^\/srv\/\.data is in use by process \d+ \(handoff serve, since 2\d{3}-.*Z\)$/,
        );
        return error.message.includes(`process ${process.pid} (`);
      },
    );
    await lock.release();
    await (await acquireFileLock(path, { subject: path })).release();
  });

  it('leaves an empty file behind, and says nothing of a holder that is not known', async () => {
    const inside = join(folder, 'clean');
    await (await acquireFileLock(inside, { purpose: 'test', subject: inside })).release();
    const left = async () => (await readdir(folder)).filter((name) => name.startsWith('clean'));
    assert.deepEqual(await left(), ['clean.lock']);
    const lock = await acquireFileLock(inside, { subject: inside });
    assert.deepEqual(await left(), ['clean.lock']);
    assert.equal((await stat(join(folder, 'clean.lock'))).size, 0);
    for (const content of ['', '{"pid":', '{}', '[]', '{"pid":-1}']) {
      await writeFile(inside, content);
      await assert.rejects(
        acquireFileLock(inside, { subject: 'it' }),
        /^FileLockHeld: it is in use by another process$/,
      );
    }
    await lock.release();
  });

  it('waits for the holder to release', async () => {
    const path = join(folder, 'waiting');
    const first = await acquireFileLock(path, { subject: path });
    const second = acquireFileLock(path, { subject: path }, 10_000);
    await first.release();
    await (await second).release();
  });

  it('is kept by a process that is stopped, and freed with one that is killed', async () => {
    const path = join(folder, 'killed');
    const child = await hold(path);
    child.kill('SIGSTOP');
    await assert.rejects(acquireFileLock(path, { subject: path }, 100), (error: Error) =>
      error.message.includes(`process ${child.pid} (test holder`),
    );
    child.kill('SIGKILL');
    await once(child, 'exit');
    await (await acquireFileLock(path, { subject: path })).release();
  });

  it('keeps processes apart, of which each dies with the lock', async () => {
    const path = join(folder, 'counted');
    const number = join(folder, 'number');
    await writeFile(number, '0');
    const counters = Array.from({ length: 5 }, () => start('count', path, number, '10'));
    await Promise.all(counters.map((child) => once(child, 'exit')));
    assert.equal(await readFile(number, 'utf8'), '50');
  });
});
